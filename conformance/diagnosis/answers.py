"""What a target answered to a question: which of it counts, and whether it is right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.diagnosis.fit import FITS, margin
from conformance.judging.common import Question, spread_over
from conformance.language.arithmetic import Array
from conformance.language.program import Choices, Mistake, Program
from conformance.language.tensors import Named

Place = tuple[str, str, str]


def concerns(program: Program, mistake: Mistake, choices: Choices) -> bool:
    """Whether a mistake is about a variant: of equations that it replaces by choice, one changes.

    A mistake about RoPE that also counts positions differently says nothing of a variant without.
    """
    chosen = [(key, equation) for key, equation in mistake.replace.items() if equation.by]
    for (function, tensor), equation in chosen:
        own = equation.pick(choices)
        old = program.functions[function].equation(tensor)
        true = old.pick(choices) if old is not None else None
        if own is not None and (true is None or own.text != true.text):
            return True
    return not chosen


def place_of(question: Question) -> Place:
    """Where one cause is looked for: an operation in a variant and dtype."""
    return question.scenario.operation.name, question.scenario.variant.name, question.dtype


def counted(question: Question) -> list[dict[str, Array | None]]:
    """Which elements of each output count: not padded queries, not rows that no convention binds."""
    undefined = question.scenario.operation.undefined
    result = []
    for i, step in enumerate(question.bench.expected(question.scenario)):
        masks: dict[str, Array | None] = {}
        for name, tensor in step.outputs.items():
            mask = question.counted(i, tensor)
            if undefined is not None:
                defined = ~spread_over(question.mask(i, undefined), tensor.axes)
                mask = defined if mask is None else mask & defined
            masks[name] = mask
        result.append(masks)
    return result


def overflowed(question: Question) -> bool:
    """Whether what came back is NaN or Inf where a number is expected."""
    for _, _, got, want, counts in _answers(question):
        finite = np.isfinite(np.asarray(got.array, np.float64))
        if got.array.shape == want.array.shape:
            finite = finite | (counts is not None and ~np.broadcast_to(counts, finite.shape))
        if not finite.all():
            return True
    return False


def right(question: Question) -> bool:
    """Whether what came back is what the true program makes."""
    for i, name, got, want, counts in _answers(question):
        if got.array.shape != want.array.shape:
            continue
        if (
            margin(got, want, question.bench.allowed(question.scenario, question.dtype, i, name), counts)
            > FITS
        ):
            return False
    return True


def _answers(question: Question) -> Iterator[tuple[int, str, Named[Array], Named[Array], Array | None]]:
    """Call, name, what came, what is expected and which elements count, of each output; none of a failed call."""
    seen = question.observation()
    if seen.failed is not None or not seen.steps:
        return
    expected = question.bench.expected(question.scenario)
    for i, (step, want, counts) in enumerate(zip(seen.steps, expected, counted(question), strict=True)):
        for name, got in step.outputs.items():
            yield i, name, got, want.outputs[name], counts[name]
