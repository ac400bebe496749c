"""What every kind of claim does first: the target's tensors, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from conformance.judging import texts
from conformance.judging.bench import Bench
from conformance.judging.compare import Comparison
from conformance.judging.observe import Observation, wrong_shape
from conformance.language.arithmetic import Array, Float64
from conformance.language.expression import Expression
from conformance.language.program import Text
from conformance.language.tensors import Named, Operations
from conformance.pack.model import Claim
from conformance.plan.scenario import Scenario
from conformance.results.records import Judgement


@dataclass(frozen=True)
class Question:
    """One claim on one scenario in one dtype, and the bench that knows the tensors."""

    claim: Claim
    scenario: Scenario
    dtype: str
    bench: Bench

    def observation(self) -> Observation:
        """What the target made of the scenario."""
        return self.bench.observe(self.scenario, self.dtype)

    def unusable(self, seen: Observation, *outputs: str) -> Judgement | None:
        """The verdict where an output is missing, of a wrong shape, or of too low a dtype."""
        if seen.failed is not None:
            return seen.failed
        for name in outputs:
            if name in seen.shapes:
                axes = self.bench.expected(self.scenario)[0].outputs[name].axes
                return wrong_shape(name, axes, seen.shapes[name])
            if name in seen.lower:
                came = seen.lower[name]
                return Judgement(
                    "fail",
                    Text(
                        f"`{name}` came as {came}, {self.dtype} was declared",
                        f"`{name}` 的精度为 {came}，声明的是 {self.dtype}",
                    ),
                )
            if any(name not in step.outputs for step in seen.steps):
                return Judgement("unsupported", texts.unseen(name))
        return None

    def counted(self, step: int, tensor: Named[Array], extra: Expression | None = None) -> Array | None:
        """Where a tensor is compared: not at padded queries, and where `extra` holds."""
        what = ("counted", step, tensor.axes, tensor.array.shape, extra and extra.text)
        return self.bench.prepared.of(self.scenario, what, lambda: self._counted(step, tensor, extra))

    def _counted(self, step: int, tensor: Named[Array], extra: Expression | None) -> Array | None:
        axes = tensor.axes
        masks = []
        for axis, expression in self.scenario.operation.real.items():
            if axis in axes and "attention_mask" in self.scenario.given:
                mask = self.mask(step, expression)
                # An encoder's queries are those of the source, which has no padding.
                if mask.array.shape[mask.axes.index(axis)] == tensor.array.shape[axes.index(axis)]:
                    masks.append(mask)
        if extra is not None:
            masks.append(self.mask(step, extra))
        if not masks:
            return None
        operations = Operations(Float64())
        total = masks[0]
        for mask in masks[1:]:
            total = operations.elementwise("and", total, mask)
        return spread_over(total, axes)

    def mask(self, step: int, expression: Expression) -> Named[Array]:
        """A boolean expression over the inputs of one call and the program's own tensors."""
        what = ("mask", step, expression.text)
        return self.bench.prepared.of(self.scenario, what, lambda: self._mask(step, expression))

    def _mask(self, step: int, expression: Expression) -> Named[Array]:
        expected = self.bench.expected(self.scenario)[step]
        given = self.scenario.steps()[step]
        names = {**{n.rpartition(".")[2]: t for n, t in expected.taps.items()}, **expected.outputs, **given}
        return self.scenario.evaluate(expression, names)


def spread_over(mask: Named[Array], axes: tuple[str, ...]) -> Array:
    """A mask as an array that broadcasts against a tensor of `axes`."""
    unknown = [axis for axis in mask.axes if axis not in axes]
    array = mask.array
    names = list(mask.axes)
    for axis in unknown:  # what is asked along an axis that the tensor has not must hold for all of it
        array = np.all(array, axis=names.index(axis))
        names.remove(axis)
    order = [axis for axis in axes if axis in names]
    array = array.transpose([names.index(axis) for axis in order])
    sizes = iter(array.shape)
    return np.asarray(array.reshape([next(sizes) if axis in order else 1 for axis in axes]))


def last_position(tensor: Named[Array]) -> Named[Array]:
    """The last query of a tensor, its axis kept."""
    i = tensor.axes.index("query")
    return Named(tensor.axes, np.take(tensor.array, [-1], axis=i))


def at_last_position(
    want: Named[Array], allowed: Named[Array], counts: Array | None
) -> tuple[Named[Array], Named[Array], Array | None]:
    """What a model that returned its last position alone is compared with: expected, tolerance, which elements count."""
    if counts is not None and counts.shape[want.axes.index("query")] > 1:
        counts = spread_over(last_position(Named(want.axes, counts)), want.axes)
    return last_position(want), last_position(allowed), counts


def prefixes(names: Iterator[str] | dict[str, Named[Array]], tensor: str) -> list[str]:
    """The taps that are called `tensor`, with their prefixes, in order."""
    return [name for name in names if name.rpartition(".")[2] == tensor]


def judged(comparisons: list[Comparison]) -> Judgement:
    """One verdict of several comparisons: the worst of them."""
    compared = [c for c in comparisons if c.margin is not None]
    if not compared:
        return Judgement("unsupported", texts.nothing_to_compare())
    worst = max(compared, key=lambda c: c.margin or 0.0)
    assert worst.margin is not None
    if worst.agrees or worst.evidence is None:
        return Judgement("pass", texts.agrees(worst.margin), worst.margin)
    return Judgement("fail", texts.differs(worst.evidence, worst.margin), worst.margin, worst.evidence)
