"""σ of every tensor that a claim compares: from the store where it is known, else measured now.

A spread depends on the inputs, the program, the dtype and the noise, never on the target; only a
stage on the target's own tensors has one of its own, and where those tensors are the program's to
within rounding, so is that spread.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformance.language.arithmetic import Array
from conformance.language.axes import SAMPLE
from conformance.language.evaluate import Substitute
from conformance.language.tensors import Named
from conformance.noise import ROUNDOFF, Noise, default_generator, spread
from conformance.plan.scenario import Scenario, Tensors

KEPT = 6
"""Scenarios whose noisy samples are kept: each is 32 times its tensors."""
NEAR = 1e-4
"""Where the target's tensors are this close to the program's (relative RMS), so are the spreads."""

Taps = Sequence[Mapping[str, Named[Array]]]
Reading = Callable[[Scenario], list[Tensors]]


@dataclass
class Spreads:
    """Provides σ. `store` maps a key to an array; what is measured goes into it."""

    expected: Reading
    store: MutableMapping[str, Array] = field(default_factory=dict)
    samples_kept: OrderedDict[tuple[str, str], list[Tensors]] = field(default_factory=OrderedDict)
    measured: dict[tuple[str, str, bool], list[dict[str, Array]]] = field(default_factory=dict)
    stages: dict[tuple[str, str], list[dict[str, Array]]] = field(default_factory=dict)
    near: dict[tuple[str, str], bool] = field(default_factory=dict)

    def samples(self, scenario: Scenario, dtype: str) -> list[Tensors]:
        """The stochastic reading, call by call: arrays with their samples along a first axis."""
        key = (scenario.key, dtype)
        if key not in self.samples_kept:
            self.samples_kept[key] = scenario.read(Noise(dtype, default_generator(scenario.key)))
            if len(self.samples_kept) > KEPT:
                self.samples_kept.popitem(last=False)
        return self.samples_kept[key]

    def sigma(self, scenario: Scenario, dtype: str, step: int, name: str) -> Array:
        """σ of an output or tap of one call."""
        key = f"{scenario.key[:24]}/{dtype}/{step}/{name}"
        if key not in self.store:
            self.store[key] = self._measured(scenario, dtype, name)[step][name]
        return self.store[key]

    def _measured(self, scenario: Scenario, dtype: str, name: str) -> list[dict[str, Array]]:
        """σ of all outputs, or of all taps: most scenarios are asked for their outputs alone."""
        output = any(name in expected.outputs for expected in self.expected(scenario))
        key = (scenario.key, dtype, output)
        if key not in self.measured:
            self.measured[key] = [
                {
                    name: spread(in_order(noisy[name], exact.axes), exact.array)
                    for name, exact in exacts.items()
                }
                for noisy, exacts in (
                    (s.outputs, e.outputs) if output else (s.taps, e.taps)
                    for s, e in zip(self.samples(scenario, dtype), self.expected(scenario), strict=True)
                )
            ]
        return self.measured[key]

    def stage_sigma(
        self, scenario: Scenario, dtype: str, own: Taps, made: Taps, step: int, name: str
    ) -> Array:
        """σ of a stage on the target's own tensors `own`; `made` is what the program makes of them.

        Axes are those of `made`.
        """
        memo = (scenario.key, dtype)
        if memo not in self.near:
            self.near[memo] = self._near(scenario, own)
        near = self.near[memo]
        # Which stages are seen decides what noise reaches this one.
        seen = hashlib.sha256(",".join(sorted(own[step])).encode()).hexdigest()[:12]
        key = f"{scenario.key[:24]}/{dtype}/{step}/{seen}/{name}"
        if near and key in self.store:
            return self.store[key]
        if memo not in self.stages:
            self.stages[memo] = _stage_spreads(scenario, dtype, own, made)
        if near:
            self.store[key] = self.stages[memo][step][name]
        return self.stages[memo][step][name]

    def _near(self, scenario: Scenario, own: Taps) -> bool:
        """Whether every tap is the program's to within rounding, and all of them are there."""
        for step, expected in zip(own, self.expected(scenario), strict=True):
            for name, tensor in step.items():
                want = expected.taps[name].array
                finite = np.isfinite(want)
                with np.errstate(all="ignore"):
                    if finite.all():
                        error, size = tensor.array - want, want
                    else:
                        size = np.where(finite, want, 0.0)
                        error = np.where(finite, tensor.array - size, 0.0)
                    if not _rms(error) <= NEAR * _rms(size):
                        return False
        return True


def _rms(array: Array) -> float:
    return float(np.sqrt(np.add.reduce(array * array, axis=None) / array.size))


def _stage_spreads(scenario: Scenario, dtype: str, own: Taps, made: Taps) -> list[dict[str, Array]]:
    """Every tap of the target perturbed by its own rounding, and each stage's noise on top."""
    noise = Noise(dtype, default_generator(scenario.key))
    samples: list[dict[str, Named[Array]]] = [{} for _ in own]

    def perturbed(array: Array) -> Array:
        lifted = noise.lift(array)
        with np.errstate(all="ignore"):
            noisy = lifted * (1 + ROUNDOFF[dtype] * noise.jitter(lifted.shape))
        return np.where(np.isfinite(lifted), noisy, lifted)

    scenario.read(noise, substitute=lambda i: in_place(own[i], samples[i], perturbed))
    return [
        {name: spread(in_order(s[name], tensor.axes), tensor.array) for name, tensor in m.items()}
        for s, m in zip(samples, made, strict=True)
    ]


def in_order(tensor: Named[Array], axes: Sequence[str]) -> Array:
    """A noisy tensor with its samples first and its axes in the order of `axes`."""
    own = (SAMPLE, *tensor.axes)
    return tensor.array.transpose([own.index(axis) for axis in (SAMPLE, *axes)])


def in_place(
    taps: Mapping[str, Named[Array]], record: dict[str, Named[Any]], prepare: Callable[[Array], Array]
) -> Substitute:
    """Records what the program makes of a stage and puts the target's own tensor in its place."""

    def substitute(name: str, tensor: Named[Any]) -> Named[Any]:
        record[name] = tensor
        own = taps.get(name)
        return tensor if own is None else Named(own.axes, prepare(np.asarray(own.array, dtype=np.float64)))

    return substitute
