"""Variants, operations, cases and claims from their YAML files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conformance.language.axes import AxisTable
from conformance.language.errors import Location, PackError, suggestion
from conformance.language.expression import parse
from conformance.language.program import Program, key_of
from conformance.pack import documents as d
from conformance.pack.decode import convert, entries, items, only
from conformance.pack.model import (
    DTYPES,
    LEVELS,
    RUNGS,
    Argument,
    Case,
    ChoiceField,
    Claim,
    Draw,
    Either,
    Operation,
    Statement,
    Variant,
)
from conformance.pack.program_files import text, when
from conformance.pack.yaml_source import Source

_NUMBERS: Mapping[str, Callable[[float], bool]] = {
    "positive": lambda value: value > 0,
    "fraction": lambda value: 0 < value <= 1,
    "whole": lambda value: value >= 1 and float(value).is_integer(),
}
_NUMBER_SAID = {
    "positive": "a positive number",
    "fraction": "a number above 0 and at most 1",
    "whole": "a whole number from 1 on",
}
_DRAW_FORMS = ("normal", "integers", "values", "expression", "left_padding", "tokens", "start")


def choice_fields(source: Source) -> dict[str, ChoiceField]:
    """The free choices of `variants.yaml`. Raises `PackError`."""
    only(source, "choices", "variants")
    fields = {}
    for name in entries(source, "choices"):
        document = convert(source, ("choices", name), d.ChoiceDocument)
        at = source.at("choices", name)
        if not document.values and not document.number:
            raise PackError(f"the choice '{name}' needs values, or number: {' or '.join(_NUMBERS)}", at)
        fields[name] = ChoiceField(name, document.default, tuple(document.values), document.number, at)
    return fields


def choices_of(
    given: Mapping[str, Any], fields: Mapping[str, ChoiceField], base: Mapping[str, Any], at: Location
) -> dict[str, Any]:
    """`base` (or the defaults) with `given` laid over it. Raises `PackError` for a bad value."""
    result = {name: field.default for name, field in fields.items()} | dict(base)
    for name, value in given.items():
        if name not in fields:
            raise PackError(f"unknown choice '{name}'", at, suggestion(name, fields))
        result[name] = _chosen(fields[name], value, at)
    return result


def _chosen(field: ChoiceField, value: Any, at: Location) -> Any:
    """The value of a choice, as the pack writes it. Raises `PackError` for one that it may not have."""
    for allowed in field.values:
        if key_of(allowed) == key_of(value):
            return allowed
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if field.number and number and _NUMBERS[field.number](value):
        return value
    keys = [key_of(allowed) for allowed in field.values]
    if not field.number:
        raise PackError(
            f"{field.name}: {value!r} is not one of {', '.join(keys)}", at, suggestion(str(value), keys)
        )
    besides = f"neither {', '.join(keys)} nor" if keys else "not"
    raise PackError(f"{field.name}: {value!r} is {besides} {_NUMBER_SAID[field.number]}", at)


def variants(source: Source, fields: Mapping[str, ChoiceField]) -> dict[str, Variant]:
    """The named variants of `variants.yaml`. Raises `PackError`."""
    found = {}
    for name in entries(source, "variants"):
        at = source.at("variants", name)
        says = convert(source, ("variants", name, "says"), d.TextDocument)
        data = {key: value for key, value in source.data["variants"][name].items() if key != "says"}
        found[name] = Variant(name, choices_of(data, fields, {}, at), text(says))
    return found


def operations(source: Source, program: Program, fields: Mapping[str, ChoiceField]) -> dict[str, Operation]:
    """`operations.yaml`. Raises `PackError`."""
    only(source, "operations")
    found = {}
    for name in entries(source, "operations"):
        at = source.at("operations", name)
        document = convert(source, ("operations", name), d.OperationDocument)
        if document.rung not in RUNGS:
            raise PackError(f"'{document.rung}' is no rung", at, suggestion(document.rung, RUNGS))
        function = program.function(document.function, at)
        arguments = {
            key: _argument(
                key,
                value,
                key in document.optional,
                program.axes,
                source.at("operations", name, "arguments", key),
            )
            for key, value in document.arguments.items()
        }
        inputs = set(function.given)
        if document.with_context:
            inputs |= set(program.function(document.with_context, at).given)
        for argument in arguments.values():
            if argument.given and argument.given not in inputs:
                raise PackError(
                    f"{function.name} has no input '{argument.given}'", at, suggestion(argument.given, inputs)
                )
        for choice in (*document.choices, *document.either):
            if choice not in fields:
                raise PackError(f"unknown choice '{choice}'", at, suggestion(choice, fields))
        found[name] = Operation(
            name,
            document.rung,
            document.function,
            arguments,
            {key: program.axes.parse(axes, at) for key, axes in document.outputs.items()},
            tuple(document.optional_outputs),
            text(document.says),
            document.signature,
            document.with_context,
            dict(document.choices),
            {key: _either(value) for key, value in document.either.items()},
            document.needs_variant,
            document.model,
            {axis: parse(expression, at) for axis, expression in document.real.items()},
            parse(document.undefined, at) if document.undefined else None,
            at,
        )
    return found


def _either(value: d.EitherDocument) -> Either:
    among = value.among or value.undeclared
    return Either(tuple(value.undeclared), tuple(key_of(v) for v in among), when(value.when))


def _argument(
    name: str, value: str | d.ArgumentDocument, optional: bool, axes: AxisTable, at: Location
) -> Argument:
    if isinstance(value, str):
        return Argument(name, axes.parse(value, at), given=name, optional=optional)
    sources = [s for s in (value.parameter, value.choice, value.position_of, value.everything) if s]
    if len(sources) > 1:
        raise PackError(f"the argument '{name}' has more than one source", at)
    given = value.given or ("" if sources else name)
    return Argument(
        name,
        axes.parse(value.axes, at),
        given,
        value.parameter,
        value.choice,
        value.position_of,
        value.everything,
        optional,
    )


def draw(value: d.DrawDocument | d.Scalar | None, axes: AxisTable, at: Location) -> Draw | None:
    """One input of a case; None leaves it out. Raises `PackError`."""
    if value is None:
        return None
    if not isinstance(value, d.DrawDocument):
        return Draw("constant", value)
    forms = [f for f in _DRAW_FORMS if _said(getattr(value, f))]
    if len(forms) != 1:
        raise PackError(f"exactly one of {', '.join(_DRAW_FORMS)} is needed".replace("expression", "is"), at)
    content = getattr(value, forms[0])
    if forms[0] == "expression":
        content = parse(content, at)
    return Draw(forms[0], content, axes.parse(value.axes, at), value.negative)


def _said(value: Any) -> bool:
    """Whether a field was written: 0 and an empty list were, None, False and "" are its defaults."""
    return value is not None and value is not False and value != ""


def cases(source: Source, program: Program, known: Mapping[str, Operation]) -> dict[str, Case]:
    """One file under `cases/`. Raises `PackError`."""
    only(source, "cases")
    found: dict[str, Case] = {}
    symbols = set(program.axes.by_symbol) | {"N", "T"}
    for i in items(source, "cases"):
        document = convert(source, ("cases", i), d.CaseDocument)
        at = source.at("cases", i)
        if document.of not in known:
            raise PackError(f"unknown operation '{document.of}'", at, suggestion(document.of, known))
        if document.id in found:
            raise PackError(f"the case '{document.id}' stands twice", at)
        for symbol in document.sizes:
            if symbol not in symbols:
                raise PackError(f"unknown size '{symbol}'", at, suggestion(symbol, symbols))
        given = {
            key: draw(value, program.axes, source.at("cases", i, "given", key))
            for key, value in document.given.items()
        }
        parameters = {}
        for key, value in document.parameters.items():
            made = draw(value, program.axes, source.at("cases", i, "parameters", key))
            assert made is not None
            parameters[key] = made
        found[document.id] = Case(
            document.id,
            document.of,
            text(document.purpose),
            dict(document.sizes),
            given,
            parameters,
            dict(document.choices),
            when(document.when),
            tuple(document.schedule),
            tuple(document.tags),
            tuple(document.dtypes),
            document.published,
            at,
        )
        for dtype in document.dtypes:
            if dtype not in DTYPES:
                raise PackError(f"unknown dtype '{dtype}'", at, suggestion(dtype, DTYPES))
    return found


def claims(source: Source, known: Mapping[str, Operation], questions: Mapping[str, Any]) -> dict[str, Claim]:
    """One file under `claims/`. Raises `PackError`."""
    only(source, "question", "claims")
    question = source.data.get("question", "") if isinstance(source.data, dict) else ""
    if question not in questions:
        raise PackError(
            f"unknown question '{question}'", source.at("question"), suggestion(str(question), questions)
        )
    found: dict[str, Claim] = {}
    for i in items(source, "claims"):
        document = convert(source, ("claims", i), d.ClaimDocument)
        at = source.at("claims", i)
        if document.id in found:
            raise PackError(f"the claim '{document.id}' stands twice", at)
        found[document.id] = _claim(document, question, known, at)
    return found


def _claim(document: d.ClaimDocument, question: str, known: Mapping[str, Operation], at: Location) -> Claim:
    if document.of not in known:
        raise PackError(f"unknown operation '{document.of}'", at, suggestion(document.of, known))
    bodies = {kind: getattr(document, kind) for kind in d.KINDS if getattr(document, kind) is not None}
    if len(bodies) != 1:
        raise PackError(
            f"'{document.id}' has {'no kind' if not bodies else 'the kinds ' + ', '.join(bodies)}",
            at,
            f"exactly one of {', '.join(d.KINDS)} is needed",
        )
    ((kind, body),) = bodies.items()
    if document.level not in LEVELS:
        raise PackError(f"'{document.level}' is no level", at, "MUST, SHOULD or MAY")
    rung = document.rung or known[document.of].rung
    if rung not in RUNGS:
        raise PackError(f"'{rung}' is no rung", at, suggestion(rung, RUNGS))
    prefix = f"{question.lower()}."
    if not document.id.startswith(prefix):
        raise PackError(f"the id '{document.id}' should begin with '{prefix}'", at)
    return Claim(
        document.id,
        question,
        rung,
        document.level,
        tuple(document.statements),
        document.of,
        text(document.title),
        text(document.says),
        document.source,
        tuple(document.cases),
        when(document.when),
        parse(document.where, at) if document.where else None,
        kind,
        body,
        at,
    )


def statements(source: Source) -> dict[str, Statement]:
    """`statements.yaml`. Raises `PackError`."""
    only(source, "statements")
    found = {}
    for name in entries(source, "statements"):
        document = convert(source, ("statements", name), d.StatementDocument)
        at = source.at("statements", name)
        if document.settled not in ("T", "I", "S"):
            raise PackError(f"'{name}' is settled by T, I or S, not {document.settled}", at)
        if document.settled == "I" and document.reason is None:
            raise PackError(f"'{name}' is informative and needs the reason why no test can settle it", at)
        reason = text(document.reason) if document.reason else None
        found[name] = Statement(name, document.settled, text(document.says), reason, at)
    return found
