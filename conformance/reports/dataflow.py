"""A drawing of one layer: its tensors from input to output, each in the colour of what was found of it.

What is drawn comes from the run line (`flow`): which tensors there are and what each is made of. The
renderer only places boxes and lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.language.program import Text
from conformance.reports import layers, plain
from conformance.reports.model import Graded, Report

MOST = 80
"""Tensors that are drawn; more are no layer that a person would look at."""
WIDTH, HEIGHT, GAP_X, GAP_Y, LANE = 124, 30, 16, 20, 12
"""Of a box, between boxes, and between lines beside them, in pixels."""

_SUBJECT = re.compile(r"^\s*([\w.]+)\s*=(?!=)")


@dataclass
class Box:
    """A tensor: what is known of it, and where it is drawn.

    Attributes:
        state: 'good', 'bad', 'silent' (claims speak of it, and none could be graded) or 'unseen'.
        first: whether it is the first that went wrong.
        claims: claims that speak of it, the broken ones first.
    """

    tensor: str
    axes: tuple[str, ...]
    equation: str
    says: Text
    sources: tuple[str, ...]
    state: str = "unseen"
    first: bool = False
    claims: tuple[str, ...] = ()
    row: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def shape(self) -> str:
        """`[batch, head, query, key]`."""
        return f"[{', '.join(axis.replace('...', '…') for axis in self.axes)}]"


@dataclass(frozen=True)
class Drawing:
    """Boxes and lines, ready to be written as SVG."""

    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    width: int
    height: int


def drawing(report: Report, flow: object) -> Drawing | None:
    """The drawing; None where the file describes no layer, or nothing was found about any of its tensors."""
    boxes = {box.tensor: box for box in _boxes(flow)}
    if not boxes:
        return None
    _colour(boxes, report)
    if all(box.state in ("unseen", "silent") for box in boxes.values()):
        return None
    width, height = _place(boxes)
    lines, left, right = _lines(boxes, width)
    for box in boxes.values():
        box.x += left
    return Drawing(tuple(boxes.values()), lines, round(width + left + right), round(height))


def _boxes(flow: object) -> Iterator[Box]:
    seen: set[str] = set()
    for line in flow[:MOST] if isinstance(flow, list) else ():
        if not isinstance(line, Mapping):
            continue
        name = plain.line(line.get("tensor"), 60)
        if not name or name in seen:
            continue
        # What a tensor is made of stands before it: a file that says otherwise has no cycle drawn.
        sources = tuple(source for source in plain.strings(line.get("from"), 60) if source in seen)
        seen.add(name)
        axes = plain.strings(line.get("axes"), 40, 8)
        yield Box(
            name, axes, plain.line(line.get("equation"), 300), plain.both(line.get("says"), 200), sources
        )


# -- what was found ----------------------------------------------------------------------------------


def _colour(boxes: Mapping[str, Box], report: Report) -> None:
    bad: dict[str, list[str]] = {}
    good: dict[str, list[str]] = {}
    silent: set[str] = set()
    for graded in report.graded:
        for tensor, state in _findings(graded):
            if tensor in boxes:
                if state == "silent":
                    silent.add(tensor)
                else:
                    found = (bad if state == "bad" else good).setdefault(tensor, [])
                    if graded.claim.id not in found:
                        found.append(graded.claim.id)
    wrong, right = _seen_in_source(report)
    # What a right tensor is made of is right, or it would not be.
    before = _sources(boxes, right)
    for name, box in boxes.items():
        box.claims = (*bad.get(name, ()), *good.get(name, ()))
        if name in bad or name == wrong:
            box.state = "bad"
        elif name in good or name in before:
            box.state = "good"
        elif name in silent:
            box.state = "silent"
    first = wrong or bare(report.first_broken.get("tensor", ""))
    if first not in boxes:
        first = next((name for name, box in boxes.items() if box.state == "bad"), "")
    if first:
        boxes[first].first = True


def _sources(boxes: Mapping[str, Box], name: str) -> set[str]:
    """A tensor and all that it is made of; nothing for one that is not drawn."""
    found: set[str] = set()
    left = [name] if name in boxes else []
    while left:
        box = left.pop()
        if box not in found:
            found.add(box)
            left += boxes[box].sources
    return found


def _findings(graded: Graded) -> Iterator[tuple[str, str]]:
    """Which tensors a claim says something about: of a failure the one that is wrong, else what it is about."""
    subject = _SUBJECT.match(graded.claim.equation)
    about = [subject[1]] if subject else list(graded.claim.tensors)
    for verdict in graded.verdicts:
        evidence = verdict.evidence
        if verdict.verdict == "fail" or (verdict.broken and evidence and evidence.tensor):
            yield bare(evidence.tensor) if evidence and evidence.tensor else about[0] if about else "", "bad"
        elif verdict.verdict == "pass":
            yield from ((bare(name), "good") for name in about)
        else:  # what raised, or gave no answer, has shown none of its tensors: none of them is wrong
            yield from ((bare(name), "silent") for name in about)


def _seen_in_source(report: Report) -> tuple[str, str]:
    """The first wrong tensor and the last right one, where the submission's own source was followed."""
    where = report.where
    if where is None:
        return "", ""
    return bare(where.expected), bare(where.last_right.expected) if where.last_right else ""


def bare(tensor: str) -> str:
    """A tensor's name without the layer that it is in."""
    return layers.NAME.sub("", tensor)


# -- where it is drawn -------------------------------------------------------------------------------


def _place(boxes: Mapping[str, Box]) -> tuple[float, float]:
    """A row for each step from the input, boxes of a row side by side under what they are made of."""
    rows: dict[int, list[Box]] = {}
    for box in boxes.values():
        box.row = 1 + max((boxes[source].row for source in box.sources), default=-1)
    for box in boxes.values():
        # An input that is needed late (a memory) stands just above where it is needed.
        users = [other.row for other in boxes.values() if box.tensor in other.sources]
        if not box.sources and users:
            box.row = min(users) - 1
        rows.setdefault(box.row, []).append(box)
    widest = max(len(row) for row in rows.values())
    width = widest * (WIDTH + GAP_X) - GAP_X
    for number, row in sorted(rows.items()):
        start = (width - len(row) * (WIDTH + GAP_X) + GAP_X) / 2
        row.sort(key=lambda box: _middle(box, boxes))
        for i, box in enumerate(row):
            box.x = start + i * (WIDTH + GAP_X)
            box.y = 4 + (number - min(rows)) * (HEIGHT + GAP_Y)
    return width, 8 + (max(rows) - min(rows) + 1) * (HEIGHT + GAP_Y) - GAP_Y


def _middle(box: Box, boxes: Mapping[str, Box]) -> float:
    xs = [boxes[source].x for source in box.sources]
    return sum(xs) / len(xs) if xs else 0.0


def _lines(boxes: Mapping[str, Box], width: float) -> tuple[tuple[str, ...], float, float]:
    """Paths from box to box; those that pass a row go around, each in a lane of its own: paths, room left, room right."""
    near: list[tuple[Box, Box]] = []
    far: list[tuple[Box, Box]] = []
    for box in boxes.values():
        for name in box.sources:
            source = boxes[name]
            (far if box.row - source.row > 1 else near).append((source, box))
    lanes: dict[str, list[tuple[float, float]]] = {"left": [], "right": []}
    placed = []
    for source, box in sorted(far, key=lambda pair: pair[1].y - pair[0].y):
        # The way around is on the side on which the source stands; of the middle, the left.
        side = "right" if source.x + WIDTH / 2 > width / 2 + 1 else "left"
        placed.append((source, box, side, _lane(lanes[side], source.y, box.y)))
    left, right = (_room([lane for *_, at, lane in placed if at == side]) for side in ("left", "right"))
    paths = []
    for source, box in near:
        x1, y1, x2, y2 = source.x + left + WIDTH / 2, source.y + HEIGHT, box.x + left + WIDTH / 2, box.y
        middle = (y1 + y2) / 2
        paths.append(f"M{x1:g} {y1:g}C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}")
    for source, box, side, lane in placed:
        y1, y2 = source.y + HEIGHT / 2, box.y + HEIGHT / 2
        if side == "left":
            x1, x2, x = source.x + left, box.x + left, left - 6 - LANE * lane
        else:
            x1, x2, x = source.x + left + WIDTH, box.x + left + WIDTH, left + width + 6 + LANE * lane
        paths.append(f"M{x1:g} {y1:g}H{x:g}V{y2:g}H{x2:g}")
    return tuple(paths), left, right


def _lane(taken: list[tuple[float, float]], top: float, bottom: float) -> int:
    """The innermost lane in which nothing runs between two heights; shorter lines were placed before longer ones."""
    number = sum(1 for a, b in taken if a < bottom and top < b)
    taken.append((top, bottom))
    return number


def _room(lanes: Sequence[int]) -> float:
    """Pixels that lanes take beside the boxes."""
    return 6.0 + (LANE * (max(lanes) + 1) if lanes else 0)


def legend(boxes: Sequence[Box]) -> list[str]:
    """The states that occur, in the order of a legend."""
    return [
        state for state in ("good", "bad", "silent", "unseen") if any(box.state == state for box in boxes)
    ]
