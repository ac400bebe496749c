"""What came of a comparison: of one tensor, of one case, of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.language.program import Text
from conformance.plan.items import Item
from conformance.results.records import Place


@dataclass(frozen=True)
class Compared:
    """One tensor of one call. `margin` is the worst difference in tolerances.

    `index`, `values` and `tolerance` are of that element, `off` how far each side is from the
    program, anywhere in the tensor and in tolerances of its own dtype.
    """

    tensor: str
    step: int
    axes: tuple[str, ...]
    margin: float
    index: Mapping[str, int]
    values: tuple[float, float]
    expected: float
    tolerance: float
    off: tuple[float | None, float | None]

    @property
    def agrees(self) -> bool:
        """Within the tolerance everywhere."""
        return self.margin <= 1


AGREE, PART, BOTH_RAISE, NOT_COMPARED = "agree", "part", "both raise", "not compared"


@dataclass(frozen=True)
class Met:
    """One case on both: agree, part, both raise, or not compared, and what there is to say of it."""

    item: Item
    dtypes: tuple[str, str]
    verdict: str
    tensors: tuple[Compared, ...] = ()
    says: Text | None = None
    place: Place | None = None

    @property
    def first(self) -> Compared | None:
        """The first tensor that differs, in the order of the program."""
        return next((tensor for tensor in self.tensors if not tensor.agrees), None)


@dataclass(frozen=True)
class Ending:
    """What a comparison amounts to."""

    counts: Mapping[str, int]
    tensors: int
    worst: float
    first: Met | None
    seconds: float

    @property
    def agree(self) -> bool:
        """Nothing differs."""
        return not self.counts.get(PART)

    @property
    def anything(self) -> bool:
        """Whether there was something to compare."""
        return any(self.counts.get(verdict) for verdict in (AGREE, PART, BOTH_RAISE))


def ending(cases: Sequence[Met], seconds: float) -> Ending:
    """What all cases amount to."""
    tensors = [tensor for met in cases for tensor in met.tensors]
    return Ending(
        dict(Counter(met.verdict for met in cases)),
        len(tensors),
        max((tensor.margin for tensor in tensors), default=0.0),
        next((met for met in cases if met.verdict == PART), None),
        seconds,
    )
