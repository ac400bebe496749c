"""Grading one submission, in a process that does nothing else.

Whatever happens here costs this row only. All that comes of it is in the report's folder; what is sent
to the parent is how far it has got, and in the end why there is no verdict, where there is none.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.known import Known
from conformance.language.program import Text
from conformance.many.submissions import Submission
from conformance.pack.model import Pack
from conformance.results.store import FILE, StoreError
from conformance.told import told

if TYPE_CHECKING:
    from conformance.runner import Options

SELDOM = 100_000, 20, 20
"""Objects, and rounds, after which garbage is looked for: a row makes little, and lives for seconds."""
SLOWEST = 0.2
"""Seconds between two messages on how far it has got."""

STOPPED = Text("grading it was stopped by an interrupt before it was done", "评测在完成之前被中断信号停止")

Kind = tuple[str, str]
"""A variant of the pack ('' where none is declared) and a dtype: what targets of one kind are compared with is the same."""

_packs: dict[Path, Pack] = {}
_known: dict[tuple[Path, int], Known] = {}
_prepared: set[tuple[Path, int, Kind]] = set()
"""What is prepared here before a fork is known to every row that is forked afterwards."""


@dataclass(frozen=True)
class Job:
    """One submission, and how it is graded.

    Attributes:
        pack: the folder of the pack.
        output: the folder of its report.
        options: what the command line says, for `make_options`.
        map_file: of `--map`.
        lang: language in which report.html opens.
        reveal: how much of the answers it shows.
        ahead: whether it waits for what others of its kind need too, see `Unprepared`.
    """

    submission: Submission
    pack: Path
    output: Path
    options: Mapping[str, Any]
    map_file: Path | None
    lang: str
    reveal: str = "full"
    ahead: bool = False


class Unprepared(Exception):
    """A submission is of kinds that nothing is prepared for: that is done first, for all that come after it."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        super().__init__(kinds)
        self.kinds = tuple(kinds)


class Stopped(Exception):
    """The parent is no more; nobody waits for this row."""


def opened(folder: Path) -> Pack:
    """The pack in a folder, read once in a process: a child that is forked finds it read. Raises `PackError`."""
    if folder not in _packs:
        from conformance.checked_pack import open_checked

        _packs[folder] = open_checked(folder)
    return _packs[folder]


def load() -> None:
    """Imports all that grading takes, and compiles its page, so that a child that is forked has it."""
    import conformance.reports.formats
    import conformance.runner  # noqa: F401
    from conformance.reports import html, page  # noqa: F401

    page.template("report.html")


def prepare(job: Job, kind: Kind) -> None:
    """Works out, once for all rows forked from now on, what targets of a kind are compared with."""
    from conformance.claim_lines import claim_line
    from conformance.cli.options import make_options
    from conformance.reports import html
    from conformance.results.records import verdict_line
    from conformance.results.store import Results

    pack, seed = opened(job.pack), job.options["seed"]
    if (job.pack, seed, kind) in _prepared:
        return
    _prepared.add((job.pack, seed, kind))  # if it fails, each row meets the fault, and reports it
    options = make_options(pack, **job.options)
    variant, dtype = kind
    if (job.pack, seed) not in _known:
        _known[job.pack, seed] = Known.of(pack, seed)
    done = _known[job.pack, seed].prepare([variant] if variant else [], [dtype], options.select)
    # The texts of claims and of most verdicts are on every page: one is made of them for nobody.
    claims = {item.claim.id: claim_line(pack, item.claim) for item, _ in done}
    html.render(Results({}, claims, [verdict_line(verdict) for _, verdict in done], None), job.lang)


def work(job: Job, sending: Connection, others: tuple[Connection, ...] = ()) -> None:
    """The life of a row's process; its exit status says nothing.

    Args:
        job: what to grade.
        sending: where messages go.
        others: the parent's ends of pipes, which a fork hands on and which would keep them open.
    """
    for connection in others:
        connection.close()
    gc.freeze()  # what was there before lives as long as this process: nothing of it need be looked at
    gc.set_threshold(*SELDOM)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(OSError):
        os.setpgid(
            0, 0
        )  # what the terminal, or a submission, sends to the parent's group is not for this row
    _silence()
    send = _sender(sending)
    try:
        send({"end": grade(job, send)})
    except Stopped:
        return
    except Unprepared as found:
        with suppress(Stopped):
            send({"again": found.kinds})
    except KeyboardInterrupt:
        with suppress(Stopped):
            send({"end": _answer("interrupted", STOPPED)})
    except BaseException as error:
        import traceback

        side = "report" if isinstance(error, StoreError) else "fault"
        with suppress(Stopped):
            send(
                {"end": {"side": side, "message": _short(error), "traceback": traceback.format_exc()[-8000:]}}
            )


def grade(job: Job, send: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
    """Grades the submission, and leaves `results.jsonl` and `report.html`; an empty answer is a verdict.

    Raises what `runner.run` raises for faults of ours, `Unprepared`, and `KeyboardInterrupt`.
    """
    from conformance.cli.options import make_options
    from conformance.language.errors import PackError
    from conformance.plan.selection import SelectionError
    from conformance.plan.variants import VariantError
    from conformance.reports import formats
    from conformance.reports.reveal import revealed
    from conformance.results.store import Writer, read_results
    from conformance.runner import Events, run
    from conformance.session import EngineError, TargetError
    from conformance.targets import TargetUsageError, resolve_target

    pack = opened(job.pack)
    options = make_options(pack, **job.options)
    page = job.output / "report.html"
    answer: dict[str, Any] = {}
    interrupted = False
    with Writer(job.output) as writer:
        page.unlink(missing_ok=True)
        progress = _Steps(send)
        try:
            if job.submission.problem:
                answer = _answer("target", job.submission.problem)
                _refuse(writer.path, pack, job, options, job.submission.problem)
            else:
                os.chdir(job.submission.base)
                target = resolve_target(job.submission.words, job.map_file, pack)
                target = replace(target, among=job.submission.among)
                known = _known.get((job.pack, job.options["seed"]))
                events = Events(progress.start, progress.line, partial(_opened, job, pack))
                run(pack, target, options, writer, events, known)
        except TargetError as error:  # its lines are written
            answer = _answer("target", told(error.message))
        except VariantError as error:
            answer = _answer("target", told(str(error)))
        except StoreError as error:
            return {"side": "report", "message": str(error)}
        except (TargetUsageError, PackError, SelectionError, OSError) as error:
            answer = _answer("target", told(str(error)))
            _refuse(writer.path, pack, job, options, told(str(error)))
        except EngineError as error:
            answer = _answer("engine", told(error.message))
            _refuse(writer.path, pack, job, options, told(error.message))
        except KeyboardInterrupt:
            interrupted = True
            _refuse(writer.path, pack, job, options, STOPPED)
    formats.write(revealed(read_results(job.output), job.reveal), "html", page, job.lang)
    if interrupted:
        raise KeyboardInterrupt
    return answer


def _opened(job: Job, pack: Pack, variants: Sequence[str], dtypes: Sequence[str]) -> None:
    """Raises `Unprepared` where a row that may wait is of a kind that nothing is prepared for."""
    known = [variant for variant in variants or [""] if variant in pack.variants or not variant]
    kinds = [(variant, dtype) for variant in known for dtype in dtypes]
    missing = [kind for kind in kinds if (job.pack, job.options["seed"], kind) not in _prepared]
    if job.ahead and missing:
        raise Unprepared(missing)


def _answer(side: str, why: Text) -> dict[str, Any]:
    return {"side": side, "message": why.en, "zh": why.zh}


def leave(job: Job, why: Text) -> None:
    """What a row leaves whose process died before it wrote anything: results without a verdict, and a page.

    Raises `StoreError`, and what `make_options` raises.
    """
    from conformance.cli.options import make_options
    from conformance.reports import formats
    from conformance.results.store import Writer, read_results

    path = job.output / FILE
    if not path.is_file():
        Writer(job.output).close()
    pack = opened(job.pack)
    _refuse(path, pack, job, make_options(pack, **job.options), why)
    formats.write(read_results(job.output), "html", job.output / "report.html", job.lang)


def _refuse(path: Path, pack: Pack, job: Job, options: Options, why: Text) -> None:
    """The results of a submission that got no verdict, unless some are written."""
    from conformance.runner import refusal_lines
    from conformance.targets import Target

    if path.stat().st_size:
        return
    target = Target(" ".join(job.submission.words) or job.submission.name, Path())
    run, end = refusal_lines(pack, target, options, job.options["seed"] or 0, why.en)
    lines = ({**run, "notes": [{"en": why.en, "zh": why.zh}]}, end)
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


class _Steps:
    """How far a row has got, as messages: not so many that they would cost time."""

    def __init__(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        self._send = send
        self._done = 0
        self._said = 0.0

    def start(self, totals: Mapping[str, int]) -> None:
        self._send({"total": sum(totals.values())})

    def line(self, line: Mapping[str, Any]) -> None:
        if line.get("kind") != "verdict":
            return
        self._done += 1
        now = time.monotonic()
        if now - self._said >= SLOWEST:
            self._said = now
            self._send({"done": self._done})


def _sender(sending: Connection) -> Callable[[Mapping[str, Any]], None]:
    def send(message: Mapping[str, Any]) -> None:
        try:
            sending.send_bytes(json.dumps(message).encode())
        except OSError:  # the parent has gone
            raise Stopped from None

    return send


def _silence() -> None:
    """What a library prints here belongs to no report."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _short(error: BaseException) -> str:
    if isinstance(error, StoreError):
        return str(error)
    return f"{type(error).__name__}: {error}"[:2000]
