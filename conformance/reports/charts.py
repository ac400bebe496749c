"""Bars of an error along layers or positions, as the page draws them: no script, so they are printed too.

Heights are logarithms: an error of a tenth of the tolerance and one of a million tolerances are both to
be seen. Whoever does not see the bars reads the table beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.results.records import Profile

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 440, 150, 40, 8, 22
"""Of the whole, and of the room for what is written beside the bars, in pixels."""
LOWEST, HIGHEST = -2.0, 9.0
"""Powers of ten of a tolerance between which bars are drawn."""
LABELS = 16
"""More bars than these are not all labelled."""


@dataclass(frozen=True)
class Bar:
    """One bar. `kind` is 'fine', 'off' or 'once'; `text` says what it stands for."""

    x: float
    y: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True)
class Mark:
    """Something written: `x` and `y` of its middle."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Ready to be written as SVG, with the rows of a table beside it: name, call, margin, margin in one call."""

    over: str
    local: bool
    bars: tuple[Bar, ...]
    labels: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    borders: tuple[float, ...]
    limit: float
    """Where an error is as large as the tolerance."""
    rows: tuple[tuple[str, str, str, str], ...]
    calls: bool
    at_once: bool


def chart(profile: Profile) -> Chart:
    """The chart of a profile, which has a margin at least."""
    n = max(len(profile.margins), 1)
    known = [m for m in (*profile.margins, *profile.at_once) if m is not None and math.isfinite(m)]
    top = min(max([math.ceil(math.log10(max(m, 1e-3))) for m in known] + [1]), HIGHEST)
    if any(m is not None and math.isinf(m) for m in profile.margins):
        top = min(top + 1, HIGHEST)
    step = (WIDTH - LEFT) / n
    series = [profile.margins, *([profile.at_once] if profile.at_once else [])]
    wide = min(step * 0.8, 48.0) / len(series)
    bars = []
    for k, margins in enumerate(series):
        for i, margin in enumerate(margins[:n]):
            if margin is None:
                continue
            y = _height(margin, top)
            x = LEFT + step * (i + 0.5) + wide * (k - len(series) / 2)
            kind = "off" if margin > 1 else "fine"
            bars.append(
                Bar(
                    _r(x),
                    _r(y),
                    _r(max(wide - 0.5, 0.5)),
                    _r(HEIGHT - BOTTOM - y),
                    f"{kind} once" if k else kind,
                )
            )
    every = math.ceil(n / LABELS)
    names = [_name(profile, i) for i in range(n)]
    labels = tuple(Mark(_r(LEFT + step * (i + 0.5)), HEIGHT - 6, names[i]) for i in range(0, n, every))
    powers = range(int(LOWEST), int(top) + 1)
    ticks = tuple(
        Mark(LEFT - 6, _r(_height(10.0**p, top)), _power(p))
        for p in powers
        if (p - int(LOWEST)) % 2 == 0 or p == 0
    )
    return Chart(
        profile.over, profile.local, tuple(bars), labels, ticks, _borders(profile.calls, step, n), _r(_height(1.0, top)),
        tuple(_row(profile, i, names[i]) for i in range(n)), bool(profile.calls), bool(profile.at_once),
    )  # fmt: skip


def _height(margin: float, top: float) -> float:
    power = min(
        max(math.log10(margin) if 0 < margin < math.inf else LOWEST if margin <= 0 else top, LOWEST), top
    )
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (power - LOWEST) / (top - LOWEST))


def _borders(calls: Sequence[int], step: float, n: int) -> tuple[float, ...]:
    """Where one call ends and the next begins."""
    ends, total = [], 0
    for length in calls[:-1]:
        total += length
        if total < n:
            ends.append(_r(LEFT + step * total))
    return tuple(ends)


def _name(profile: Profile, i: int) -> str:
    """`0`, `encoder 0`, `logits`; of a position its number."""
    if profile.over != "layer" or i >= len(profile.tensors):
        return str(i)
    parts = profile.tensors[i].split(".")
    if "layers" not in parts[:-1]:
        return parts[-1]
    at = parts.index("layers")
    return " ".join([*(p[:3] for p in parts[:at]), *parts[at + 1 : at + 2]])


def _row(profile: Profile, i: int, name: str) -> tuple[str, str, str, str]:
    called = profile.tensors[i] if profile.over == "layer" and i < len(profile.tensors) else name
    once = profile.at_once[i] if i < len(profile.at_once) else None
    return called, str(_call(profile.calls, i)), _text(profile.margins[i]), _text(once)


def _call(calls: Sequence[int], i: int) -> int:
    for number, length in enumerate(calls):
        if i < length:
            return number
        i -= length
    return max(len(calls) - 1, 0)


def _text(margin: float | None) -> str:
    if margin is None:
        return "–"
    return (
        "∞"
        if math.isinf(margin)
        else f"{margin:.3g}"
        if margin < 1e3
        else f"{margin:,.0f}"
        if margin < 1e9
        else f"{margin:.2g}"
    )


def _power(power: int) -> str:
    return {0: "1", 1: "10", -1: "0.1", -2: "0.01", 2: "100", 3: "1000"}.get(power, f"1e{power}")


def _r(value: float) -> float:
    return round(value, 1)
