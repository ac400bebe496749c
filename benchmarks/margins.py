"""Margins of many verdicts: how they are distributed, as a table and as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

RUNGS = ("operation", "layer", "model", "decode")
UNBOUNDED = float("inf")


@dataclass
class Spread:
    """Margins of right implementations on one rung, and the best catch of each wrong one."""

    right: list[float] = field(default_factory=list)
    wrong: list[float] = field(default_factory=list)

    def row(self) -> list[str]:
        """Median, 99 % and worst of the right; mildest of the wrong; the factor between the two."""
        if not self.right:
            return ["–"] * 4 + [shown(min(self.wrong, default=math.nan)), "–"]
        worst = max(self.right)
        mildest = min(self.wrong, default=math.nan)
        quantiles = [float(np.quantile(self.right, share)) for share in (0.5, 0.99)]
        numbers = [shown(x) for x in (*quantiles, worst, mildest)]
        gap = shown(mildest / worst) if worst > 0 and math.isfinite(worst) else "–"
        return [f"{len(self.right):,}", *numbers, gap]


def shown(value: float) -> str:
    """A margin as a person reads it."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "no bound"
    return f"{value:.3g}" if value < 1000 else f"{float(f'{value:.3g}'):,.0f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown that is also legible as it stands; the first column is text, the others numbers."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        filled = [
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(filled) + " |"

    rule = [("-" * w) if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join(line(cells) for cells in (head, rule, *rows))


# -- the picture ----------------------------------------------------------------------------------

LEFT, WIDTH, STRIP, TOP = 110, 700, 62, 46
LOW, HIGH = -4, 9  # powers of ten; what lies beyond stands in the last bin
RIGHT, WRONG, INK, PALE = "#2a7f9e", "#c8553d", "#333", "#ccc"


def picture(strips: Mapping[str, Spread], title: str) -> str:
    """One strip for each entry: counts of margins in bins of a quarter power of ten, as SVG."""
    height = TOP + STRIP * len(strips) + 46
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" '
            f'font-family="sans-serif" font-size="12" fill="{INK}" role="img">'
        ),
        f"<title>{title}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        (
            f'<rect x="{LEFT}" y="10" width="12" height="12" fill="{RIGHT}"/>'
            f'<text x="{LEFT + 18}" y="20">verdicts on right implementations</text>'
        ),
        (
            f'<rect x="{LEFT + 260}" y="10" width="12" height="12" fill="{WRONG}"/>'
            f'<text x="{LEFT + 278}" y="20">best catch of each mistake</text>'
        ),
    ]
    bottom = TOP + STRIP * len(strips)
    for power in range(LOW, HIGH + 1):
        x = _x(power)
        colour, thick = (INK, 1.5) if power == 0 else (PALE, 0.5)
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}" stroke-width="{thick}"/>'
        )
        label = "1" if power == 0 else f"10{_superscript(power)}"
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>')
    parts.append(
        f'<text x="{LEFT + WIDTH / 2}" y="{bottom + 36}" text-anchor="middle">margin: error in tolerances '
        "(right of 1 is red; heights are on a logarithmic scale)</text>"
    )
    for i, (name, spread) in enumerate(strips.items()):
        base = TOP + STRIP * (i + 1) - 6
        parts.append(f'<text x="{LEFT - 10}" y="{base - 14}" text-anchor="end">{name}</text>')
        parts.append(f'<line x1="{LEFT}" y1="{base}" x2="{LEFT + WIDTH}" y2="{base}" stroke="{PALE}"/>')
        parts += _bars(spread.right, base, RIGHT)
        parts += _bars(spread.wrong, base, WRONG)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(power: float) -> float:
    return LEFT + WIDTH * (power - LOW) / (HIGH - LOW)


def _bars(margins: Sequence[float], base: int, colour: str) -> Iterator[str]:
    bins: dict[int, int] = {}
    for margin in margins:
        power = HIGH if math.isinf(margin) else math.log10(max(margin, 1e-300))
        # Up to 1 and past it never share a bin.
        quarter = min(max(math.ceil(4 * power) - 1, 4 * LOW), 4 * HIGH - 1)
        bins[quarter] = bins.get(quarter, 0) + 1
    if not bins:
        return
    tallest = math.log10(1 + max(bins.values()))
    for quarter, count in sorted(bins.items()):
        height = (STRIP - 16) * math.log10(1 + count) / tallest
        yield (
            f'<rect x="{_x(quarter / 4) + 0.5:.1f}" y="{base - height:.1f}" width="{WIDTH / (HIGH - LOW) / 4 - 1:.1f}" '
            f'height="{height:.1f}" fill="{colour}" fill-opacity="0.85"/>'
        )


def _superscript(number: int) -> str:
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
