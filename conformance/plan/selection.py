"""`--select` and `--require`: which claims are meant.

An expression is claim ids with globs and the words `rung:` `level:` `question:` `dtype:`
`variant:`; a comma is or, a repeated option is and, `!` excludes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from conformance.language.errors import suggestion
from conformance.pack.model import DTYPES, LEVELS, RUNGS, Pack

FIELDS = ("rung", "level", "question", "dtype", "variant")


class SelectionError(ValueError):
    """An expression that names nothing; the message says what there is."""


class Selectable(Protocol):
    """What can be selected: a claim of a pack, or of a results file."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def rung(self) -> str: ...  # noqa: D102
    @property
    def level(self) -> str: ...  # noqa: D102
    @property
    def question(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class Term:
    """One alternative: a field (or the claim's id) and a pattern, perhaps excluded."""

    field: str
    pattern: str
    excluded: bool

    def fits(self, claim: Selectable, variant: str | None, dtype: str) -> bool:
        """Whether the pattern fits, before exclusion."""
        value = {
            "": claim.id,
            "rung": claim.rung,
            "level": claim.level,
            "question": claim.question,
            "dtype": dtype,
            "variant": variant or "",
        }[self.field]
        return fnmatchcase(value.lower(), self.pattern.lower())


@dataclass(frozen=True)
class Selection:
    """All expressions given: each must hold."""

    groups: tuple[tuple[Term, ...], ...] = ()

    def includes(self, claim: Selectable, variant: str | None, dtype: str) -> bool:
        """Whether a claim is meant in a variant and dtype."""
        return all(_holds(group, claim, variant, dtype) for group in self.groups)


def _holds(group: Sequence[Term], claim: Selectable, variant: str | None, dtype: str) -> bool:
    if any(t.excluded and t.fits(claim, variant, dtype) for t in group):
        return False
    wanted = [t for t in group if not t.excluded]
    return not wanted or any(t.fits(claim, variant, dtype) for t in wanted)


def parse_selection(expressions: Sequence[str], pack: Pack | None, option: str = "--select") -> Selection:
    """Expressions of the command line. Raises `SelectionError` for what fits nothing in the pack.

    Without a pack, as of a results file, ids and questions are not checked.
    """
    for expression in expressions:
        if not expression.strip(" ,!"):
            raise SelectionError(f"{option} '{expression}' names nothing; see `conformance run --help`")
    return Selection(
        tuple(
            tuple(_term(part.strip(), pack, option) for part in e.split(",") if part.strip())
            for e in expressions
        )
    )


def unknown_variant(selection: Selection, known: Collection[str], option: str) -> str:
    """What is wrong with the `variant:` of a selection, of which only a target knows all names; or an empty string."""
    for term in (term for group in selection.groups for term in group if term.field == "variant"):
        if not any(fnmatchcase(name.lower(), term.pattern.lower()) for name in known):
            near = suggestion(term.pattern, known)
            return f"{option} variant:{term.pattern}: there is no variant '{term.pattern}'" + (
                f"; {near}" if near else ""
            )
    return ""


def _term(text: str, pack: Pack | None, option: str) -> Term:
    excluded = text.startswith("!")
    body = text[1:] if excluded else text
    name, colon, pattern = body.partition(":")
    if not colon:
        name, pattern = "", body
    elif name not in FIELDS:
        raise SelectionError(
            f"{option} {text}: '{name}:' is not known; there are {', '.join(f'{f}:' for f in FIELDS)}"
            + (f"; {suggestion(name, FIELDS)}" if suggestion(name, FIELDS) else "")
        )
    known = {
        "": tuple(pack.claims) if pack else (),
        "rung": RUNGS,
        "level": LEVELS,
        "question": tuple(pack.questions) if pack else (),
        "dtype": DTYPES,
        "variant": (),
    }[name]
    if known and not any(fnmatchcase(k.lower(), pattern.lower()) for k in known):
        near = suggestion(pattern, known)
        what = "no claim is called" if not name else f"there is no {name}"
        raise SelectionError(f"{option} {text}: {what} '{pattern}'" + (f"; {near}" if near else ""))
    return Term(name, pattern, excluded)
