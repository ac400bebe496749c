"""A pack's claims as pytest items: `pytest spec/forward-pass --target my_adapter.py`.

Inert without `--target`. With it, every claims file of a pack becomes a file of tests, one for each
claim and case, graded exactly as `conformance run` does: the same verdicts, the same isolation.
This module is imported by every pytest run in the environment, so it imports nothing of ours (and
no NumPy) until a pack is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conformance.grading import Grader
    from conformance.plan.items import Item
    from conformance.results.records import Judgement
    from conformance.session.listening import Listening

_KEY = pytest.StashKey[dict[Path, "Opened"]]()
_REFUSED = pytest.StashKey[str]()
_ELSEWHERE = pytest.StashKey[str]()
_WORD = "conformance_refused"


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
        "--target-dtype",
        action="append",
        default=[],
        choices=("float64", "float32", "float16", "bfloat16"),
        help="grade in this dtype",
    )
    group.addoption("--target-python", metavar="EXE", help="the interpreter that runs the target")
    group.addoption(
        "--target-seed", type=int, default=0, metavar="N", help="of inputs and parameters (default: 0)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """A target that is not there is known before anything is collected, also by what starts processes."""
    words = config.getoption("--target", default=None)
    if words:
        from conformance.targets import TargetUsageError, resolve_target

        try:
            resolve_target(words.split())
        except TargetUsageError as error:
            raise pytest.UsageError(f"--target: {error}") from None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A claims file of a pack, when there is a target."""
    if not parent.config.getoption("--target", default=None):
        return None
    if file_path.suffix != ".yaml" or file_path.parent.name != "claims":
        return None
    if not (file_path.parent.parent / "pack.yaml").is_file():
        return None
    return ClaimsFile.from_parent(parent, path=file_path)


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """A target or a pack that cannot be graded ends the run, with one message for all files."""
    refused = config.stash.get(_REFUSED, "")
    if refused and hasattr(config, "workeroutput"):  # a process of pytest-xdist, whose errors nobody sees
        config.workeroutput[_WORD] = refused
    elif refused:
        raise pytest.UsageError(refused)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Of pytest-xdist: what a process could not say itself."""
    del error
    node.config.stash[_ELSEWHERE] = getattr(node, "workeroutput", {}).get(_WORD, "")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The message of pytest-xdist's processes, and the status that it would have had."""
    refused = session.config.stash.get(_ELSEWHERE, "")
    if refused:
        pytest.exit(refused, returncode=pytest.ExitCode.USAGE_ERROR)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the targets' processes."""
    for run in config.stash.get(_KEY, {}).values():
        run.close()


class Refused(Exception):
    """What `conformance run` would refuse, and in its words."""


class Opened:
    """A pack and a target, opened once for all files of the pack."""

    def __init__(self, folder: Path, config: pytest.Config) -> None:
        """Raises `Refused`."""
        from conformance.checked_pack import open_checked
        from conformance.golden.tolerances import known_tolerances
        from conformance.grading import Grader
        from conformance.judging.bench import Bench
        from conformance.judging.count import PARAMETER_SHAPES
        from conformance.language.errors import PackError
        from conformance.plan.items import entry_points, plan
        from conformance.plan.selection import Selection
        from conformance.plan.variants import VariantError, resolve
        from conformance.serving import serving
        from conformance.session import EngineError, TargetError
        from conformance.session.listening import Listening
        from conformance.targets import resolve_target

        self.target = str(config.getoption("--target"))
        self.session: Listening | None = None
        self.stack = ExitStack()
        try:
            pack = open_checked(folder)
            target = resolve_target(self.target.split())
            names = [*entry_points(pack), PARAMETER_SHAPES]
            served = self.stack.enter_context(serving(target))
            self.session = Listening(
                served.path,
                names=names,
                python=config.getoption("--target-python"),
                arguments=served.arguments,
            )
            offer = self.session.open()
            graded = resolve(pack, offer.variants, config.getoption("--target-variant"))
            dtypes = config.getoption("--target-dtype") or offer.dtypes
        except (PackError, TargetError, VariantError, EngineError) as error:
            self.close()
            raise Refused(_said(error)) from None
        except BaseException:
            self.close()
            raise
        bench = Bench(self.session, offer, store=known_tolerances(pack), graph=served.graph)
        self.grader: Grader = Grader.of(pack, bench, graded, config.getoption("--target-seed"))
        self.by_file: dict[Path, list[Item]] = {}
        items = plan(pack, offer, graded, dtypes, Selection(), served.graph is not None).items
        files = {item.claim.at.file: Path(item.claim.at.file).resolve() for item in items}
        for item in items:
            self.by_file.setdefault(files[item.claim.at.file], []).append(item)
        self.several = len({i.variant.name for i in items}) > 1, len({i.dtype for i in items}) > 1

    def close(self) -> None:
        """Ends the target's process."""
        if self.session is not None:
            self.session.close()
        self.stack.close()


def _said(error: Exception) -> str:
    """The side at fault, the message and the advice, as the command line says them."""
    from conformance.language.errors import PackError
    from conformance.session import EngineError, TargetError

    if str(error).startswith("--variant"):
        return f"--target{str(error).removeprefix('-')}"
    side = (
        "pack" if isinstance(error, PackError) else "engine" if isinstance(error, EngineError) else "target"
    )
    if not isinstance(error, EngineError | TargetError):
        return f"{side}: {error}"
    return "\n  ".join([f"{side}: {error.message}", *filter(None, [error.hint])])


def opened(folder: Path, config: pytest.Config) -> Opened | None:
    """The pack in `folder` with the target of this run; None where that was refused."""
    known = config.stash.setdefault(_KEY, {})
    if folder not in known:
        if config.stash.get(_REFUSED, ""):
            return None
        try:
            known[folder] = Opened(folder, config)
        except Refused as error:
            config.stash[_REFUSED] = str(error)
            return None
    return known[folder]


class ClaimsFile(pytest.File):
    """One claims file: an item for each claim, case, variant and dtype."""

    def collect(self) -> Iterator[pytest.Item]:
        """Items in the order of the ladder."""
        run = opened(self.path.parent.parent, self.config)
        if run is None:
            return
        variants, dtypes = run.several
        for item in run.by_file.get(self.path.resolve(), []):
            more = [item.variant.name] * variants + [item.dtype] * dtypes
            name = f"{item.claim.id}[{'-'.join([item.case.id, *more])}]"
            # The id as text: pytest 9.2 and later read the brackets as parameters, as they do when it is
            # given back to them (--lf, a node on the command line), and only then are the two the same.
            yield ClaimItem.from_parent(self, name=name, nodeid=f"{self.nodeid}::{name}", item=item, run=run)


class NotHeld(Exception):
    """A claim that does not hold; carries its judgement to the report."""

    def __init__(self, judgement: Judgement) -> None:
        """What the kind of claim found."""
        super().__init__(judgement.summary.en)
        self.judgement = judgement


class ClaimItem(pytest.Item):
    """One claim on one case."""

    def __init__(self, *, item: Item, run: Opened, **kwargs: Any) -> None:
        """`item` says what is graded, `run` with what."""
        super().__init__(**kwargs)
        self.item, self.run = item, run
        self.user_properties.append(("claim", item.claim.id))
        self.user_properties.append(("statements", " ".join(item.claim.statements)))

    def runtest(self) -> None:
        """Judge; `unsupported` is a skip."""
        assert self.run.session is not None
        before = set(self.run.session.heard)
        judgement = self.run.grader.judge(self.item)
        for text in self.run.session.heard:
            if text not in before:
                self.add_report_section("call", "target", text)
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
        return "\n".join(explanation(self.item, excinfo.value.judgement, self.run.target))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The claim's own line in the pack."""
        return self.path, max(self.item.claim.at.line - 1, 0), self.name


def explanation(item: Item, judgement: Judgement, target: str) -> Iterator[str]:
    """What a failed claim says: the statement, what came, where, and the cause if it is known."""
    claim = item.claim
    about = ", ".join([claim.level, *claim.statements])
    yield f"{judgement.verdict}: {claim.title.en} ({claim.id}, {about})"
    yield f"  {claim.says.en}"
    yield f"  {judgement.summary.en}"
    for diagnosis in judgement.diagnosis:
        yield f"  cause: {diagnosis.mistake}: {diagnosis.says.en}"
    if judgement.place is not None:
        place = judgement.place
        yield f"  at {place.file}:{place.line}: {place.text}" if place.line else f"  at {place.file}"
    yield f"  case {item.case.id}: {item.case.purpose.en}"
    yield f"  this claim alone: conformance run {target} --select {claim.id}"
