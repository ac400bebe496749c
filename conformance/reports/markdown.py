"""The report for a comment under a pull request or the summary of a CI step: the cause first, details folded.

What comes from a results file is text, never markup: it can neither close an element, nor mention a
person, nor link to anything. The whole stays under what a comment may hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from conformance.language.program import Text
from conformance.reports.model import Graded, Reason, Report, Waiver, Where
from conformance.reports.reading import report_of
from conformance.reports.words import between, fact, pick, say
from conformance.results.records import VERDICTS
from conformance.results.store import Results

MAX_CHARACTERS = 60_000
"""GitHub takes 65,536 characters in a comment."""
PROBLEMS = 30
REASONS = 20
SNIPPET = 4_000
"""Characters of a snippet: most comments have room for ten of them."""

_MARKUP = re.compile(r"([\\`*_\[\]#|~$])")
_LINKS = re.compile(r"@\w|#\d|\b[Gg][Hh]-|://|\b[Ww][Ww][Ww]\.")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BREAK = "&#8203;"  # parts what would be a mention, a reference or a link, and is not seen
_CODE = re.compile(r"`([^`]+)`")
_TICKS = re.compile(r"`+")


def render(results: Results, lang: str = "en") -> str:
    """The report in Markdown (GitHub's)."""
    report = report_of(results)
    parts = list(_head(report, lang))
    room = MAX_CHARACTERS - sum(len(part) + 2 for part in parts)
    tail = list(_tail(report, lang))
    room -= sum(len(part) + 2 for part in tail)
    shown = 0
    for item in report.problems[:PROBLEMS]:
        part = _problem(report, item, lang)
        if len(part) + 2 > room:
            break
        room -= len(part) + 2
        parts.append(part)
        shown += 1
    if left := len(report.problems) - shown:
        parts.append(say("more", lang, n=left, report="report.html"))
    return "\n\n".join([*parts, *tail]) + "\n"


def _head(report: Report, lang: str) -> Iterator[str]:
    mark = {True: "✅", False: "❌", None: "⚠️"}[report.conforms]
    yield " ".join(["###", mark, code(report.facts.get("target", "")), text(report.sentence, lang)])
    if rows := list(_headline(report, lang)):
        yield _list(lang, rows, bold=True)
    if report.required:
        yield _list(
            lang, [(say("required", lang), say(",", lang).join(map(code, report.required)))], bold=True
        )
    for note in report.notes:
        yield f"> {text(note, lang)}"
    yield _ladder(report, lang)
    if report.problems:
        yield f"#### {say('broken claims', lang)} ({len(report.problems)})"


def _headline(report: Report, lang: str) -> Iterator[tuple[str, str]]:
    """Cause, place and what to change, one line each."""
    first = report.first
    if first is None:
        return
    if report.causes:
        cause = report.causes[0]
        yield say("cause", lang), text(cause.says, lang) or code(cause.name)
        yield "", text(report.causation, lang)
    else:
        if pick(report.causation, lang):
            yield say("cause", lang), text(report.causation, lang)
        yield say("seen", lang), text(first.worst.summary, lang)
        if pick(report.alike, lang):
            yield "", text(report.alike, lang)
    if report.where:
        yield say("place", lang), _place(report.where, lang)
        if story := between(report.where):
            yield "", text(story, lang)
    if first.change:
        yield say("change", lang), code(first.claim.equation)
    elif not report.causes:
        yield say("should", lang), text(first.claim.says, lang) or code(first.claim.id)


def _ladder(report: Report, lang: str) -> str:
    rows = [[say("rung", lang), *(say(v, lang) for v in VERDICTS), " "]]
    rows.append(["---", *["--:"] * len(VERDICTS), "---"])
    for rung in report.ladder:
        counts = [str(n) if n else " " for n in rung.counts.values()]
        remark = f"← {say('first broken', lang)}" if rung.first_broken else " "
        rows.append(
            [plain_text(say(rung.name, lang)), *counts, say("not graded", lang) if rung.empty else remark]
        )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _problem(report: Report, item: Graded, lang: str) -> str:
    claim = item.claim
    # Within <summary> no Markdown is read, so its escapes would be seen.
    kind = f"<b>{html(say(item.worst.verdict, lang))}</b>"
    about = say(",", lang).join([html(claim.level), html(say(claim.rung, lang))])
    title = html(pick(claim.title, lang))
    lines = [f"<details><summary>{kind} <code>{_escaped(claim.id)}</code> {title} ({about})</summary>", ""]
    statements = f" ({', '.join(map(plain_text, claim.statements))})" if claim.statements else ""
    if says := f"{text(claim.says, lang)}{statements}".strip():
        lines += [f"> {says}", ""]
    lines.append(_list(lang, list(_details(report, item, lang))))
    if item.reproduce:
        lines += ["", say("reproduce without", lang) + say(":", lang).rstrip(), "", fenced(item.reproduce)]
    return "\n".join([*lines, "", "</details>"])


def _details(report: Report, item: Graded, lang: str) -> Iterator[tuple[str, str]]:
    claim, worst = item.claim, item.worst
    if claim.equation:
        yield say(claim.formula, lang), code(claim.equation)
    if evidence := worst.evidence:
        index = plain_text(evidence.index)
        place = say("place of element", lang, place=index) if index else say("only element", lang)
        numbers = [f"{say(n, lang)} {code(getattr(evidence, n))}" for n in ("got", "expected", "tolerance")]
        off = [say("tolerances off", lang, n=worst.off)] if worst.off else []
        yield (
            say("worst", lang),
            f"{code(evidence.tensor)} {place}{say(':', lang)}{say(',', lang).join([*numbers, *off])}",
        )
    else:
        yield say("worst", lang), text(worst.summary, lang)
    many = say(";", lang) + say("cases", lang, n=len(item.broken), all=len(item.verdicts))
    yield say("case", lang), plain_text(worst.occasion) + (many if len(item.verdicts) > 1 else "")
    if cause := report.follows.get(claim.id):
        yield say("cause", lang), plain_text(say("consequence", lang, cause=cause))
    for mistake in item.diagnosis:
        yield say("mistake", lang), f"{code(mistake.id)}{say(':', lang)}{text(mistake.says, lang)}"
    if item.where:
        yield say("where", lang), _place(item.where, lang)


def _tail(report: Report, lang: str) -> Iterator[str]:
    more = say("more", lang, n=len(report.refused) - REASONS, report="report.html")
    if report.refused:
        rows = [_reason(reason, lang) for reason in report.refused[:REASONS]]
        yield _folded(say("not graded title", lang), rows + [more] * (len(report.refused) > REASONS))
    if report.waivers:
        rows = [_waiver(waiver, lang) for waiver in report.waivers[:REASONS]]
        yield _folded(say("waived title", lang), rows)
    elif report.waived:
        yield _folded(say("waived title", lang), [_reason(r, lang) for r in report.waived[:REASONS]])
    if report.printed:
        title = say("printed title", lang)
        yield f"<details><summary>{title}</summary>\n\n{fenced(report.printed)}\n\n</details>"
    facts = [
        f"{say(name, lang)} {code(pick(fact(name, value), lang))}"
        for name, value in report.facts.items()
        if name != "target"
    ]
    if facts:
        yield f"<sub>{say(',', lang).join(facts)}{say(';', lang)}{say('counted from 0', lang)}</sub>"


def _reason(reason: Reason, lang: str) -> str:
    n = len(reason.claims)
    many = say("one claim", lang) if n == 1 else say("n claims", lang, n=n)
    return f"{text(reason.says, lang)}{say(':', lang)}{many}"


def _waiver(waiver: Waiver, lang: str) -> str:
    state = say(",", lang).join([say("until", lang, day=waiver.expires), say(waiver.state, lang)])
    return f"{code(waiver.claim)}{say(':', lang)}{plain_text(waiver.reason)} ({plain_text(state)})"


def _place(where: Where, lang: str) -> str:
    if where.node:
        return plain_text(say("node", lang, node=where.node, op=where.op_type))
    variable = say("in variable", lang, variable=code(where.variable)) if where.variable else ""
    return " ".join(part for part in (code(where.at), code(where.text), variable.strip()) if part)


# -- parts -------------------------------------------------------------------------------------------


def _list(lang: str, rows: Sequence[tuple[str, str]], *, bold: bool = False) -> str:
    mark = "**" if bold else ""
    return "\n".join(
        f"- {mark}{label}{mark}{say(':', lang)}{value}" if label else f"  - {value}" for label, value in rows
    )


def _folded(title: str, rows: Sequence[str]) -> str:
    return "\n".join(
        [f"<details><summary>{title}</summary>", "", *(f"- {row}" for row in rows), "", "</details>"]
    )


# -- text of strangers -------------------------------------------------------------------------------


def text(value: Text, lang: str) -> str:
    """A text; what stands in backticks is code, and nothing else in it is markup."""
    parts = _CODE.split(pick(value, lang))  # every second one stood in backticks
    return "".join(code(part) if i % 2 else plain_text(part) for i, part in enumerate(parts))


def plain_text(value: str) -> str:
    """Text without any markup, mention, reference or link."""
    return _parted(_MARKUP.sub(r"\\\1", _escaped(value)))


def html(value: str) -> str:
    """Text where HTML is read and Markdown is not."""
    return _parted(_escaped(value).replace("`", ""))


def code(value: str) -> str:
    """A span of code that holds any text of one line. Not for a table, whose cells end at a bar."""
    if not value:
        return ""
    ticks = "`" * (_longest(value) + 1)
    space = " " if value[0] in "` " or value[-1] in "` " else ""
    return f"{ticks}{space}{value}{space}{ticks}"


def fenced(value: str) -> str:
    """A block of code that holds any text."""
    if len(value) > SNIPPET:
        value = value[:SNIPPET].rpartition("\n")[0] + "\n…"
    fence = "`" * max(3, _longest(value) + 1)
    return f"{fence}text\n{value}\n{fence}"


def _parted(value: str) -> str:
    """What would become a mention, a reference or a link, taken apart."""
    return _LINKS.sub(lambda found: found[0][:-1] + _BREAK + found[0][-1], value)


def _longest(value: str) -> int:
    return max(map(len, _TICKS.findall(value)), default=0)


def _escaped(value: str) -> str:
    return "".join(_HTML.get(character, character) for character in value)
