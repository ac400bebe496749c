"""From the lines of a results file to the `Report` that every renderer shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conformance.language.program import Text
from conformance.pack.model import RUNGS
from conformance.reports import plain
from conformance.reports.alike import alike, repeats
from conformance.reports.lines import cause_of, claim_of, verdict_of
from conformance.reports.model import Cause, Claim, Graded, Reason, Report, Rung, Verdict, Waiver, position
from conformance.reports.words import word
from conformance.results.records import VERDICTS
from conformance.results.store import Results


def report_of(results: Results) -> Report:
    """All that a report shows of one run. Never raises for what a file holds."""
    verdicts = tuple(verdict_of(line) for line in results.verdicts)
    end = results.end
    first = _first_broken(end, verdicts)
    graded = _graded(results.claims, verdicts)
    problems = _problems(graded, first.get("claim", ""))
    causes = _causes(end, problems)
    follows = _follows(problems, causes)
    return Report(
        conforms=None if end is None else end.get("conforms") is True,
        sentence=_sentence(end, verdicts),
        ladder=_ladder(verdicts, first.get("rung", "")),
        first_broken=first,
        graded=graded,
        problems=tuple(sorted(problems, key=lambda item: item.claim.id in follows)),
        causes=causes,
        follows=follows,
        causation=_causation(end, problems, causes),
        alike=_alike(problems),
        refused=_reasons(v for v in verdicts if v.verdict == "unsupported"),
        waived=_reasons(v for v in verdicts if v.verdict == "waived"),
        waivers=_waivers(end.get("waivers") if end is not None else None),
        required=plain.strings(end.get("required_not_graded")) if end is not None else (),
        facts=_facts(results.run, end),
        environment=_flat(results.run.get("environment")),
        printed=_printed(results),
        notes=_notes(results),
    )


def _printed(results: Results) -> str:
    """What the target printed when it was imported, and while it was called."""
    texts = [plain.block(line.get("printed")) for line in (results.run, results.end or {})]
    return "\n".join(text for text in texts if text)


def _graded(claims: Mapping[str, Any], verdicts: Sequence[Verdict]) -> tuple[Graded, ...]:
    lines: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        lines.setdefault(verdict.claim, []).append(verdict)
    known = {claim.id: claim for claim in map(claim_of, claims.values())}
    return tuple(
        Graded(known.get(name) or Claim(name, own[0].rung, own[0].level, ()), tuple(own))
        for name, own in lines.items()
    )


def _problems(graded: Sequence[Graded], first: str) -> tuple[Graded, ...]:
    """Broken claims, the one to look at first before all others, mere consequences last."""

    def order(item: Graded) -> tuple[bool, bool, int, bool]:
        claim = item.claim
        return claim.id != first, bool(item.consequence_of), position(claim.rung), claim.level != "MUST"

    return tuple(sorted((item for item in graded if item.broken), key=order))


def _causes(end: Mapping[str, Any] | None, problems: Sequence[Graded]) -> tuple[Cause, ...]:
    """The causes that the end line names; without it, those that the broken claims name."""
    said = end.get("causes") if end is not None else None
    if isinstance(said, list):
        told = [cause_of(line) for line in said[:20] if isinstance(line, Mapping)]
        if kept := tuple(cause for cause in told if cause.mistakes and cause.claims):
            return kept
    named: dict[tuple[str, ...], Cause] = {}
    for item in problems:
        key = tuple(m.id for m in item.diagnosis)
        if key:
            claims = (*named[key].claims, item.claim.id) if key in named else (item.claim.id,)
            named[key] = Cause(key, item.diagnosis[0].says, item.where, claims)
    if not named:
        return ()
    first, *rest = named.values()
    # A claim that cannot tell two mistakes apart says nothing against the one that another claim names.
    alike = [cause for cause in rest if set(cause.mistakes) & set(first.mistakes)]
    claims = tuple(dict.fromkeys(claim for cause in (first, *alike) for claim in cause.claims))
    others = sorted((cause for cause in rest if cause not in alike), key=lambda cause: -len(cause.claims))
    return (Cause(first.mistakes, first.says, first.where, claims), *others)


def _follows(problems: Sequence[Graded], causes: Sequence[Cause]) -> dict[str, str]:
    """What the broken claims follow from that need no look of their own: one claim shows a cause, or an error."""
    follows: dict[str, str] = {}
    shown: set[str] = set()
    for item in problems:
        name = next((cause.name for cause in causes if item.claim.id in cause.claims), item.consequence_of)
        if name in shown or item.consequence_of:
            follows[item.claim.id] = name
        elif name:
            shown.add(name)
    return follows | repeats([item for item in problems if item.claim.id not in follows])


def _causation(end: Mapping[str, Any] | None, problems: Sequence[Graded], causes: Sequence[Cause]) -> Text:
    said = plain.both(end.get("cause")) if end is not None else plain.both(None)
    if said.en or not causes:
        return said
    explained = {item.claim.id for item in problems if item.claim.id in causes[0].claims}
    return word("explains", mistakes=causes[0].name, n=len(explained), all=len(problems))


def _alike(problems: Sequence[Graded]) -> Text:
    n = alike(problems)
    return word("one error", n=n, all=len(problems)) if n > 1 else plain.both(None)


def _ladder(verdicts: Sequence[Verdict], first: str) -> tuple[Rung, ...]:
    others = sorted({v.rung for v in verdicts} - set(RUNGS))
    found = Counter((v.rung, v.verdict) for v in verdicts)
    return tuple(
        Rung(
            rung,
            {name: found[rung, name] for name in VERDICTS},
            rung == first,
        )
        for rung in (*RUNGS, *others)
    )


def _first_broken(end: Mapping[str, Any] | None, verdicts: Sequence[Verdict]) -> dict[str, str]:
    """What the end line says; of an interrupted run, the first so far."""
    said = end.get("first_broken") if end is not None else None
    if isinstance(said, Mapping):
        return {name: plain.line(said.get(name), plain.NAME) for name in ("rung", "claim", "tensor")}
    broken = [v for v in verdicts if v.broken and v.level == "MUST"]
    if end is not None or not broken:
        return {}
    first = min(broken, key=lambda v: position(v.rung))
    return {
        "rung": first.rung,
        "claim": first.claim,
        "tensor": first.evidence.tensor if first.evidence else "",
    }


def _sentence(end: Mapping[str, Any] | None, verdicts: Sequence[Verdict]) -> Text:
    if end is None:
        return word("interrupted so far", n=len(verdicts), broken=sum(v.broken for v in verdicts))
    said = plain.both(end.get("sentence"))
    if said.en:
        return said
    return word("conforms" if end.get("conforms") is True else "does not conform")


def _reasons(verdicts: Iterable[Verdict]) -> tuple[Reason, ...]:
    """Verdicts grouped by what their summaries say; the reason that costs most claims first."""
    groups: dict[Text, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.summary, []).append(verdict)
    reasons = [
        Reason(
            says,
            tuple(dict.fromkeys(v.claim for v in lines)),
            tuple(sorted({v.rung for v in lines}, key=position)),
        )
        for says, lines in groups.items()
    ]
    return tuple(sorted(reasons, key=lambda reason: -len(reason.claims)))


def _waivers(said: object) -> tuple[Waiver, ...]:
    lines = [line for line in said[:100] if isinstance(line, Mapping)] if isinstance(said, list) else []
    return tuple(
        Waiver(**{name: plain.line(line.get(name)) for name in Waiver.__dataclass_fields__}) for line in lines
    )


def _facts(run: Mapping[str, Any], end: Mapping[str, Any] | None) -> dict[str, str]:
    pack = " ".join(plain.line(run.get(name), plain.NAME) for name in ("pack", "pack_version")).strip()
    said = {
        "target": plain.line(run.get("target"), 300),
        "variants": ", ".join(plain.strings(run.get("variants"))),
        "dtypes": ", ".join(plain.strings(run.get("dtypes"))),
        "pack": pack,
        "seed": plain.number(run.get("seed")),
        "isolation": plain.line(run.get("isolation"), 300),
        "tool": plain.line(run.get("tool_version"), plain.NAME),
        "seconds": plain.number(end.get("seconds")) if end is not None else "",
    }
    return {name: value for name, value in said.items() if value}


def _flat(environment: object, prefix: str = "", most: int = 40) -> dict[str, str]:
    """The environment as names and values, bounded in number; a nested one with dots in its names."""
    if not isinstance(environment, Mapping):
        return {}
    flat: dict[str, str] = {}
    for key, value in list(environment.items())[:most]:
        name = f"{prefix}{plain.line(key, 80)}"
        if isinstance(value, Mapping) and not prefix:
            flat |= _flat(value, f"{name}.")
        else:
            flat[name] = plain.line(value, 300)
    return dict(list(flat.items())[:most])


def _notes(results: Results) -> tuple[Text, ...]:
    own = results.run.get("notes")
    said = [plain.both(note) for note in (own[:20] if isinstance(own, list) else [])]
    read = [plain.both(note) for note in results.notes[:20]]
    seen = plain.strings(results.end.get("trace_notes"), 300, 20) if results.end else ()
    traced = [word("trace note", note=plain.both(note)) for note in seen]
    return (*([word("interrupted note")] if results.end is None else []), *said, *read, *traced)
