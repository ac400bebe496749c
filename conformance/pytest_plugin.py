"""A pack's claims as pytest items: `pytest spec/forward-pass --target my_adapter.py`.

Inert without `--target`. With it, every claims file of a pack becomes a file of tests, one for each
claim and case, graded exactly as `conformance run` does: the same verdicts, the same isolation.
This module is imported by every pytest run in the environment, so it imports nothing of ours (and
no NumPy) until a pack is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conformance.grading import Grader, Item
    from conformance.results.records import Judgement
    from conformance.session import Session

_KEY = pytest.StashKey[dict[Path, "Opened"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("conformance", "grading a Transformer against a pack of claims")
    group.addoption(
        "--target", metavar="FILE", help="adapter file to grade; packs' claims are collected as tests"
    )
    group.addoption(
        "--target-variant", action="append", default=[], metavar="NAME", help="grade as this variant"
    )
    group.addoption(
        "--target-dtype", action="append", default=[], metavar="DTYPE", help="grade in this dtype"
    )
    group.addoption("--target-python", metavar="EXE", help="the interpreter that runs the target")
    group.addoption(
        "--target-seed", type=int, default=0, metavar="N", help="of inputs and parameters (default: 0)"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A claims file of a pack, when there is a target."""
    if not parent.config.getoption("--target", default=None):
        return None
    if file_path.suffix != ".yaml" or file_path.parent.name != "claims":
        return None
    if not (file_path.parent.parent / "pack.yaml").is_file():
        return None
    return ClaimsFile.from_parent(parent, path=file_path)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the targets' processes."""
    for opened in config.stash.get(_KEY, {}).values():
        opened.session.close()


class Opened:
    """A pack and a target, opened once for all files of the pack."""

    def __init__(self, folder: Path, config: pytest.Config) -> None:
        """Raises `pytest.UsageError` for whatever `conformance run` would refuse."""
        from conformance.checked_pack import open_checked
        from conformance.golden.tolerances import known_tolerances
        from conformance.grading import Grader, entry_point, plan
        from conformance.judging.bench import Bench
        from conformance.judging.count import PARAMETER_SHAPES
        from conformance.language.errors import PackError
        from conformance.plan.selection import Selection
        from conformance.plan.variants import VariantError, resolve
        from conformance.session import EngineError, Session, TargetError
        from conformance.targets import TargetUsageError, resolve_target

        try:
            pack = open_checked(folder)
            target = resolve_target(str(config.getoption("--target")).split())
            names = [*(entry_point(operation) for operation in pack.operations.values()), PARAMETER_SHAPES]
            self.session: Session = Session(
                target.path,
                names=names,
                python=config.getoption("--target-python"),
                arguments=target.arguments,
            )
            offer = self.session.open()
            graded = resolve(pack, offer.variants, config.getoption("--target-variant"))
            dtypes = config.getoption("--target-dtype") or offer.dtypes
        except (PackError, TargetUsageError, TargetError, VariantError, EngineError) as error:
            raise pytest.UsageError(str(error)) from None
        self.grader: Grader = Grader.of(
            pack, Bench(self.session, offer, store=known_tolerances(pack)), graded, config.getoption("--target-seed")
        )
        self.items: tuple[Item, ...] = plan(pack, offer, graded, dtypes, Selection()).items


def opened(folder: Path, config: pytest.Config) -> Opened:
    """The pack in `folder` with the target of this run."""
    known = config.stash.setdefault(_KEY, {})
    if folder not in known:
        known[folder] = Opened(folder, config)
    return known[folder]


class ClaimsFile(pytest.File):
    """One claims file: an item for each claim, case, variant and dtype."""

    def collect(self) -> Iterator[pytest.Item]:
        """Items in the order of the ladder."""
        run = opened(self.path.parent.parent, self.config)
        several = len({i.variant.name for i in run.items}) > 1
        dtypes = len({i.dtype for i in run.items}) > 1
        for item in run.items:
            if Path(item.claim.at.file).resolve() == self.path.resolve():
                more = [item.variant.name] * several + [item.dtype] * dtypes
                name = f"{item.claim.id}[{'-'.join([item.case.id, *more])}]"
                yield ClaimItem.from_parent(self, name=name, item=item, grader=run.grader)


class NotHeld(Exception):
    """A claim that does not hold; carries its judgement to the report."""

    def __init__(self, judgement: Judgement) -> None:
        """What the kind of claim found."""
        super().__init__(judgement.summary.en)
        self.judgement = judgement


class ClaimItem(pytest.Item):
    """One claim on one case."""

    def __init__(self, *, item: Item, grader: Grader, **kwargs: Any) -> None:
        """`item` says what is graded, `grader` grades it."""
        super().__init__(**kwargs)
        self.item, self.grader = item, grader
        self.user_properties.append(("claim", item.claim.id))
        self.user_properties.append(("statements", " ".join(item.claim.statements)))

    def runtest(self) -> None:
        """Judge; `unsupported` is a skip."""
        judgement = self.grader.judge(self.item)
        if judgement is None:
            pytest.skip("the claim is about another form of this operation")
        if judgement.verdict == "unsupported":
            pytest.skip(f"unsupported: {judgement.summary.en}")
        if judgement.verdict != "pass":
            raise NotHeld(judgement)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """Our explanation in place of a traceback; a fault of ours keeps its own."""
        if not isinstance(excinfo.value, NotHeld):
            return str(super().repr_failure(excinfo, style))
        return "\n".join(explanation(self.item, excinfo.value.judgement))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The claim's own line in the pack."""
        return self.path, max(self.item.claim.at.line - 1, 0), self.name


def explanation(item: Item, judgement: Judgement) -> Iterator[str]:
    """What a failed claim says: the statement, what came, where, and the cause if it is known."""
    claim = item.claim
    yield f"{judgement.verdict}: {claim.title.en} ({claim.id}, {', '.join(claim.statements)})"
    yield f"  {claim.says.en}"
    yield f"  {judgement.summary.en}"
    for diagnosis in judgement.diagnosis:
        yield f"  cause: {diagnosis.mistake}: {diagnosis.says.en}"
    if judgement.place is not None:
        place = judgement.place
        yield f"  at {place.file}:{place.line}: {place.text}" if place.line else f"  at {place.file}"
    yield f"  case {item.case.id}: {item.case.purpose.en}"
    yield f"  this claim alone: conformance run TARGET --select {claim.id}"
