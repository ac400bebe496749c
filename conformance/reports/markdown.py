"""The report for a comment under a pull request or the summary of a CI step: the cause first, details folded.

What comes from a results file is text, never markup: it can neither close an element, nor mention a
person, nor link to anything. The whole stays under what a comment may hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from conformance.language.program import Text
from conformance.reports.model import Graded, Report, Where
from conformance.reports.reading import report_of
from conformance.reports.words import pick, say
from conformance.results.records import VERDICTS
from conformance.results.store import Results

MAX_CHARACTERS = 60_000
"""GitHub takes 65,536 characters in a comment."""
PROBLEMS = 30
REASONS = 20
SNIPPET = 4_000
"""Characters of a snippet: most comments have room for ten of them."""

_MARKUP = re.compile(r"([\\`*_\[\]#|~$])")
_LINKS = re.compile(r"@(?=\w)\w|#\d|\b[Gg][Hh]-|://|\b[Ww][Ww][Ww]\.")
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
        part = _problem(item, lang)
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
    target = report.facts.get("target", "")
    yield (
        f"### {mark} {code(target)} {text(report.sentence, lang)}"
        if target
        else f"### {mark} {text(report.sentence, lang)}"
    )
    if rows := list(_headline(report, lang)):
        yield "\n".join(f"- **{label}**: {value}" for label, value in rows)
    if report.required:
        yield f"**{say('required', lang)}**: {', '.join(map(code, report.required))}"
    for note in report.notes:
        yield f"> {text(note, lang)}"
    header = [say("rung", lang), *(say(v, lang) for v in VERDICTS), ""]
    rows_of = [
        [
            say(rung.name, lang) if rung.name.isalpha() else plain_text(rung.name),
            *(str(n) if n else "" for n in rung.counts.values()),
            f"← {say('first broken', lang)}" if rung.first_broken else "",
        ]
        for rung in report.ladder
        if not rung.empty
    ]
    ruler = ["---", *(["--:"] * len(VERDICTS)), "---"]
    yield "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ruler, *rows_of))
    if report.problems:
        yield f"#### {say('broken claims', lang)} ({len(report.problems)})"


def _headline(report: Report, lang: str) -> Iterator[tuple[str, str]]:
    """Cause, place and what to change, one line each."""
    first = report.first
    if first is None:
        return
    if report.causes:
        cause = report.causes[0]
        says = say("or", lang).join(text(m.says, lang) or code(m.id) for m in cause.mistakes)
        counted = say(
            "explains", lang, mistakes=code(cause.name), n=len(cause.claims), all=len(report.problems)
        )
        yield say("cause", lang), f"{says} ({counted})"
    else:
        yield say("seen", lang), text(first.worst.summary, lang)
    if first.where:
        yield say("place", lang), _place(first.where, lang)
    if first.change:
        yield say("change", lang), code(first.claim.equation)
    else:
        yield say("should", lang), text(first.claim.says, lang) or code(first.claim.id)


def _problem(item: Graded, lang: str) -> str:
    claim, worst = item.claim, item.worst
    # Within <summary> no Markdown is read, so its escapes would be seen.
    kind = f"<b>{html(say(worst.verdict, lang))}</b>"
    title = html(pick(claim.title, lang))
    about = f"{html(claim.level)}{say(',', lang)}{html(say(claim.rung, lang))}"
    lines = [f"<details><summary>{kind} <code>{_escaped(claim.id)}</code> {title} ({about})</summary>", ""]
    statements = f" ({', '.join(map(plain_text, claim.statements))})" if claim.statements else ""
    if claim.says.en:
        lines += [f"> {text(claim.says, lang)}{statements}", ""]
    if claim.equation:
        lines.append(f"- {say(claim.formula, lang)}: {code(claim.equation)}")
    lines += [f"- {row}" for row in _worst(item, lang)]
    if item.consequence_of:
        lines.append(f"- {plain_text(say('consequence', lang, cause=item.consequence_of))}")
    lines += [f"- {say('mistake', lang)}: {code(m.id)}: {text(m.says, lang)}" for m in item.diagnosis]
    if item.where:
        lines.append(f"- {say('where', lang)}: {_place(item.where, lang)}")
    if item.reproduce:
        lines += ["", f"{say('reproduce without', lang)}:", "", fenced(item.reproduce)]
    return "\n".join([*lines, "", "</details>"])


def _worst(item: Graded, lang: str) -> Iterator[str]:
    worst = item.worst
    if evidence := worst.evidence:
        place = (
            say("place of element", lang, place=plain_text(evidence.index))
            if evidence.index
            else say("only element", lang)
        )
        off = f", {say('tolerances off', lang, n=worst.off)}" if worst.off else ""
        numbers = ", ".join(
            f"{say(n, lang)} {code(getattr(evidence, n))}" for n in ("got", "expected", "tolerance")
        )
        yield f"{say('worst', lang)}: {code(evidence.tensor)} {place}: {numbers}{off}"
    else:
        yield f"{say('worst', lang)}: {text(worst.summary, lang)}"
    many = (
        f"; {say('cases', lang, n=len(item.broken), all=len(item.verdicts))}"
        if len(item.verdicts) > 1
        else ""
    )
    yield f"{plain_text(say('on case', lang, case=worst.occasion))}{many}"


def _tail(report: Report, lang: str) -> Iterator[str]:
    for key, reasons in (("not graded title", report.refused), ("waived title", report.waived)):
        if not reasons:
            continue
        lines = [f"<details><summary>{say(key, lang)}</summary>", ""]
        for reason in reasons[:REASONS]:
            n = len(reason.claims)
            many = say("one claim", lang) if n == 1 else say("n claims", lang, n=n)
            lines.append(f"- {text(reason.says, lang)}: {many}")
        if len(reasons) > REASONS:
            lines.append(f"- {say('more', lang, n=len(reasons) - REASONS, report='report.html')}")
        yield "\n".join([*lines, "", "</details>"])
    for waiver in report.waivers[:REASONS]:
        yield f"{code(waiver.claim)}: {plain_text(waiver.reason)} ({plain_text(waiver.expires)}, {plain_text(say(waiver.state, lang))})"
    if report.printed:
        yield f"<details><summary>{say('printed title', lang)}</summary>\n\n{fenced(report.printed)}\n\n</details>"
    facts = [f"{say(name, lang)} {code(value)}" for name, value in report.facts.items() if name != "target"]
    if facts:
        yield f"<sub>{', '.join(facts)}. {say('counted from 0', lang)}</sub>"


def _place(where: Where, lang: str) -> str:
    if where.node:
        return plain_text(say("node", lang, node=where.node, op=where.op_type))
    variable = say("in variable", lang, variable=code(where.variable)) if where.variable else ""
    return " ".join(
        part for part in (code(where.at), code(where.text) if where.text else "", variable.strip()) if part
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
