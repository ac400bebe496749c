"""A pack from its folder: every file read once, decoded, and checked as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from conformance.language.errors import Location, PackError, PackErrors, suggestion
from conformance.locations import bundled
from conformance.pack import claim_files, documents, program_files
from conformance.pack.decode import convert
from conformance.pack.model import Case, Claim, Pack
from conformance.pack.program_check import program_faults
from conformance.pack.yaml_source import Source, read

SINGLE = ("pack", "axes", "tensors", "variants", "operations", "statements")
FOLDERS = ("program", "cases", "claims")
MAY_BE_EMPTY = ("mistakes",)
HEAD_LINES = 10
"""Of a manifest, before its list of files."""
T = TypeVar("T", Case, Claim)


def load_pack(folder: Path, *, mistakes: bool = False) -> Pack:
    """The pack in `folder`, with every static check made.

    `mistakes` checks the patches too: many times the work of the program itself, which `spec check`
    and the self-test do, and a run, which only explains by them, need not. The pack of which the bundled
    goldens were built was checked when they were, and is not read over symbolic sizes again.

    Raises `PackError` (or `PackErrors`, with all that could be found at once) naming file and
    line; never anything else.
    """
    if not folder.is_dir():
        raise PackError("there is no such pack folder", Location(str(folder)), "pass --pack DIR")
    sources = {name: _read(folder, f"{name}.yaml") for name in SINGLE}
    many = {name: _read_all(folder, name) for name in (*FOLDERS, *MAY_BE_EMPTY)}
    head = convert(sources["pack"], (), documents.PackDocument)
    program = program_files.program(sources["axes"], sources["tensors"], many["program"], many["mistakes"])
    fields = claim_files.choice_fields(sources["variants"])
    operations = claim_files.operations(sources["operations"], program, fields)
    cases: dict[str, Case] = _union(
        many["cases"], lambda s: claim_files.cases(s, program, operations), "case"
    )
    claims: dict[str, Claim] = _union(
        many["claims"], lambda s: claim_files.claims(s, operations, head.questions), "claim"
    )
    pack = Pack(
        head.id,
        head.version,
        program_files.text(head.title),
        folder,
        _digest([*sources.values(), *(s for group in many.values() for s in group)], folder),
        program,
        fields,
        claim_files.variants(sources["variants"], fields),
        operations,
        cases,
        claims,
        claim_files.statements(sources["statements"]),
        {name: program_files.text(t) for name, t in head.questions.items()},
        dict(head.references),
    )
    checked = program if mistakes else replace(program, mistakes={})
    sound = not mistakes and pack.digest == built_from()
    faults = () if sound else program_faults(checked, operations, fields, pack.variants)
    errors = (*faults, *consistency(pack))
    if errors:
        raise PackErrors(errors) if len(errors) > 1 else errors[0]
    return pack


def built_from() -> str:
    """The digest of the pack whose goldens are bundled; '' where there is none.

    The first lines of the manifest have it; reading all of that takes longer than what it saves.
    """
    try:
        with (bundled("golden") / "manifest.yaml").open(encoding="utf-8") as file:
            head = [next(file, "") for _ in range(HEAD_LINES)]
    except OSError:
        return ""
    found = [line.split(":")[1].strip() for line in head if line.startswith("pack_digest:")]
    return found[0] if found else ""


def consistency(pack: Pack) -> Sequence[PackError]:
    """What one file says of another: claims of statements and cases, statements of claims."""
    errors: list[PackError] = []
    for claim in pack.claims.values():
        errors.extend(
            PackError(f"unknown statement '{statement}'", claim.at, suggestion(statement, pack.statements))
            for statement in claim.statements
            if statement not in pack.statements
        )
        if not claim.statements and not claim.source:
            errors.append(PackError(f"'{claim.id}' names neither a statement nor a source", claim.at))
        if not cases_of(pack, claim):
            errors.append(PackError(f"no case fits '{claim.id}'", claim.at, "see cases: and of:"))
    return errors


def cases_of(pack: Pack, claim: Claim) -> list[Case]:
    """The cases on which a claim is decided: those of its operation that its patterns name.

    A pattern is a case id with globs, or `#tag`. Without patterns: every case without a tag.
    """
    from fnmatch import fnmatchcase

    what = (claim.operation, tuple(claim.cases))
    if what in pack.cases_found:
        return pack.cases_found[what]
    found = pack.cases_found[what] = []
    for case in pack.cases_by_operation.get(claim.operation, ()):
        if not claim.cases:
            fits = not case.tags
        else:
            fits = any(
                pattern[1:] in case.tags if pattern.startswith("#") else fnmatchcase(case.id, pattern)
                for pattern in claim.cases
            )
        if fits:
            found.append(case)
    return found


def _read(folder: Path, name: str) -> Source:
    path = folder / name
    if not path.is_file():
        raise PackError(f"the pack has no {name}", Location(str(folder)))
    return read(path)


def _read_all(folder: Path, name: str) -> list[Source]:
    paths = sorted((folder / name).glob("*.yaml"))
    if not paths and name not in MAY_BE_EMPTY:
        raise PackError(f"the pack has no files in {name}/", Location(str(folder)))
    return [read(path) for path in paths]


def _union(sources: Sequence[Source], make: Callable[[Source], dict[str, T]], what: str) -> dict[str, T]:
    found: dict[str, T] = {}
    for source in sources:
        for name, value in make(source).items():
            if name in found:
                raise PackError(f"the {what} '{name}' stands at {found[name].at} already", value.at)
            found[name] = value
    return found


def _digest(sources: Sequence[Source], folder: Path) -> str:
    total = hashlib.sha256()
    for source in sorted(sources, key=lambda s: s.file):
        path = Path(source.file)
        total.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()
