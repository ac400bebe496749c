"""σ for a target of very many weights, measured on an excerpt of a scenario.

Sequences of a batch are independent of each other and so are columns of the vocabulary, so the noise of the
first sequence, and of some columns, is measured as anywhere: of a stage with all samples, on the target's own
tensors. Outside of the excerpt a stage is not compared. Of a whole model the noise is measured once, relative
to the size of each tensor, and `BORROWED` times as much is allowed to every scenario.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from conformance.judging.spreads import Spreads, Taps, in_order
from conformance.language.arithmetic import Array
from conformance.language.evaluate import Substitute
from conformance.language.tensors import Named
from conformance.noise import ROUNDOFF, default_generator, spread
from conformance.plan.scenario import Scenario, Tensors
from conformance.stored import Stored, StoredNoise

BORROWED = 8.0
"""How much wider the tolerance is of what was not measured: other sequences, lengths and tokens."""
COLUMNS = 2048
"""Of the vocabulary, in the excerpt, beside its own tokens."""
FEW = 8
"""Samples of a whole model's noise: each row has thousands of elements that share one number."""
BOTH = 2.0**0.5
"""What is expected is read with products in float32, and errs as the target does."""

K = TypeVar("K")
V = TypeVar("V")


class Kept(OrderedDict[K, V]):
    """The few entries used last: each holds megabytes, and can be made again."""

    def __init__(self, most: int) -> None:
        """At most `most` entries."""
        super().__init__()
        self.most = most

    def __getitem__(self, key: K) -> V:
        self.move_to_end(key)
        return super().__getitem__(key)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)


@dataclass(frozen=True)
class Excerpt:
    """The first sequence of a scenario, with `columns` of its vocabulary (None: all)."""

    scenario: Scenario
    columns: Array | None

    @staticmethod
    def of(scenario: Scenario) -> Excerpt:
        """The excerpt of a scenario."""
        given = {name: _first(tensor) for name, tensor in scenario.given.items()}
        sizes = {**scenario.sizes, "batch": 1}
        parameters, columns = dict(scenario.parameters), None
        tokens, vocabulary = given.get("tokens"), sizes.get("vocab", 0)
        if tokens is not None and vocabulary > 2 * COLUMNS:
            evenly = np.linspace(0, vocabulary - 1, COLUMNS).astype(np.int64)
            columns = np.union1d(evenly, tokens.array)
            given["tokens"] = Named(tokens.axes, np.searchsorted(columns, tokens.array))
            sizes["vocab"] = len(columns)
            for name, parameter in parameters.items():
                if "vocab" in parameter.axes:
                    taken = np.take(parameter.array, columns, axis=parameter.axes.index("vocab"))
                    parameters[name] = Named(parameter.axes, taken)
        return Excerpt(
            replace(scenario, given=given, sizes=sizes, parameters=parameters),
            columns,
        )

    def part(self, tensor: Named[Array]) -> Named[Array]:
        """What of a tensor of the whole scenario is in the excerpt."""
        part = _first(tensor)
        if self.columns is not None and "vocab" in part.axes:
            i = part.axes.index("vocab")
            part = Named(part.axes, np.take(part.array, self.columns, axis=i))
        return part

    def whole(self, tensor: Named[Array], sigma: Array) -> Array:
        """σ of a whole tensor from that of its part; infinite outside of it."""
        full = np.full(tensor.array.shape, np.inf)
        index: list[slice | Array] = [slice(None)] * full.ndim
        if "batch" in tensor.axes:
            index[tensor.axes.index("batch")] = slice(0, 1)
        if self.columns is not None and "vocab" in tensor.axes:
            index[tensor.axes.index("vocab")] = self.columns
        full[tuple(index)] = sigma
        return full


def _first(tensor: Named[Array]) -> Named[Array]:
    """A tensor of the first sequence of a batch."""
    if "batch" not in tensor.axes:
        return tensor
    return Named(tensor.axes, np.take(tensor.array, [0], axis=tensor.axes.index("batch")))


@dataclass
class LargeSpreads(Spreads):
    """See the module. `relative` holds, for each operation and dtype, the noise of each tensor by its RMS."""

    relative: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    sums: dict[tuple[str, str, int, str], float] = field(default_factory=dict)
    excerpt: Excerpt | None = None
    """That of `stages`."""
    staged: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    """As `relative`, of each stage on the target's own tensors."""

    def samples(self, scenario: Scenario, dtype: str) -> list[Tensors]:
        """Not kept for a large target: nothing that asks for them is graded there."""
        raise NotImplementedError(f"the noise of {scenario.name} in {dtype} is not kept, sample by sample")

    def sigma(self, scenario: Scenario, dtype: str, step: int, name: str) -> Array:
        """σ of an output or tap of one call: `BORROWED` times its size by the noise measured of the model."""
        operation = (scenario.operation.name, dtype)
        if operation not in self.relative:
            self.relative[operation] = _relative(scenario, dtype)
        tensor = self.expected(scenario)[step].find(name)
        assert tensor is not None
        key = (scenario.key, dtype, step, name)
        if key not in self.sums:
            self.sums[key] = _size(tensor.array)
        relative = self.relative[operation].get(name, 0.0)
        return np.broadcast_to(BORROWED * relative * self.sums[key], tensor.array.shape)

    def stage_sigma(
        self, scenario: Scenario, dtype: str, own: Taps, made: Taps, step: int, name: str
    ) -> Array:
        """σ of a stage on the target's own tensors, in the excerpt; infinite outside of it."""
        memo = (scenario.key, dtype)
        if memo not in self.stages:
            self.stages.clear()
            self.excerpt = Excerpt.of(scenario)
            self.stages[memo] = _stages(self.excerpt, scenario.key, dtype, own, made)
            self.staged.setdefault(
                (scenario.operation.name, dtype), _by_size(self.stages[memo], made, self.excerpt)
            )
        assert self.excerpt is not None
        return self.excerpt.whole(made[step][name], self.stages[memo][step][name])

    def near_stage_sigma(
        self, scenario: Scenario, dtype: str, own: Taps, made: Taps, step: int, name: str
    ) -> Array:
        """σ of a stage, of which no verdict depends: once measured of a scenario, as much for others by their size.

        32 samples of every stage take longer than all calls of the target together, and each failure is looked at.
        """
        known = self.staged.get((scenario.operation.name, dtype), {}).get(name)
        if known is None or (scenario.key, dtype) in self.stages:
            return self.stage_sigma(scenario, dtype, own, made, step, name)
        array = made[step][name].array
        return np.broadcast_to(BORROWED * known * _size(array), array.shape)


def _by_size(sigmas: Sequence[Mapping[str, Array]], made: Taps, excerpt: Excerpt) -> dict[str, float]:
    """The worst row of each σ by the size of its tensor in the excerpt."""
    found: dict[str, float] = {}
    for sigma, step in zip(sigmas, made, strict=True):
        for name, rows in sigma.items():
            size = _size(excerpt.part(step[name]).array)
            finite = np.where(np.isfinite(rows), rows, 0.0)
            worst = float(np.sqrt(np.mean(finite * finite, axis=-1)).max(initial=0.0))
            found[name] = max(found.get(name, 0.0), worst / size if size > 0 else 0.0)
    return found


def _relative(scenario: Scenario, dtype: str) -> dict[str, float]:
    """The noise of each output and tap: the RMS deviation of its worst row, by the RMS of all of it."""
    part = Excerpt.of(scenario).scenario
    exact = part.read(Stored())
    noise = StoredNoise(dtype, default_generator(scenario.key), FEW)
    found: dict[str, float] = {}
    for want, noisy in zip(exact, part.read(noise), strict=True):
        for exacts, samples in ((want.taps, noisy.taps), (want.outputs, noisy.outputs)):
            for name, tensor in exacts.items():
                rows = spread(in_order(samples[name], tensor.axes), tensor.array)
                size = _size(tensor.array)
                with np.errstate(all="ignore"):
                    worst = float(np.sqrt(np.mean(rows * rows, axis=-1)).max(initial=0.0))
                found[name] = max(found.get(name, 0.0), worst / size if size > 0 else 0.0)
    return found


def _size(array: Array) -> float:
    """The RMS of what is finite."""
    if array.dtype.kind != "f":
        return 0.0
    finite = np.isfinite(array)
    numbers = array if finite.all() else array[finite]
    return float(np.sqrt(np.mean(np.square(numbers, dtype=np.float64)))) if numbers.size else 0.0


def _stages(excerpt: Excerpt, key: str, dtype: str, own: Taps, made: Taps) -> list[dict[str, Array]]:
    """σ of each stage in the excerpt, every tensor of the target perturbed by its own rounding."""
    noise = StoredNoise(dtype, default_generator(key))
    found: list[dict[str, Array]] = [{} for _ in own]

    def perturbed(array: Array) -> Array:
        lifted = noise.lift(np.asarray(array, np.float64))
        with np.errstate(all="ignore"):
            noisy = lifted * (1 + ROUNDOFF[dtype] * noise.jitter(lifted.shape))
        return np.where(np.isfinite(lifted), noisy, lifted)

    def measured(
        taps: Mapping[str, Named[Array]], exact: Mapping[str, Named[Array]], sigmas: dict[str, Array]
    ) -> Substitute:
        def substitute(name: str, tensor: Named[Array]) -> Named[Array]:
            want = excerpt.part(exact[name])
            sigmas[name] = BOTH * spread(in_order(tensor, want.axes), want.array)
            if name not in taps:
                return tensor
            part = excerpt.part(taps[name])
            return Named(part.axes, perturbed(part.array))

        return substitute

    excerpt.scenario.read(noise, substitute=lambda i: measured(own[i], made[i], found[i]), keep_taps=False)
    return found
