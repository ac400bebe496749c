"""`golden build`: the only writer of `golden/`. All of it is made beside the folder, then put in its place."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance import __version__
from conformance.golden import manifest, tolerances
from conformance.golden.contents import SEED, Golden, content, goldens, metadata
from conformance.golden.depends import dependence
from conformance.golden.files import GoldenError, digest, encoded
from conformance.golden.manifest import GoldenEntry, Manifest, ToleranceEntry
from conformance.golden.measure import measured
from conformance.pack.model import DTYPES, Pack

BUDGET = 10_000_000
"""Bytes that the whole folder may have: every clone and every wheel carries it."""


def build(
    pack: Pack,
    folder: Path,
    cases: Sequence[str] = (),
    dtypes: Sequence[str] = DTYPES,
    said: Callable[[str], None] = lambda _: None,
    jobs: int | None = 1,
) -> Manifest:
    """Make every golden of a pack, its tolerances and the manifest, and put them in the place of `folder`.

    The bytes depend on the pack and the engine alone. What in `folder` is no golden stays there (README.md).

    Args:
        pack: The pack whose published cases are written.
        folder: Where to; made if it is missing, left as it was if anything goes wrong.
        cases: Patterns of case ids; none: all published cases, and the tolerances of all cases.
        dtypes: Those whose tolerances are kept; none: no file of tolerances.
        said: Told what is done, a line at a time.
        jobs: Processes that measure tolerances, one dtype each at a time; None: one a core.

    Returns:
        The manifest that was written.

    Raises:
        GoldenError: No published case, or more bytes than `BUDGET`.
        OSError: The folder cannot be written.
    """
    chosen = goldens(pack, cases)
    if not chosen:
        raise GoldenError(
            manifest.NAME,
            f"the pack {pack.id} has no published case; say `published: true` in one of its cases",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside it, so that the last step is a rename.
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as place:
        fresh = Path(place) / "new"
        fresh.mkdir()
        files = {golden.name: _written(pack, golden, fresh) for golden in chosen}
        said(f"goldens: {len(files)} files, {_megabytes(sum(e.bytes for e in files.values()))}")
        made = Manifest(
            manifest.SCHEMA,
            pack.id,
            pack.version,
            pack.digest,
            __version__,
            SEED,
            files,
            _tolerances(pack, fresh, dtypes, cases, said, jobs) if dtypes else None,
        )
        (fresh / manifest.NAME).write_text(manifest.dump(made), encoding="utf-8", newline="\n")
        total = sum(path.stat().st_size for path in fresh.rglob("*") if path.is_file())
        if total > BUDGET:
            raise GoldenError(
                manifest.NAME,
                f"the goldens would take {_megabytes(total)} and may take {_megabytes(BUDGET)}; publish fewer cases",
            )
        _replace(folder, fresh, Path(place) / "old")
    said(f"in all {_megabytes(total)} in {folder}")
    return made


def _written(pack: Pack, golden: Golden, fresh: Path) -> GoldenEntry:
    made = content(golden)
    data = encoded({name: t.array for name, t in made.tensors.items()}, metadata(pack, golden, made))
    path = fresh / golden.name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    scenario = golden.scenario
    return GoldenEntry(
        scenario.case.id,
        scenario.operation.name,
        golden.variants[0],
        list(golden.variants),
        digest(data),
        len(data),
        len(made.tensors),
        dict(golden.choices),
        dict(made.omitted),
    )


def _tolerances(
    pack: Pack,
    fresh: Path,
    dtypes: Sequence[str],
    cases: Sequence[str],
    said: Callable[[str], None],
    jobs: int | None,
) -> ToleranceEntry:
    sigmas = measured(pack, dtypes, cases, said, jobs)
    depends = dependence(pack)
    data = tolerances.file_of(sigmas, depends, pack)
    (fresh / tolerances.NAME).write_bytes(data)
    return ToleranceEntry(tolerances.NAME, digest(data), len(data), len(sigmas), depends)


def _replace(folder: Path, fresh: Path, old: Path) -> None:
    """Two renames. What is not ours to make goes along into the new folder."""
    if folder.exists():
        for path in folder.rglob("*"):
            if path.is_file() and not is_ours(path.relative_to(folder)):
                kept = fresh / path.relative_to(folder)
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, kept)
        folder.rename(old)
    try:
        fresh.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise


def is_ours(path: Path) -> bool:
    """Whether `golden build` makes a file that is called this, relative to the folder."""
    return path == Path(manifest.NAME) or path.suffix == ".safetensors"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"
