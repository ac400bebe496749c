"""Named axes: what they are called, the symbol of their size, and which are several axes in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from conformance.language.errors import NOWHERE, Location, PackError, suggestion

SAMPLE = "sample"
"""The axis that a stochastic reading adds in front; no pack may use the name."""

ELLIPSIS = "..."


@dataclass(frozen=True)
class Axis:
    """One axis of the pack: `dh` of size `Dh`, or `head_dh` flattened from `head` and `dh`."""

    name: str
    symbol: str
    parts: tuple[str, ...] = ()
    size: int | None = None
    config: str = ""
    at: Location = NOWHERE


@dataclass(frozen=True)
class AxisTable:
    """All axes of a pack, by name and by the symbol of their size."""

    by_name: Mapping[str, Axis]
    by_symbol: Mapping[str, str]

    @staticmethod
    def of(axes: Mapping[str, Axis]) -> AxisTable:
        """Index the axes by symbol as well; raises `PackError` when two axes share one."""
        symbols: dict[str, str] = {}
        for axis in axes.values():
            if axis.name == SAMPLE:
                raise PackError(f"the axis name '{SAMPLE}' is taken by the engine", axis.at)
            if axis.symbol in symbols:
                taken = symbols[axis.symbol]
                raise PackError(f"the axes '{taken}' and '{axis.name}' share the size {axis.symbol}", axis.at)
            if axis.symbol:
                symbols[axis.symbol] = axis.name
            for part in axis.parts:
                if part not in axes:
                    raise PackError(f"unknown axis '{part}'", axis.at, suggestion(part, axes))
        return AxisTable(dict(axes), symbols)

    def parse(self, text: str, at: Location = NOWHERE) -> tuple[str, ...]:
        """`'... query dh'` as a tuple of axis names; raises `PackError` for an unknown one."""
        names = tuple(text.split())
        for name in names:
            if name != ELLIPSIS and name not in self.by_name:
                raise PackError(f"unknown axis '{name}'", at, suggestion(name, self.by_name))
        if len(set(names)) != len(names):
            raise PackError(f"an axis stands twice in '{text}'", at)
        return names


def fits(axes: tuple[str, ...], declared: tuple[str, ...]) -> bool:
    """Whether a tensor of `axes` is one of `declared`, where `...` stands for any further axes.

    The order does not count: axes are named so that it need not.
    """
    have = set(axes) - {SAMPLE}
    want = set(declared) - {ELLIPSIS}
    return want <= have if ELLIPSIS in declared else want == have
