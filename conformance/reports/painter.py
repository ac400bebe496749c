"""One report, line by line, on a console: no boxes, nothing wider than the window but what is to be copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as Styled

from conformance.reports import plain
from conformance.reports.model import Graded, Mistake, Reason, Report, Where
from conformance.reports.words import between, pick, say
from conformance.reports.wrap import wrap
from conformance.results.records import BROKEN, VERDICTS

PROBLEMS = 10
"""Broken claims that are shown in full."""
FOLLOWING = 10
"""Broken claims that follow from the same cause as one in full: a line each."""
REASONS = 12
"""Reasons for not grading that are shown."""
PRINTED = 12
"""Lines of what the submission printed."""

STYLES = {
    "pass": "green",
    "fail": "bold red",
    "error": "bold magenta",
    "timeout": "bold yellow",
    "unsupported": "dim",
    "waived": "cyan",
}

Row = tuple[str, Styled]
"""A label, and what stands beside it."""


class Painter:
    """Draws a report in a language; `page` is how it calls the full one."""

    def __init__(self, console: Console, report: Report, lang: str, page: str) -> None:
        self.console, self.report, self.lang, self.page = console, report, lang, page

    def paint(self, quiet: bool) -> None:
        """All of it, or with `quiet` the verdict alone."""
        style = {True: "bold green", False: "bold red", None: "bold yellow"}[self.report.conforms]
        self._put(Styled(pick(self.report.sentence, self.lang), style))
        if quiet:
            return
        self._headline()
        for note in self.report.notes:
            self._put(Styled(pick(note, self.lang), "yellow"))
        self._ladder()
        self._problems()
        self._reasons("not graded title", self.report.refused)
        self._waivers()
        self._printed()

    # -- the cause first ------------------------------------------------------------------------

    def _headline(self) -> None:
        """One line of cause, one of place, one of what to change."""
        first = self.report.first
        if first is None:
            return
        rows: list[Row] = []
        if self.report.causes:
            rows.append((self._say("cause"), Styled(self._cause())))
        else:
            if causation := pick(self.report.causation, self.lang):
                rows.append((self._say("cause"), Styled(causation)))
            rows.append((self._say("seen"), Styled(pick(first.worst.summary, self.lang))))
            if more := pick(self.report.alike, self.lang):
                rows.append(("", Styled(more)))
        if where := self.report.where:
            rows.append((self._say("place"), self._place(where)))
            if story := between(where):
                rows.append(("", Styled(pick(story, self.lang))))
        if first.change:
            rows.append((self._say("change"), Styled(first.claim.equation)))
        elif not self.report.causes and (says := pick(first.claim.says, self.lang)):
            rows.append((self._say("should"), Styled(says)))
        self.console.print()
        self._rows(rows, indent=2)

    def _cause(self) -> str:
        cause, *others = self.report.causes
        says = pick(cause.says, self.lang) or cause.name
        more = (
            [self._say("other causes", mistakes=self._joined([c.name for c in others[:3]]))] if others else []
        )
        return "\n".join([says, pick(self.report.causation, self.lang), *more])

    def _place(self, where: Where) -> Styled:
        if where.node:
            return Styled(self._say("node", node=where.node, op=where.op_type))
        place = Styled(where.at)
        if where.text:
            place.append(f"   {where.text}", "bold")
        if where.variable:
            place.append(self._say("in variable", variable=f"`{where.variable}`"))
        return place

    # -- the ladder -----------------------------------------------------------------------------

    def _ladder(self) -> None:
        counts = self.report.counts
        columns = list(VERDICTS)
        names = {rung.name: self._say(rung.name) for rung in self.report.ladder}
        first = max(cell_len(name) for name in (*names.values(), self._say("rung")))
        if self._width(first, columns) > self.console.width:
            columns = [v for v in columns if counts[v]]
        empty = f"  {self._say('not graded')}"
        if self._width(first, columns) + cell_len(empty) > self.console.width:
            empty = ""  # a row of dots says it too
        self.console.print()
        header = [Styled(_left(self._say("rung"), first), "dim")]
        self._line([*header, *(Styled(_right(self._say(v), self._column(v)), "dim") for v in columns)])
        for rung in self.report.ladder:
            cells = [Styled(_left(names[rung.name], first), "bold" if rung.first_broken else "")]
            for verdict in columns:
                n = rung.counts[verdict]
                cells.append(
                    Styled(
                        _right(str(n) if n else "·", self._column(verdict)), STYLES[verdict] if n else "dim"
                    )
                )
            if rung.first_broken:
                cells.append(Styled(f"← {self._say('first broken')}", "bold red"))
            elif rung.empty:
                cells.append(Styled(empty.strip(), "dim"))
            self._line(cells)
        if self.report.required:
            required = f"{self._say('required')}{self._say(':')}{self._joined(self.report.required)}"
            self.console.print()
            self._put(Styled(required, "bold red"))

    def _width(self, first: int, columns: Sequence[str]) -> int:
        return first + sum(2 + self._column(v) for v in columns)

    def _column(self, verdict: str) -> int:
        return max(cell_len(self._say(verdict)), len(str(self.report.counts[verdict])))

    # -- each broken claim, once ----------------------------------------------------------------

    def _problems(self) -> None:
        problems = self.report.problems
        if not problems:
            return
        self._heading(f"{self._say('broken claims')} ({len(problems)})")
        alone = [item for item in problems if item.claim.id not in self.report.follows]
        for number, item in enumerate(alone[:PROBLEMS], 1):
            if number > 1:
                self.console.print()
            self._problem(number, item)
        if len(alone) > PROBLEMS:
            self.console.print()
            self._put(Styled(self._say("more", n=len(alone) - PROBLEMS, report=self.page)))
        for cause in dict.fromkeys(self.report.follows.values()):
            self._following(cause, [p for p in problems if self.report.follows.get(p.claim.id) == cause])

    def _following(self, cause: str, items: Sequence[Graded]) -> None:
        """Claims that only suffer from a cause, a line each."""
        self.console.print()
        self._put(Styled(f"{self._say('following', cause=cause)} ({len(items)})"))
        width = max(cell_len(self._say(v)) for v in BROKEN)
        ids = max(cell_len(item.claim.id) for item in items[:FOLLOWING])
        for item in items[:FOLLOWING]:
            row = Styled(_left(self._say(item.worst.verdict), width), STYLES.get(item.worst.verdict, ""))
            row.append(f"  {_left(item.claim.id, ids)}  ", "not bold default")
            row.append(pick(item.claim.title, self.lang), "dim")
            self._put(row, indent=2)
        if len(items) > FOLLOWING:
            self._put(Styled(self._say("more", n=len(items) - FOLLOWING, report=self.page)), indent=2)

    def _problem(self, number: int, item: Graded) -> None:
        claim = item.claim
        head = Styled(f"{number}. ")
        head.append(self._say(item.worst.verdict), STYLES.get(item.worst.verdict, "")).append("  ")
        head.append(claim.id, "bold").append(f"  {claim.level}{self._say(',')}{self._say(claim.rung)}", "dim")
        self._put(head)
        if title := pick(claim.title, self.lang):
            self._put(Styled(title), indent=3)
        self._rows(list(self._details(item)), indent=3)
        # Not wrapped: it is to be copied.
        for row in item.reproduce.split("\n") if item.reproduce else ():
            self.console.print(Styled(f"     {row}".rstrip()), soft_wrap=True)

    def _details(self, item: Graded) -> Iterator[Row]:
        claim = item.claim
        statements = f" ({', '.join(claim.statements)})" if claim.statements else ""
        if says := f"{pick(claim.says, self.lang)}{statements}".strip():
            yield self._say("says"), Styled(says)
        if claim.equation:
            yield self._say(claim.formula), Styled(claim.equation)
        yield self._say("worst"), Styled("\n".join(self._worst(item)))
        if item.diagnosis:
            yield self._say("mistake"), Styled("\n".join(map(self._mistake, item.diagnosis)))
        if item.where:
            yield self._say("where"), self._place(item.where)
        if item.reproduce:
            yield self._say("reproduce"), Styled("")

    def _worst(self, item: Graded) -> Iterator[str]:
        worst = item.worst
        if evidence := worst.evidence:
            index = evidence.index
            place = self._say("place of element", place=index) if index else self._say("only element")
            yield f"`{evidence.tensor}` {place}"
            yield self._joined(f"{self._say(n)} {getattr(evidence, n)}" for n in ("got", "expected"))
            off = [self._say("tolerances off", n=worst.off)] if worst.off else []
            close = [self._say("close call")] if worst.close else []
            yield self._joined([f"{self._say('tolerance')} {evidence.tolerance}", *off, *close])
        else:
            yield pick(worst.summary, self.lang)
        many = self._say("cases", n=len(item.broken), all=len(item.verdicts))
        yield self._say("on case", case=worst.occasion) + (
            self._say(";") + many if len(item.verdicts) > 1 else ""
        )

    def _mistake(self, mistake: Mistake) -> str:
        """Its name; and what it is, unless that stands at the top already."""
        told = self.report.causes and mistake.id == self.report.causes[0].mistakes[0]
        return mistake.id if told else f"{mistake.id}{self._say(':')}{pick(mistake.says, self.lang)}"

    # -- what was not graded, and what was printed ------------------------------------------------

    def _reasons(self, title: str, reasons: Sequence[Reason]) -> None:
        if not reasons:
            return
        self._heading(self._say(title))
        rows = []
        for reason in reasons[:REASONS]:
            n = len(reason.claims)
            row = Styled(pick(reason.says, self.lang))
            row.append(f"  ({self._joined(map(self._say, reason.rungs))})", "dim")
            rows.append((self._say("one claim") if n == 1 else self._say("n claims", n=n), row))
        self._rows(rows, indent=2)
        if len(reasons) > REASONS:
            self._put(Styled(self._say("more", n=len(reasons) - REASONS, report=self.page)), indent=2)

    def _waivers(self) -> None:
        if not self.report.waivers:  # of an interrupted run, or by another tool
            self._reasons("waived title", self.report.waived)
            return
        self._heading(self._say("waived title"))
        for waiver in self.report.waivers[:REASONS]:
            row = Styled(waiver.claim, "bold")
            row.append(f"{self._say(':')}{waiver.reason}", "not bold")
            state = self._joined([self._say("until", day=waiver.expires), self._say(waiver.state)])
            row.append(f"{self._say('(')}{state}{self._say(')')}", "not bold")
            self._put(row, indent=2)

    def _printed(self) -> None:
        if not self.report.printed:
            return
        self._heading(self._say("printed title"))
        for row in plain.block(self.report.printed, 2_000, PRINTED).split("\n"):
            self._put(Styled(row), indent=2)

    # -- parts ----------------------------------------------------------------------------------

    def _say(self, key: str, **fields: object) -> str:
        return say(key, self.lang, **fields)

    def _joined(self, parts: Iterator[str] | Sequence[str] | map[str]) -> str:
        return self._say(",").join(parts)

    def _heading(self, text: str) -> None:
        self.console.print()
        self._put(Styled(text, "bold"))

    def _put(self, text: Styled, indent: int = 0) -> None:
        """A paragraph."""
        self._rows([("", text)], indent)

    def _rows(self, rows: Sequence[Row], indent: int) -> None:
        """Paragraphs with labels in a column of their own."""
        widest = max((cell_len(label) for label, _ in rows), default=0)
        margin = indent + (widest + 2 if widest else 0)
        for label, value in rows:
            lines = wrap(value, self.console.width - margin).split("\n", allow_blank=True)
            for i, line in enumerate(lines):
                start = Styled(" " * indent + (_left(label, widest) + "  " if widest else ""), "dim")
                self.console.print(Styled.assemble(start if i == 0 else " " * margin, line), soft_wrap=True)

    def _line(self, cells: Sequence[Styled]) -> None:
        self.console.print(Styled("  ").join(cells), soft_wrap=True)


def _left(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text
