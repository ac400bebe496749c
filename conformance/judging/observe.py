"""What the target made of a scenario: the call, and its answer with the axes named.

Answers that are no tensors of the expected form become a `Judgement` here, once, so that every
kind of claim says the same of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformance.judging import texts
from conformance.language.arithmetic import Array
from conformance.language.axes import ELLIPSIS
from conformance.language.program import Text
from conformance.language.tensors import Named
from conformance.pack.model import Argument
from conformance.plan.scenario import Scenario, Tensors
from conformance.results.records import Judgement, Place
from conformance.session import (
    Call,
    Crashed,
    ModelCall,
    NotOffered,
    OperationCall,
    Outcome,
    Output,
    Raised,
    Returned,
    Step,
    TimedOut,
    Unusable,
)
from conformance.told import told

BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}


@dataclass(frozen=True)
class Observation:
    """The target's tensors, call by call. `failed` says why there are none.

    `shapes` maps an output of a wrong shape to (expected, got); it is then missing from `steps`.
    With `last_only` a model returned its last position's logits, and only those are compared.
    """

    steps: tuple[Tensors, ...] = ()
    failed: Judgement | None = None
    shapes: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    lower: Mapping[str, str] = field(default_factory=dict)
    modified: tuple[str, ...] = ()
    last_only: bool = False
    seconds: float = 0.0


def number_of(scenario: Scenario, value: Any) -> Any:
    """A choice's value as the target sees it: `sqrt(D)` as a number."""
    if isinstance(value, str) and "(" in value:
        result = scenario.reading_of_choice(value)
        return float(result)
    return value


def config(scenario: Scenario) -> dict[str, Any]:
    """The attributes of `config`: sizes by the contract's names, and the variant's fields."""
    fields: dict[str, Any] = {"n_layers": scenario.layers}
    for axis in scenario.pack.program.axes.by_name.values():
        if axis.config and axis.name in scenario.sizes:
            fields[axis.config] = scenario.sizes[axis.name]
    for name in scenario.pack.choices:
        fields[name] = number_of(scenario, scenario.choices[name])
    fields["variant"] = scenario.variant.name
    return fields


def argument(scenario: Scenario, spec: Argument, given: Mapping[str, Named[Array]]) -> Any:
    """The value of one argument; `None` where the case leaves it out."""
    if spec.parameter:
        tensor = scenario.parameters.get(spec.parameter)
        if tensor is None:
            axes = scenario.pack.program.functions[scenario.function].parameters[spec.parameter].axes
            return np.zeros([scenario.sizes[axis] for axis in axes])
        return tensor.array
    if spec.choice:
        return number_of(scenario, scenario.choices[spec.choice])
    if spec.position_of:
        tensor = next(t for t in given.values() if spec.position_of in t.axes)
        i = tensor.axes.index(spec.position_of)
        negative = any(d is not None and d.negative for d in scenario.case.given.values())
        return i - len(tensor.axes) if negative else i
    if spec.everything == "parameters":
        return {name: tensor.array for name, tensor in scenario.parameters.items()}
    if spec.everything == "config":
        return config(scenario)
    tensor = given.get(spec.given)
    if tensor is None:
        return None
    if not tensor.axes:
        return tensor.array.item()
    return laid_out(tensor, spec.axes)


def laid_out(tensor: Named[Array], axes: tuple[str, ...]) -> Array:
    """The array with the argument's axes; an axis that the tensor has not is of size 1.

    Where an argument may come with or without the batch (positions), its own axes decide.
    """
    if not axes or ELLIPSIS in axes or not set(tensor.axes) <= set(axes):
        return tensor.array
    present = [axis for axis in axes if axis in tensor.axes]
    array = tensor.array.transpose([tensor.axes.index(axis) for axis in present])
    sizes = iter(array.shape)
    return array.reshape([next(sizes) if axis in present else 1 for axis in axes])


def call_of(
    scenario: Scenario, *, tap: bool, expect: list[dict[str, tuple[int, ...]]], repetition: int = 0
) -> Call:
    """What the session is asked to do."""
    operation = scenario.operation
    if operation.model:
        steps = tuple(
            Step(_inputs(scenario, given), use_cache=scenario.cached, expect=expected)
            for given, expected in zip(scenario.steps(), expect, strict=True)
        )
        return ModelCall(config(scenario), scenario.sent, steps, tap, repetition)
    values = {a.name: argument(scenario, a, scenario.given) for a in operation.arguments.values()}
    configured = next((a.name for a in operation.arguments.values() if a.everything == "config"), None)
    settings = values.pop(configured) if configured else None
    passed = {
        name: value
        for name, value in values.items()
        if value is not None or not operation.arguments[name].optional
    }
    optional = frozenset(name for name in passed if operation.arguments[name].optional)
    return OperationCall(
        operation.name, passed, optional, expect[0], tap, settings, tuple(operation.outputs), repetition
    )


def _inputs(scenario: Scenario, given: Mapping[str, Named[Array]]) -> dict[str, Any]:
    values = {a.name: argument(scenario, a, given) for a in scenario.operation.arguments.values()}
    return {name: value for name, value in values.items() if value is not None}


def prefix_call(scenario: Scenario, expect: dict[str, tuple[int, ...]]) -> ModelCall:
    """The same prompt as every prefix of it, each a sequence of its own.

    So a model that returns the last position's logits only is graded at every position.
    """
    from conformance.plan.scenario import cut

    steps = []
    for end in range(1, scenario.sizes["query"] + 1):
        given = {name: cut(tensor, 0, end) for name, tensor in scenario.given.items()}
        shape = {name: (sizes[0], 1, *sizes[2:]) for name, sizes in expect.items()}
        steps.append(Step(_inputs(scenario, given), sequence=str(end), expect=shape))
    return ModelCall(config(scenario), scenario.sent, tuple(steps))


def interleaved_call(
    scenario: Scenario, other: Scenario, expect: list[dict[str, tuple[int, ...]]]
) -> ModelCall:
    """Two prompts on one model, call by call in turns, each with a cache of its own."""
    steps = []
    for mine, theirs, expected in zip(scenario.steps(), other.steps(), expect, strict=True):
        steps.append(Step(_inputs(scenario, mine), "one", scenario.cached, expected))
        steps.append(Step(_inputs(other, theirs), "another", scenario.cached, expected))
    return ModelCall(config(scenario), scenario.sent, tuple(steps))


def failure(outcome: Outcome, signature: str) -> Judgement | None:
    """The verdict on a call that gave no tensors, or None where it gave some.

    It names what was called, since nothing else may: neither a hang nor a missing `return` has a line.
    """
    seconds = outcome.seconds
    called = _called(signature)
    match outcome:
        case Returned():
            return None
        case NotOffered(reason=reason):
            return Judgement("unsupported", told(reason), seconds=seconds)
        case Raised(type=kind, message=message, file=file, line=line, text=text):
            place = Place(file, line, text.strip()) if file else None
            where = f" ({file}, line {line})" if file and line else ""
            zh_where = f"（{file}，第 {line} 行）" if file and line else ""
            colon, zh_colon = (": ", "：") if message else ("", "")
            said = f"it raised {kind}{colon}{message}{where}"
            return Judgement(
                "error",
                Text(said, f"抛出异常 {kind}{zh_colon}{told(message).zh}{zh_where}"),
                place=place,
                seconds=seconds,
            )
        case Unusable(expected=expected, got=got):
            return Judgement(
                "error",
                Text(
                    f"{called.en} returned {got}, expected {expected}",
                    f"{called.zh}返回的是 {told(got).zh}，应为 {told(expected).zh}",
                ),
                seconds=seconds,
            )
        case Crashed(how=how):
            ended = Text(f"{called.en} ended its process: {how}", f"{called.zh}使进程终止：{told(how).zh}")
            return Judgement("error", ended, seconds=seconds)
        case TimedOut(after=after, note=note):
            more, zh_more = (f"; {note}", f"；{told(note).zh}") if note else ("", "")
            return Judgement(
                "timeout",
                Text(
                    f"{called.en} gave no answer within {after:g} s{more}",
                    f"{called.zh}在 {after:g} 秒内没有回答{zh_more}",
                ),
                seconds=seconds,
            )
    raise TypeError(f"{type(outcome).__name__} is no outcome; signature {signature}")


def _called(signature: str) -> Text:
    """What a signature calls: a function by its name, and a model as one, since a module has other names."""
    if signature.startswith("Model("):
        return Text("the model", "模型")
    name = signature.partition("(")[0]
    return Text(f"`{name}`", f"`{name}` ")


def observation(scenario: Scenario, outcome: Outcome, expected: list[Tensors], dtype: str) -> Observation:
    """An outcome as named tensors."""
    failed = failure(outcome, scenario.operation.signature)
    if failed is not None or not isinstance(outcome, Returned):
        return Observation(failed=failed)
    steps = []
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    lower: dict[str, str] = {}
    last_only = False
    modified: list[str] = []
    for output, want in zip(outcome.outputs, expected, strict=True):
        outputs = {}
        for name, tensor in want.outputs.items():
            shape = tensor.array.shape
            got = output.shapes.get(name)
            if got is None:
                continue
            if scenario.operation.model and got != shape and got == (shape[0], 1, *shape[2:]):
                last_only = True
            elif got != shape or name not in output.tensors:
                shapes.setdefault(name, (shape, got))
                continue
            if BITS.get(output.dtypes.get(name, dtype), 64) < BITS[dtype]:
                lower[name] = output.dtypes[name]
            outputs[name] = Named(tensor.axes, output.tensors[name])
        steps.append(Tensors(outputs, _taps(scenario, output, want, shapes, last_only)))
        modified += [name for name in output.modified if name not in modified]
    return Observation(tuple(steps), None, shapes, lower, tuple(modified), last_only, outcome.seconds)


def _taps(
    scenario: Scenario,
    output: Output,
    want: Tensors,
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]],
    last_only: bool,
) -> dict[str, Named[Array]]:
    """Tapped tensors under the contract's names; those of a wrong shape go into `shapes`.

    A model that gives its last position's logits may have left the others out before: such a tensor is unseen.
    """
    tensors = scenario.pack.program.tensors
    taps = {}
    for name, array in output.taps.items():
        short = name.rpartition(".")[2]
        if short not in tensors or not tensors[short].offered or name not in want.taps:
            continue
        axes, shape = want.taps[name].axes, want.taps[name].array.shape
        at_last = tuple(1 if axis == "query" else size for axis, size in zip(axes, shape, strict=True))
        if array.shape == shape:
            taps[name] = Named(axes, array)
        elif not last_only or array.shape != at_last:
            shapes.setdefault(name, (shape, array.shape))
    return taps


def wrong_shape(
    name: str, axes: tuple[str, ...], sizes: tuple[tuple[int, ...], tuple[int, ...]]
) -> Judgement:
    """The verdict on an output of a wrong shape."""
    return Judgement("fail", texts.shape(name, axes, *sizes))
