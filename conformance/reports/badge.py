"""A run as a badge: a JSON endpoint as shields.io reads it, or the picture itself."""

from __future__ import annotations

import json
from html import escape

from rich.cells import cell_len

from conformance.reports.entries import Entry, entry_of
from conformance.reports.words import say
from conformance.results.store import Results

LABEL = "conformance"
COLORS = {
    "conforms": ("brightgreen", "#2e7d32"),
    "does not conform": ("red", "#c62828"),
    "interrupted": ("lightgrey", "#616161"),
    "nothing graded": ("lightgrey", "#616161"),
}
"""By outcome: the name at shields.io, and a colour on which white is read well."""


def render(results: Results, lang: str = "en") -> str:
    """The endpoint: `{"schemaVersion": 1, "label", "message", "color"}`."""
    entry, _ = entry_of(results)
    document = {
        "schemaVersion": 1,
        "label": LABEL,
        "message": message(entry, lang),
        "color": COLORS[entry.outcome][0],
    }
    return json.dumps(document)


def message(entry: Entry, lang: str) -> str:
    """`41 of 57`: statements that conform; else what is broken, or that nothing is known."""
    if entry.outcome == "conforms" and entry.testable:
        return say("n of m statements", lang, n=entry.statements, all=entry.testable)
    if entry.outcome == "does not conform":
        return say("n broken", lang, n=entry.broken) if entry.broken else say("not all graded", lang)
    return say("passes" if entry.outcome == "conforms" else entry.outcome, lang)


def render_svg(results: Results, lang: str = "en") -> str:
    """The picture, 20 pixels high, without a font or an image of its own."""
    entry, _ = entry_of(results)
    text, color = message(entry, lang), COLORS[entry.outcome][1]
    left, right = _width(LABEL), _width(text)
    width = left + right
    title = escape(f"{LABEL}: {text}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{title}">'
        f"<title>{title}</title>"
        f'<clipPath id="round"><rect width="{width}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#round)"><rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{color}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2}" y="14">{escape(LABEL)}</text>'
        f'<text x="{left + right / 2}" y="14">{escape(text)}</text></g></svg>\n'
    )


def _width(text: str) -> int:
    """Pixels that a text needs at 11 pixels of Verdana, with room at both ends."""
    return round(6.7 * cell_len(text)) + 12
