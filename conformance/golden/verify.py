"""`golden verify`: are the files those that were built, and does the program still make the same of them?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from conformance.golden import manifest, tolerances
from conformance.golden.contents import Golden, content, goldens, metadata
from conformance.golden.depends import dependence
from conformance.golden.files import GoldenError, decoded, digest
from conformance.golden.manifest import GoldenEntry, Manifest, ToleranceEntry
from conformance.judging.spreads import Spreads
from conformance.language.arithmetic import Array, Float64
from conformance.pack.model import Pack
from conformance.tolerance import joined, tolerance


@dataclass
class Report:
    """What `verify` found.

    `inexact` counts tensors that differ in their last bits, as sums in another order make them. With
    any of these, nothing can be said of the tensors of which only hashes are kept: `unchecked` many.
    """

    files: int = 0
    bytes: int = 0
    problems: list[GoldenError] = field(default_factory=list)
    inexact: int = 0
    unchecked: int = 0

    @property
    def passed(self) -> bool:
        """Whether every golden is as it should be."""
        return not self.problems


def verify(pack: Pack, folder: Path) -> Report:
    """Check a folder of goldens against its manifest, the pack and a new reading of the program."""
    report = Report()
    try:
        listed = manifest.load(folder)
    except GoldenError as error:
        report.problems.append(error)
        return report
    report.problems += of_pack(pack, listed)
    sound = set()
    for name, (sha256, size) in listed.hashes().items():
        fault = of_file(folder, name, sha256, size, pack)
        if fault is None:
            sound.add(name)
            report.files += 1
            report.bytes += size
        else:
            report.problems.append(fault)
    report.problems += unknown(folder, listed)
    report.problems += of_tolerances(pack, folder, listed.tolerances, sound)
    made = {golden.name: golden for golden in goldens(pack)}
    for name in (name for name in made if name not in listed.files):
        report.problems.append(
            GoldenError(name, "is a published case's and not in the manifest; run: conformance golden build")
        )
    hashes: list[tuple[str, str, str, str]] = []
    for name, entry in listed.files.items():
        if name not in made:
            report.problems.append(
                GoldenError(name, "is in the manifest and no published case's; run: conformance golden build")
            )
        elif name in sound:
            hashes += _recomputed(pack, folder, made[name], entry, report)
    if report.inexact:
        report.unchecked = len(hashes)
    else:
        report.problems += [
            GoldenError(
                name,
                f"'{tensor}', of which only the hash is kept, is recomputed as another: {_both(old, new)}",
            )
            for name, tensor, old, new in hashes
            if old != new
        ]
    return report


def of_pack(pack: Pack, listed: Manifest) -> Iterator[GoldenError]:
    """Whether the manifest is of this pack, this version of it, and every byte of its files."""
    if (listed.pack, listed.pack_version) != (pack.id, pack.version):
        yield GoldenError(
            manifest.NAME,
            f"is of {listed.pack} {listed.pack_version}, this is {pack.id} {pack.version}: {_both(listed.pack_digest, pack.digest)}",
        )
    elif listed.pack_digest != pack.digest:
        yield GoldenError(
            manifest.NAME,
            f"the pack's files have changed since: {_both(listed.pack_digest, pack.digest)}; run: conformance golden build",
        )


def of_file(folder: Path, name: str, sha256: str, size: int, pack: Pack) -> GoldenError | None:
    """What is wrong with the bytes of a file that the manifest names; None if nothing is."""
    path = folder / name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return GoldenError(name, f"is missing; {_both(sha256, 'none')}")
    except OSError as error:
        return GoldenError(name, f"cannot be read: {error}")
    found = digest(data)
    if found == sha256:
        return None
    said = "has changed"
    if len(data) < size:
        said = f"is truncated to {len(data)} of {size} bytes"
    elif len(data) > size:
        said = f"has {len(data)} bytes, not {size}"
    else:
        try:
            version = decoded(path, name)[1].get("pack_version", "")
        except GoldenError:
            version = ""
        if version and version != pack.version:
            said = f"is of pack version {version}, this is {pack.version}"
    return GoldenError(name, f"{said}; {_both(sha256, found)}")


def unknown(folder: Path, listed: Manifest) -> Iterator[GoldenError]:
    """Files that nothing names; a README.md may be there, and what begins with a dot."""
    known = set(listed.hashes()) | {manifest.NAME, "README.md"}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in known and not path.name.startswith("."):
            yield GoldenError(name, f"is unknown to the manifest; {_both('none', digest(path.read_bytes()))}")


def of_tolerances(
    pack: Pack, folder: Path, entry: ToleranceEntry | None, sound: Collection[str]
) -> Iterator[GoldenError]:
    """Whether the tolerances can be read, and are those of this program and engine. `sound` files have their hash."""
    if entry is None:
        yield GoldenError(
            tolerances.NAME,
            "is not there, so every run measures its tolerances; run: conformance golden build",
        )
        return
    current = dependence(pack)
    if entry.depends != current:
        yield GoldenError(
            tolerances.NAME,
            f"is stale, so it is ignored and every run measures its tolerances: {_both(entry.depends, current)}; "
            "run: conformance golden build",
        )
        return
    if entry.file not in sound:
        return
    try:
        table = tolerances.load(folder / entry.file, current)
    except GoldenError as error:
        yield error
        return
    damaged = [key for key in table.names() if table.get(key) is None]
    if damaged or len(table) != entry.entries:
        yield GoldenError(
            tolerances.NAME, f"is damaged: {len(table) - len(damaged)} of {entry.entries} entries can be read"
        )


def _recomputed(
    pack: Pack, folder: Path, golden: Golden, entry: GoldenEntry, report: Report
) -> list[tuple[str, str, str, str]]:
    """Compare a file with what the program makes now; returns the hashes of what was left out, old and new."""
    name = golden.name
    try:
        stored, said = decoded(folder / name, name)
    except GoldenError as error:
        report.problems.append(error)
        return []
    made = content(golden)
    wanted = metadata(pack, golden, made)
    if said != wanted:
        fields = sorted(key for key in {*said, *wanted} if said.get(key) != wanted.get(key))
        was, now = said.get(fields[0]), wanted.get(fields[0])
        report.problems.append(GoldenError(name, f"says {fields[0]}: {was!r}, and the pack says {now!r}"))
        return []
    if set(entry.omitted) != set(made.omitted):
        report.problems.append(
            GoldenError(name, "hashes of other tensors are kept than those that are left out")
        )
        return []
    spreads = Spreads(lambda scenario: scenario.read(Float64()))
    for tensor, named in made.tensors.items():
        problem = _compared(stored[tensor], named.array, tensor, golden, spreads, report)
        if problem:
            report.problems.append(GoldenError(name, f"'{tensor}' {problem}"))
    return [(name, tensor, entry.omitted[tensor], made.omitted[tensor]) for tensor in made.omitted]


def _compared(
    stored: Array, now: Array, tensor: str, golden: Golden, spreads: Spreads, report: Report
) -> str:
    """What is wrong with a stored tensor, or nothing.

    Another machine sums in another order, and the float64 tolerance says how much that may do.
    """
    if stored.shape != now.shape or stored.dtype != now.dtype:
        return f"is {stored.dtype} {list(stored.shape)}, and the program makes {now.dtype} {list(now.shape)}"
    if np.array_equal(stored, now, equal_nan=stored.dtype.kind == "f"):
        return ""
    step, _, rest = tensor.partition("/")
    if not step.startswith("step"):
        return "is another than the case draws"
    report.inexact += 1
    sigma = spreads.sigma(golden.scenario, "float64", int(step[4:]), rest.partition("/")[2])
    allowed = tolerance(joined(sigma, sigma), "float64")
    with np.errstate(all="ignore"):
        apart = np.where(stored == now, 0.0, np.abs(stored - now) / allowed)
    worst = float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0.0))
    return "" if worst <= 1 else f"is recomputed {worst:.3g} tolerances away"


def _both(expected: str, found: str) -> str:
    return f"sha256 expected {expected}, found {found}"
