"""Waivers: failures that somebody has accepted, with a reason and an expiry."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from conformance.language.errors import Location, PackError
from conformance.pack.decode import convert, items, only
from conformance.pack.yaml_source import read


class WaiverDocument(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One entry under `waivers:`."""

    claim: str
    reason: str
    expires: str


@dataclass(frozen=True)
class Waiver:
    """Claims (by id, with globs) whose failure is accepted until a day, and why."""

    claim: str
    reason: str
    expires: dt.date
    at: Location

    def covers(self, claim: str, today: dt.date) -> bool:
        """Whether the waiver is in force for a claim."""
        return today <= self.expires and fnmatchcase(claim, self.claim)


def load_waivers(path: Path) -> tuple[Waiver, ...]:
    """The waivers of a YAML file. Raises `PackError` naming the line."""
    source = read(path)
    only(source, "waivers")
    waivers = []
    for i in items(source, "waivers"):
        at = source.at("waivers", i)
        entry = convert(source, ("waivers", i), WaiverDocument)
        if not entry.reason.strip():
            raise PackError(f"the waiver of '{entry.claim}' needs a reason", at)
        try:
            expires = dt.date.fromisoformat(entry.expires)
        except ValueError:
            raise PackError(f"'{entry.expires}' is no day", at, 'write expires: "2027-01-31"') from None
        waivers.append(Waiver(entry.claim, entry.reason, expires, at))
    return tuple(waivers)


def waiver_of(claim: str, waivers: Sequence[Waiver], today: dt.date) -> Waiver | None:
    """The waiver in force for a claim, if there is one."""
    return next((w for w in waivers if w.covers(claim, today)), None)
