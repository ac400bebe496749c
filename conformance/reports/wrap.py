"""Lines of text for a terminal, in which a Chinese sentence may end anywhere, but not before its comma."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text as Styled

_NOT_FIRST = frozenset("，。；：、！？）】》」』”’…—·％,.;:!?)]}'\"")
"""Characters that no line begins with, where the one before them may stand at its end."""
_NOT_LAST = frozenset("（【《「『“‘([{")
"""Characters that no line ends with."""


def wrap(text: Styled, width: int) -> Styled:
    """The text with line ends put in, so that no line takes more than `width` cells."""
    lines: list[Styled] = []
    for line in text.split("\n", allow_blank=True):
        for part in line.divide(breaks(line.plain, max(width, 2))):
            part.rstrip()
            lines.append(part)
    return Styled("\n").join(lines)


def breaks(text: str, width: int) -> list[int]:
    """Where a line of text is to be cut: after a space or beside a wide character, else wherever it must be."""
    if cell_len(text) <= width:
        return []
    cuts: list[int] = []
    used = 0  # cells since the last cut
    allowed = at_allowed = 0  # the last place where a cut is good, and the cells used up to it
    for i, character in enumerate(text):
        size = cell_len(character)
        if i and _good(text[i - 1], character):
            allowed, at_allowed = i, used
        if used + size > width and character != " ":
            last = cuts[-1] if cuts else 0
            if allowed > last:
                cuts.append(allowed)
                used -= at_allowed
            else:
                cuts.append(i)
                used = 0
            at_allowed = 0
        used += size
    return cuts


def _good(before: str, after: str) -> bool:
    if before == " ":
        return after != " "
    if after == " ":
        return False
    wide = cell_len(before) == 2 or cell_len(after) == 2
    return wide and after not in _NOT_FIRST and before not in _NOT_LAST
