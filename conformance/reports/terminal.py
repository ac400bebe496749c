"""The report on a terminal or in a CI log, and the progress while a run goes on.

The cause stands first; details follow. Without a terminal there are no control codes, with NO_COLOR no
colours, and where the stream cannot encode a character, something is written that it can.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as Styled

from conformance.pack.model import RUNGS
from conformance.reports import plain
from conformance.reports.model import Graded, Report, Where
from conformance.reports.reading import report_of
from conformance.reports.words import pick, say
from conformance.results.records import BROKEN, VERDICTS
from conformance.results.store import Results

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

PROBLEMS = 10
"""Broken claims that are shown in full."""
REASONS = 12
"""Reasons for not grading that are shown."""
PRINTED = 12
"""Lines of what the submission printed."""
WIDTH = 100
"""Longer lines are hard to read, however wide the window is."""

STYLES = {
    "pass": "green", "fail": "bold red", "error": "bold magenta", "timeout": "bold yellow",
    "unsupported": "dim", "waived": "cyan",
}

_PLAIN = str.maketrans({
    "→": "->", "…": "...", "·": ".", "√": "sqrt ", "×": "x", "−": "-", "–": "-", "—": "-", "≤": "<=", "≥": ">=",
    "≠": "!=", "∞": "inf", "θ": "theta", "π": "pi", "σ": "sigma", "∈": "in", "∑": "sum", "←": "<-", "“": '"',
    "”": '"', "‘": "'", "’": "'", "²": "^2",
})  # fmt: skip


class Progress:
    """Counts per rung while a run goes on: on stderr, and only where that is a terminal."""

    def __init__(self, lang: str = "en", stream: TextIO | None = None, quiet: bool = False) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lang = lang
        self._shown = not quiet and _is_terminal(self._stream)
        self._bars: Bars | None = None
        self._tasks: dict[str, Any] = {}
        self._broken: dict[str, int] = {}

    def start(self, totals: Mapping[str, int]) -> None:
        """Begins, with the number of verdicts to come on each rung."""
        if not self._shown:
            return
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        console = Console(file=self._stream, highlight=False)
        self._bars = Bars(
            TextColumn("{task.description}", markup=False), BarColumn(28), MofNCompleteColumn(),
            TextColumn("{task.fields[broken]}", style="red", markup=False), TimeElapsedColumn(),
            console=console, transient=True,
        )  # fmt: skip
        width = max((_cells(say(rung, self._lang)) for rung in totals), default=0)
        for rung in sorted(totals, key=lambda r: RUNGS.index(r) if r in RUNGS else len(RUNGS)):
            name = say(plain.line(rung, plain.NAME), self._lang)
            label = name + " " * (width - _cells(name))
            self._tasks[rung] = self._bars.add_task(label, total=totals[rung], broken="", start=False)
        self._bars.start()

    def advance(self, verdict_line: Mapping[str, Any]) -> None:
        """One more verdict, as a line of the results file; lines of other kinds are passed over."""
        task = self._tasks.get(verdict_line.get("rung", ""))
        if self._bars is None or task is None or verdict_line.get("kind") != "verdict":
            return
        rung = verdict_line["rung"]
        if rung not in self._broken:
            self._broken[rung] = 0
            self._bars.start_task(task)
        if verdict_line.get("verdict") in BROKEN:
            self._broken[rung] += 1
            self._bars.update(task, broken=f"{self._broken[rung]} {say('fail', self._lang)}")
        self._bars.advance(task)

    def stop(self) -> None:
        """Takes it off the screen; what follows stands in its place. May be called twice."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def __enter__(self) -> Self:
        """The progress itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stops."""
        self.stop()


def show(
    results: Results, lang: str = "en", stream: TextIO | None = None, quiet: bool = False,
    page: str = "report.html",
) -> None:  # fmt: skip
    """Writes the summary of a run.

    Args:
        results: what was read from `results.jsonl`.
        lang: en or zh.
        stream: where to, by default stdout.
        quiet: the sentence alone, and cause and place of what is broken.
        page: how to call the full report, where something is left out here.

    Raises:
        OSError: the stream cannot be written.
    """
    stream = sys.stdout if stream is None else stream
    encoding = getattr(stream, "encoding", None) or "utf-8"
    report = report_of(results)
    notice = ""
    if lang == "zh" and not _encodes("中", encoding):
        lang, notice = "en", say("other language", "en", encoding=encoding)
    drawn = io.StringIO()
    console = _console(stream, drawn)
    if notice:
        console.print(Styled(notice, "dim"))
    _Painter(console, report, lang, page).paint(quiet)
    text = drawn.getvalue()
    if not _encodes(text, encoding):
        text = text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)
    stream.flush()


def _console(stream: TextIO, drawn: TextIO) -> Console:
    """A console that draws into memory as it would onto the stream."""
    real = Console(file=stream)
    terminal = real.is_terminal and not real.is_dumb_terminal
    return Console(
        file=drawn, force_terminal=terminal, width=min(real.width, WIDTH), highlight=False, markup=False, emoji=False,
        color_system="auto" if terminal else None, legacy_windows=False, soft_wrap=False,
    )  # fmt: skip


class _Painter:
    """One report on one console."""

    def __init__(self, console: Console, report: Report, lang: str, page: str) -> None:
        self.console, self.report, self.lang, self.page = console, report, lang, page

    def say(self, key: str, **fields: object) -> str:
        return say(key, self.lang, **fields)

    def paint(self, quiet: bool) -> None:
        report = self.report
        style = {True: "bold green", False: "bold red", None: "bold yellow"}[report.conforms]
        self.console.print(Styled(pick(report.sentence, self.lang), style))
        self.headline()
        if quiet:
            return
        for note in report.notes:
            self.console.print(Styled(pick(note, self.lang), "yellow"))
        self.ladder()
        self.problems()
        self.refusals()
        self.printed()

    def headline(self) -> None:
        """One line of cause, one of place, one of what to change."""
        first = self.report.first
        if first is None:
            return
        rows: list[tuple[str, Styled]] = []
        if self.report.causes:
            rows.append((self.say("cause"), Styled(self.cause())))
        else:
            rows.append((self.say("seen"), Styled(pick(first.worst.summary, self.lang))))
        if first.where:
            rows.append((self.say("place"), self.place(first.where)))
        rows.append((self.say("change"), Styled(self.change(first))))
        self.console.print()
        self.console.print(Padding(self.labelled(rows), (0, 0, 0, 2)))

    def cause(self) -> str:
        cause, *others = self.report.causes
        says = self.say("or").join(pick(m.says, self.lang) or m.id for m in cause.mistakes)
        counted = self.say("explains", mistakes=cause.name, n=len(cause.claims), all=len(self.report.problems))
        more = [self.say("other causes", mistakes=", ".join(c.name for c in others[:3]))] if others else []
        return "\n".join([says, counted, *more])

    def change(self, first: Graded) -> str:
        evidence, claim = first.worst.evidence, first.claim
        if claim.equation and evidence and evidence.tensor:
            return self.say("make equal", tensor=f"`{evidence.tensor}`", equation=claim.equation)
        return pick(claim.says, self.lang) or pick(claim.title, self.lang) or claim.id

    def place(self, where: Where) -> Styled:
        if where.node:
            return Styled(self.say("node", node=where.node, op=where.op_type))
        place = Styled(where.at, "bold")
        if where.text:
            place.append(f"   {where.text}", "not bold")
        if where.variable:
            place.append(self.say("in variable", variable=f"`{where.variable}`"), "not bold")
        return place

    # -- the ladder -----------------------------------------------------------------------------

    def ladder(self) -> None:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
        table.add_column(self.say("rung"), no_wrap=True)
        for verdict in VERDICTS:
            table.add_column(self.say(verdict), justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for rung in self.report.ladder:
            cells = [
                Styled(str(n), STYLES[verdict]) if n else Styled("·", "dim") for verdict, n in rung.counts.items()
            ]
            remark = Styled("")
            if rung.first_broken:
                remark = Styled("← " + self.say("first broken"), "bold red")
            elif rung.empty:
                remark = Styled(self.say("not graded"), "dim")
            table.add_row(Styled(self.say(rung.name), "bold" if rung.first_broken else ""), *cells, remark)
        self.console.print()
        self.console.print(table)
        if self.report.required:
            named = ", ".join(self.report.required)
            self.console.print(Styled(f"{self.say('required')}: {named}", "bold red"))

    # -- each broken claim, once ----------------------------------------------------------------

    def problems(self) -> None:
        problems = self.report.problems
        if not problems:
            return
        self.heading(f"{self.say('broken claims')} ({len(problems)})")
        for number, item in enumerate(problems[:PROBLEMS], 1):
            if number > 1:
                self.console.print()
            self.problem(number, item)
        if len(problems) > PROBLEMS:
            self.console.print()
            self.console.print(self.say("more", n=len(problems) - PROBLEMS, report=self.page))

    def problem(self, number: int, item: Graded) -> None:
        claim, worst = item.claim, item.worst
        head = Styled(f"{number}. ")
        head.append(self.say(worst.verdict), STYLES.get(worst.verdict, "")).append("  ")
        head.append(claim.id, "bold").append(f"  {claim.level}, {self.say(claim.rung)}", "dim")
        self.console.print(head)
        if title := pick(claim.title, self.lang):
            self.console.print(Padding(Styled(title), (0, 0, 0, 3)))
        rows: list[tuple[str, Styled]] = []
        says = pick(claim.says, self.lang)
        statements = f" ({', '.join(claim.statements)})" if claim.statements else ""
        if says or statements:
            rows.append((self.say("says"), Styled(f"{says}{statements}".strip())))
        if claim.equation:
            rows.append((self.say("equation"), Styled(claim.equation)))
        rows.append((self.say("worst"), self.worst(item)))
        if item.consequence_of:
            rows.append(("", Styled(self.say("consequence", cause=item.consequence_of))))
        if item.diagnosis:
            named = [f"{m.id}: {pick(m.says, self.lang)}" for m in item.diagnosis]
            rows.append((self.say("mistake"), Styled("\n".join(named))))
        if item.where:
            rows.append((self.say("where"), self.place(item.where)))
        if item.reproduce:
            rows.append((self.say("reproduce"), Styled("")))
        self.console.print(Padding(self.labelled(rows), (0, 0, 0, 3)))
        if item.reproduce:
            # Not wrapped: it is to be copied.
            for row in item.reproduce.split("\n"):
                self.console.print(Styled(f"     {row}".rstrip()), soft_wrap=True)

    def worst(self, item: Graded) -> Styled:
        worst = item.worst
        rows = []
        if evidence := worst.evidence:
            index = evidence.index or self.say("only element")
            rows.append(f"`{evidence.tensor}`  {index}")
            numbers = [f"{self.say(n)} {v}" for n, v in (
                ("got", evidence.got), ("expected", evidence.expected), ("tolerance", evidence.tolerance)
            ) if v]  # fmt: skip
            if worst.off:
                numbers.append(self.say("tolerances off", n=worst.off))
            rows.append(", ".join(numbers))
            if worst.close:
                rows.append(self.say("close call"))
        else:
            rows.append(pick(worst.summary, self.lang))
        rows.append(self.say("on case", case=worst.occasion))
        if len(item.verdicts) > 1:
            rows[-1] += "; " + self.say("cases", n=len(item.broken), all=len(item.verdicts))
        return Styled("\n".join(rows))

    # -- what was not graded, and what was printed ------------------------------------------------

    def refusals(self) -> None:
        for title, reasons in (("not graded title", self.report.refused), ("waived title", self.report.waived)):
            if not reasons:
                continue
            self.heading(self.say(title))
            for reason in reasons[:REASONS]:
                n = len(reason.claims)
                many = self.say("one claim") if n == 1 else self.say("n claims", n=n)
                rungs = ", ".join(self.say(r) for r in reason.rungs)
                row = Styled(f"{pick(reason.says, self.lang)}  ")
                row.append(f"{many} ({rungs})", "dim")
                self.console.print(Padding(row, (0, 0, 0, 2)))
            if len(reasons) > REASONS:
                self.console.print("  " + self.say("more", n=len(reasons) - REASONS, report=self.page))

    def printed(self) -> None:
        if not self.report.printed:
            return
        self.heading(self.say("printed title"))
        for row in plain.block(self.report.printed, 2_000, PRINTED).split("\n"):
            self.console.print(Padding(Styled(row), (0, 0, 0, 2)))

    # -- parts ----------------------------------------------------------------------------------

    def heading(self, text: str) -> None:
        self.console.print()
        self.console.print(Styled(text, "bold"))

    def labelled(self, rows: list[tuple[str, Styled]]) -> Table:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold")
        for label, value in rows:
            grid.add_row(label, value)
        return grid


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM", "") != "dumb"
    except (AttributeError, ValueError):
        return False


def _encodes(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
