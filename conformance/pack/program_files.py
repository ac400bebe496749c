"""Axes, tensors and functions from their YAML files: the program of a pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.language.axes import Axis, AxisTable
from conformance.language.errors import Location, PackError, suggestion
from conformance.language.expression import parse
from conformance.language.program import (
    RESULT,
    Equation,
    Function,
    Given,
    Mistake,
    Parameter,
    Program,
    Remembered,
    TensorName,
    Text,
    key_of,
)
from conformance.pack import documents as d
from conformance.pack.decode import convert, entries, items, only
from conformance.pack.yaml_source import Key, Source


def when(conditions: d.When) -> dict[str, tuple[str, ...]]:
    """`{bias: [qkv, all]}` with values as keys name them."""
    return {
        name: tuple(key_of(v) for v in (values if isinstance(values, list) else [values]))
        for name, values in conditions.items()
    }


def text(document: d.TextDocument) -> Text:
    """Both languages."""
    return Text(document.en.strip(), document.zh.strip())


def axis_table(source: Source) -> AxisTable:
    """`axes.yaml`. Raises `PackError`."""
    only(source, "axes")
    axes = {}
    for name in entries(source, "axes"):
        axis = convert(source, ("axes", name), d.AxisDocument)
        axes[name] = Axis(
            name, axis.size, tuple(axis.parts), axis.length, axis.config, source.at("axes", name)
        )
    return AxisTable.of(axes)


def tensor_names(source: Source, axes: AxisTable) -> dict[str, TensorName]:
    """`tensors.yaml`. Raises `PackError`."""
    only(source, "tensors")
    tensors = {}
    for name in entries(source, "tensors"):
        tensor = convert(source, ("tensors", name), d.TensorDocument)
        at = source.at("tensors", name)
        tensors[name] = TensorName(
            name, axes.parse(tensor.axes, at), tuple(tensor.of.split()), text(tensor.says), tensor.offered, at
        )
    return tensors


def equation(source: Source, path: tuple[Key, ...], name: str, value: d.Scalar | d.Choice) -> Equation:
    """The equation at `path`: `expression`, `{by: …, value: expression}` or `{is: …, at_least: float32}`."""
    at = source.at(*path)
    if not isinstance(value, dict):
        return Equation(name, {"": parse(_expression(value), at)}, at=at)
    rest = dict(value)
    by = str(rest.pop("by", ""))
    precision = rest.pop("at_least", "")
    if precision not in ("", "float32"):
        raise PackError(f"at_least: {precision} is not known; only float32 is", source.at(*path, "at_least"))
    if not by and set(rest) != {"is"}:
        raise PackError(f"'{name}' needs 'by:' (a choice) or 'is:'", at)
    if not rest:
        raise PackError(f"'{name}' has no expression for any value of {by}", at)
    alternatives = {
        key if by else "": parse(_expression(expression), source.at(*path, key))
        for key, expression in rest.items()
    }
    return Equation(name, alternatives, by, bool(precision), at)


def _expression(value: d.Scalar) -> str | float:
    return str(value) if isinstance(value, bool) else value


def functions(source: Source, axes: AxisTable) -> tuple[dict[str, Function], dict[str, Mistake]]:
    """One file under `program/`. Raises `PackError`."""
    only(source, "functions")
    found: dict[str, Function] = {}
    mistakes: dict[str, Mistake] = {}
    for name in entries(source, "functions"):
        path = ("functions", name)
        document = convert(source, path, d.FunctionDocument)
        found[name] = _function(source, name, document, axes)
        for i, mistake in enumerate(document.mistakes):
            if mistake.id in mistakes:
                raise PackError(f"the mistake '{mistake.id}' stands twice", source.at(*path, "mistakes", i))
            mistakes[mistake.id] = _mistake(source, (*path, "mistakes", i), name, mistake)
    return found, mistakes


def _function(source: Source, name: str, document: d.FunctionDocument, axes: AxisTable) -> Function:
    def at(*rest: str) -> Location:
        return source.at("functions", name, *rest)

    given = {}
    for key, value in document.given.items():
        here = at("given", key)
        entry = d.GivenDocument(value) if isinstance(value, str) else value
        otherwise = None if entry.otherwise is None else parse(_expression(entry.otherwise), here)
        given[key] = Given(axes.parse(entry.axes, here), otherwise, entry.kind, here)
    parameters = {}
    for key, parameter in document.parameters.items():
        here = at("parameters", key)
        trained = d.ParameterDocument(parameter) if isinstance(parameter, str) else parameter
        parameters[key] = Parameter(axes.parse(trained.axes, here), when(trained.when), trained.like, here)
    remember = {}
    for key, state in document.remember.items():
        here = at("remember", key)
        first = None if state.first is None else parse(_expression(state.first), here)
        remember[key] = Remembered(
            axes.parse(state.axes, here), parse(_expression(state.value), here), first, here
        )
    let = tuple(
        equation(source, ("functions", name, "let", key), key, value) for key, value in document.let.items()
    )
    result = equation(source, ("functions", name, RESULT), RESULT, document.result)
    gives = axes.parse(document.gives, at("gives"))
    return Function(name, given, parameters, remember, let, result, gives, at())


def _mistake(source: Source, path: tuple[Key, ...], home: str, document: d.MistakeDocument) -> Mistake:
    replace = {}
    for key, value in document.replace.items():
        function, _, tensor = key.rpartition(".")
        replace[(function or home, tensor)] = equation(source, (*path, "replace", key), tensor, value)
    free = {name: tuple(str(v) for v in values) for name, values in document.free.items()}
    return Mistake(document.id, replace, text(document.says), document.kind, free, source.at(*path))


def mistake_file(source: Source) -> dict[str, Mistake]:
    """One file under `mistakes/`. Raises `PackError`."""
    only(source, "mistakes")
    found: dict[str, Mistake] = {}
    for i in items(source, "mistakes"):
        document = convert(source, ("mistakes", i), d.MistakeDocument)
        if document.id in found:
            raise PackError(f"the mistake '{document.id}' stands twice", source.at("mistakes", i))
        found[document.id] = _mistake(source, ("mistakes", i), document.of, document)
    return found


def program(
    axes_source: Source,
    tensors_source: Source,
    sources: Sequence[Source],
    mistake_sources: Sequence[Source] = (),
) -> Program:
    """The whole program. Raises `PackError`."""
    axes = axis_table(axes_source)
    tensors = tensor_names(tensors_source, axes)
    all_functions: dict[str, Function] = {}
    all_mistakes: dict[str, Mistake] = {}
    for source in sources:
        found, mistakes = functions(source, axes)
        _disjoint(all_functions, found, "function")
        _disjoint(all_mistakes, mistakes, "mistake")
        all_functions.update(found)
        all_mistakes.update(mistakes)
    for source in mistake_sources:
        mistakes = mistake_file(source)
        _disjoint(all_mistakes, mistakes, "mistake")
        all_mistakes.update(mistakes)
    for tensor in tensors.values():
        for function in tensor.functions:
            if function not in all_functions:
                raise PackError(
                    f"'{tensor.name}' is said to be of an unknown function '{function}'",
                    tensor.at,
                    suggestion(function, all_functions),
                )
    for mistake in all_mistakes.values():
        for function, _ in mistake.replace:
            if function not in all_functions:
                raise PackError(
                    f"the mistake '{mistake.id}' patches an unknown function '{function}'",
                    mistake.at,
                    suggestion(function, all_functions),
                )
    return Program(axes, all_functions, tensors, all_mistakes)


def _disjoint(
    old: Mapping[str, Function | Mistake], new: Mapping[str, Function | Mistake], what: str
) -> None:
    for name in new:
        if name in old:
            raise PackError(f"the {what} '{name}' stands at {old[name].at} already", new[name].at)
