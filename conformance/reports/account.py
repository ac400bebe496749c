"""One verdict in a few lines of plain text, for formats that have a place for a message and no more."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.reports.model import Graded, Report, Verdict, Where
from conformance.reports.words import pick, say


def named(verdict: Verdict) -> str:
    """`q007.softmax [softmax-last-axis, llama, float32]`: what tells it from every other verdict."""
    return f"{verdict.claim} [{verdict.occasion}]" if verdict.occasion else verdict.claim


def account(graded: Graded, verdict: Verdict, lang: str) -> str:
    """What the document says, what came instead, which mistake that is and where, and how to see it."""
    return "\n".join(_lines(graded, verdict, lang))


def _lines(graded: Graded, verdict: Verdict, lang: str) -> Iterator[str]:
    claim, colon = graded.claim, say(":", lang)
    if says := pick(claim.says, lang):
        statements = f" ({', '.join(claim.statements)})" if claim.statements else ""
        yield f"{say('document', lang)}{colon}{says}{statements}"
    if claim.equation:
        yield f"{say(claim.formula, lang)}{colon}{claim.equation}"
    yield f"{say('seen', lang)}{colon}{pick(verdict.summary, lang)}"
    if (evidence := verdict.evidence) and (evidence.got or evidence.expected):
        numbers = [f"{say(n, lang)} {getattr(evidence, n)}" for n in ("got", "expected", "tolerance")]
        off = [say("tolerances off", lang, n=verdict.off)] if verdict.off else []
        where = f"{evidence.tensor} {evidence.index}".strip()
        yield f"{say('worst', lang)}{colon}{where}; {say(',', lang).join([*numbers, *off])}"
    for mistake in verdict.diagnosis:
        yield f"{say('mistake', lang)}{colon}{mistake.id}{colon}{pick(mistake.says, lang)}"
    if verdict.where:
        yield f"{say('place', lang)}{colon}{place(verdict.where, lang)}"
    if verdict.consequence_of:
        yield say("consequence", lang, cause=verdict.consequence_of)
    if verdict.reproduce:
        yield f"{say('reproduce without', lang)}{colon}\n{verdict.reproduce}"


def place(where: Where, lang: str) -> str:
    """`my_model.py:41  s = q @ k.T (variable s)`, or a node of a graph."""
    if where.node:
        return say("node", lang, node=where.node, op=where.op_type)
    variable = say("in variable", lang, variable=where.variable) if where.variable else ""
    return f"{where.at}  {where.text}{variable}".strip()


def shortcomings(report: Report, lang: str) -> list[tuple[str, str]]:
    """What keeps a run from being a pass though no verdict says so: a name and a message each."""
    found = []
    if report.conforms is None:
        found.append(("the run ended", say("interrupted note", lang)))
    elif not any(report.counts[v] for v in report.counts if v != "unsupported"):
        reason = pick(report.notes[0], lang) if report.notes else ""
        found.append(("something was graded", reason or say("nothing graded", lang)))
    found += [(f"required: {name}", say("required", lang)) for name in report.required]
    return found
