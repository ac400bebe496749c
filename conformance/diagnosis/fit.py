"""How well a mistake explains what a target returned: the worst error, in tolerances.

The patched program is read on the same inputs. It fits where every element of every output agrees
within the tolerance that the patched program itself has; a mistake that changes nothing on these
inputs explains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from conformance.diagnosis.one_stage import stages_made
from conformance.judging.bench import Bench
from conformance.judging.common import last_position
from conformance.judging.observe import Observation
from conformance.judging.spreads import in_order
from conformance.language.arithmetic import Array, Native
from conformance.language.errors import PackError
from conformance.language.program import Mistake, Program
from conformance.language.tensors import Named
from conformance.noise import Noise, default_generator, spread
from conformance.plan.scenario import Scenario, Tensors
from conformance.tolerance import tolerance

FITS = 1.0
"""Tolerances within which something explains what came."""
NO_FIT = float("inf")
COARSE = 0.05
"""Relative RMS beyond which no dtype's rounding can be the difference: not worth a closer look."""
AGAIN = 4.0
"""How much wider the tolerance of a mistaken program may be than that of the true one."""
UNREADABLE = (PackError, ValueError, IndexError, ZeroDivisionError)
"""What reading a mistake may raise where it does not fit the sizes."""


@dataclass(frozen=True)
class Suspect:
    """One or two mistakes, each in one of its forms, and the program with them made."""

    names: tuple[str, ...]
    forms: tuple[tuple[tuple[str, str], ...], ...]
    program: Program

    @staticmethod
    def of(program: Program, mistake: Mistake, form: Mapping[str, str]) -> Suspect:
        """A single mistake."""
        return Suspect((mistake.id,), (tuple(form.items()),), program.mistaken(mistake, form))

    def and_(self, other: Suspect, mistake: Mistake) -> Suspect:
        """This one and another single mistake on top of it."""
        return Suspect(
            (*self.names, *other.names),
            (*self.forms, *other.forms),
            self.program.mistaken(mistake, dict(other.forms[0])),
        )


def suspects(program: Program) -> list[Suspect]:
    """Every mistake in every form."""
    return [
        Suspect.of(program, mistake, form)
        for mistake in program.mistakes.values()
        for form in mistake.forms()
    ]


@dataclass
class _Patched:
    """A patched program's answers to a scenario, read as far as somebody asked."""

    calls: Iterator[Tensors]
    made: list[Tensors] = field(default_factory=list)

    def up_to(self, i: int) -> Tensors:
        """The answer to call i."""
        while len(self.made) <= i:
            self.made.append(next(self.calls))
        return self.made[i]


@dataclass
class Fitter:
    """Compares a target's answers with patched programs; readings are kept, as far as they were needed."""

    bench: Bench
    readings: dict[tuple[str, tuple[str, ...], object], _Patched | None] = field(default_factory=dict)

    def reading(self, scenario: Scenario, suspect: Suspect, i: int) -> Tensors | None:
        """What the patched program makes of call i of a scenario; None where it cannot be read."""
        key = (scenario.key, suspect.names, suspect.forms)
        if key not in self.readings:
            self.readings[key] = _Patched(scenario.calls(scenario.arithmetic, suspect.program))
        patched = self.readings[key]
        try:
            return None if patched is None else patched.up_to(i)
        except UNREADABLE:
            self.readings[key] = None
            return None

    def changes(self, scenario: Scenario, suspect: Suspect, dtype: str) -> bool:
        """Whether the mistake makes a visible difference to the outputs of a scenario."""
        for i, true in enumerate(self.bench.expected(scenario)):
            ours = self.reading(scenario, suspect, i)
            if ours is None:
                return False
            for name, tensor in true.outputs.items():
                other = ours.outputs[name]
                if other.axes != tensor.axes or other.array.shape != tensor.array.shape:
                    return True
                allowed = self.bench.allowed(scenario, dtype, i, name)
                with np.errstate(all="ignore"):
                    if not (np.abs(other.array - tensor.array) <= allowed).all():
                        return True
        return False

    def fit(
        self,
        scenario: Scenario,
        suspect: Suspect,
        seen: Observation,
        dtype: str,
        counts: Sequence[Mapping[str, Array | None]],
        *,
        again: bool = False,
    ) -> float:
        """The worst error of all outputs in tolerances; `NO_FIT` where it is another function.

        `counts` says for each call and output which elements are compared. A suspect that fitted
        elsewhere (`again`) is held to the true program's tolerance, which is known already.
        """
        if seen.failed is not None or not seen.steps:
            return NO_FIT
        pairs = []
        for i, (step, counted) in enumerate(zip(seen.steps, counts, strict=True)):
            ours = self.reading(scenario, suspect, i)
            if ours is None:
                return NO_FIT
            for name, got in step.outputs.items():
                want = ours.outputs.get(name)
                mask = counted.get(name)
                if want is None or set(want.axes) != set(got.axes):
                    return NO_FIT
                if seen.last_only:
                    want = last_position(want)
                    mask = (
                        None
                        if mask is None
                        else mask[:, -1:]
                        if mask.ndim > 1 and mask.shape[1] > 1
                        else mask
                    )
                if not _coarsely(got, want, mask):
                    return NO_FIT  # of most mistakes the first call shows it, and no other is read
                pairs.append((name, got, want, mask))
        if not pairs:
            return NO_FIT
        if again:
            return self._roughly(scenario, seen, pairs, dtype)
        return self._closely(scenario, suspect, seen, pairs, dtype)

    def leaves_range(
        self,
        scenario: Scenario,
        suspect: Suspect,
        seen: Observation,
        dtype: str,
        counts: Sequence[Mapping[str, Array | None]],
    ) -> bool:
        """Whether the mistake, read in the dtype itself, is not finite exactly where the target is not."""
        try:
            native = scenario.read(Native(dtype), suspect.program)
        except UNREADABLE:
            return False
        some = False
        for step, ours, counted in zip(seen.steps, native, counts, strict=True):
            if seen.last_only:
                return False
            pairs: list[tuple[Named[Array], Named[Array], Array | None]] = [
                (step.taps[name], want, None) for name, want in ours.taps.items() if name in step.taps
            ]
            pairs += [(got, ours.outputs[name], counted.get(name)) for name, got in step.outputs.items()]
            for got, want, mask in pairs:
                if set(want.axes) != set(got.axes):
                    return False
                mine, theirs = _pair(got, want)
                if mine.shape != theirs.shape:
                    return False
                chosen = np.ones(mine.shape, bool) if mask is None else np.broadcast_to(mask, mine.shape)
                # Hidden scores are -inf in right models, too.
                bad = np.isnan(mine[chosen]) | np.isposinf(mine[chosen])
                if not np.array_equal(bad, np.isnan(theirs[chosen]) | np.isposinf(theirs[chosen])):
                    return False
                if bad.any():
                    some = True
                    break  # what comes of NaN is another question, and differs between runtimes
        return some

    def _roughly(
        self,
        scenario: Scenario,
        seen: Observation,
        pairs: Sequence[tuple[str, Named[Array], Named[Array], Array | None]],
        dtype: str,
    ) -> float:
        """The worst error in `AGAIN` times the true program's tolerances."""
        worst = 0.0
        remaining = iter(pairs)
        for i, step in enumerate(seen.steps):
            for _ in step.outputs:
                name, got, want, mask = next(remaining)
                allowed = AGAIN * self.bench.allowed(scenario, dtype, i, name)
                if seen.last_only:
                    axes = self.bench.expected(scenario)[i].outputs[name].axes
                    allowed = last_position(Named(axes, allowed)).array
                worst = max(worst, margin(got, want, allowed, mask))
        return worst

    def _closely(
        self,
        scenario: Scenario,
        suspect: Suspect,
        seen: Observation,
        pairs: Sequence[tuple[str, Named[Array], Named[Array], Array | None]],
        dtype: str,
    ) -> float:
        try:
            samples = scenario.read(Noise(dtype, default_generator(scenario.key)), suspect.program)
        except UNREADABLE:
            return NO_FIT
        worst = 0.0
        remaining = iter(pairs)
        for step, noisy in zip(seen.steps, samples, strict=True):
            for _ in step.outputs:
                name, got, want, mask = next(remaining)
                sample = noisy.outputs[name]
                if seen.last_only:
                    i = sample.axes.index("query") + 1
                    sample = Named(sample.axes, np.take(sample.array, [-1], axis=i))
                allowed = tolerance(spread(in_order(sample, want.axes), want.array), dtype)
                worst = max(worst, margin(got, want, allowed, mask))
        return worst


def _coarsely(got: Named[Array], want: Named[Array], mask: Array | None) -> bool:
    """Whether two tensors are near at all: NaN where the other is, and a small RMS error."""
    ours, theirs = _pair(got, want)
    if mask is not None:
        chosen = np.broadcast_to(mask, ours.shape)
        ours, theirs = ours[chosen], theirs[chosen]
    finite = np.isfinite(ours) & np.isfinite(theirs)
    if not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
        return False
    if not finite.any():
        return True
    error, size = ours[finite] - theirs[finite], theirs[finite]
    with np.errstate(all="ignore"):
        return bool(np.sqrt(np.mean(error * error)) <= COARSE * np.sqrt(np.mean(size * size)) + 1e-30)


def _pair(got: Named[Array], want: Named[Array]) -> tuple[Array, Array]:
    order = [want.axes.index(axis) for axis in got.axes]
    theirs = want.array.transpose(order)
    ours = np.asarray(got.array, np.float64)
    if ours.shape != theirs.shape:
        return np.zeros(1), np.full(1, np.inf)
    return ours, theirs


def margin(got: Named[Array], want: Named[Array], allowed: Array, mask: Array | None) -> float:
    """The worst error in tolerances; where both are not finite they agree."""
    ours, theirs = _pair(got, want)
    if ours.shape != got.array.shape:
        return NO_FIT
    limit = np.broadcast_to(allowed.transpose([want.axes.index(axis) for axis in got.axes]), theirs.shape)
    with np.errstate(all="ignore"):
        off = np.abs(ours - theirs) / np.maximum(limit, 5e-324)
    off = np.where(ours == theirs, 0.0, off)
    off = np.where(~np.isfinite(ours) & ~np.isfinite(theirs), 0.0, off)
    off = np.where(np.isnan(off), np.inf, off)
    off = np.where(np.isinf(limit), 0.0, off)  # where the dtype overflows there is nothing to compare
    if mask is not None:
        off = off[np.broadcast_to(mask, off.shape)]
    return float(off.max(initial=0.0))


def stage_fit(bench: Bench, scenario: Scenario, suspect: Suspect, dtype: str, tap: str) -> float:
    """How well a mistake explains one stage, read on the target's own tensors before it.

    A mistake that replaces other stages too has to explain those that are seen of the same layer.
    """
    seen = bench.observe(scenario, dtype)
    mistakes = [scenario.pack.program.mistakes[name] for name in suspect.names]
    prefix = tap[: len(tap) - len(tap.rpartition(".")[2])]
    stages = {tap, *(prefix + tensor for mistake in mistakes for _, tensor in mistake.replace)}
    true = bench.local(scenario, dtype)
    calls = stages_made(scenario, suspect.program, [step.taps for step in seen.steps], tap)
    worst, changed = 0.0, False
    for i, step in enumerate(seen.steps):
        try:
            made = next(calls)
        except UNREADABLE:
            return NO_FIT
        for stage in stages & step.taps.keys() & made.keys() & true[i].keys():
            got, want, right = step.taps[stage], made[stage], true[i][stage]
            if set(want.axes) != set(got.axes):
                return NO_FIT
            allowed = bench.nearly_allowed(scenario, dtype, i, stage).transpose(
                [right.axes.index(a) for a in want.axes]
            )
            worst = max(worst, margin(got, want, allowed, None))
            changed |= stage == tap and margin(right, want, allowed, None) > 1
        if worst > FITS:
            return worst  # what later calls make cannot mend it
    return worst if changed else NO_FIT
