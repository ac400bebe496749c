"""What a run amounts to: whether it conforms, how much it offers, and the first broken rung."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.language.program import Text
from conformance.pack.model import RUNGS
from conformance.results.records import BROKEN, GRADED, VERDICTS, Verdict


@dataclass(frozen=True)
class FirstBroken:
    """The lowest rung on which a MUST is broken, and the first claim there."""

    rung: str
    claim: str
    tensor: str


@dataclass(frozen=True)
class Summary:
    """The end of a run. `statements` are those graded; `all_statements` those that the pack tests."""

    conforms: bool
    counts: Mapping[str, int]
    rungs: Mapping[str, Mapping[str, int]]
    statements: tuple[str, ...]
    all_statements: int
    first_broken: FirstBroken | None
    missing: tuple[str, ...]
    variants: tuple[str, ...]
    dtypes: tuple[str, ...]

    @property
    def gradable(self) -> bool:
        """Whether anything got a verdict at all."""
        return any(self.counts.get(v, 0) for v in ("pass", "fail", "error", "timeout", "waived"))


def summarise(
    verdicts: Sequence[Verdict],
    all_statements: int,
    missing: Sequence[str],
    variants: Sequence[str],
    dtypes: Sequence[str],
) -> Summary:
    """The summary of all verdicts. `missing` are required claims that were not graded."""
    counts = Counter(v.judgement.verdict for v in verdicts)
    rungs = {
        rung: dict(Counter(v.judgement.verdict for v in verdicts if v.rung == rung))
        for rung in RUNGS
        if any(v.rung == rung for v in verdicts)
    }
    must = [v for v in verdicts if v.level == "MUST"]
    broken = [v for v in must if v.judgement.verdict in BROKEN]
    graded = sorted({s for v in must if v.judgement.verdict in GRADED for s in v.statements}, key=_order)
    conforms = not broken and any(v.judgement.verdict == "pass" for v in must) and not missing
    first = min(broken, key=lambda v: RUNGS.index(v.rung), default=None)
    return Summary(
        conforms,
        {v: counts.get(v, 0) for v in VERDICTS},
        rungs,
        tuple(graded),
        all_statements,
        FirstBroken(first.rung, first.claim, _tensor(first)) if first else None,
        tuple(missing),
        tuple(variants),
        tuple(dtypes),
    )


def _tensor(verdict: Verdict) -> str:
    return verdict.judgement.evidence.tensor if verdict.judgement.evidence else ""


def _order(statement: str) -> tuple[str, int]:
    question, _, number = statement.partition(".")
    return question, int(number) if number.isdigit() else 0


def sentence(summary: Summary) -> Text:
    """`conforms in all it offers: 41 of 57 statements, llama, float32`."""
    much = f"{len(summary.statements)} of {summary.all_statements} statements"
    zh_much = f"{summary.all_statements} 条陈述中的 {len(summary.statements)} 条"
    what = ", ".join([", ".join(summary.variants) or "no variant declared", ", ".join(summary.dtypes)])
    zh_what = "、".join([*(summary.variants or ("未声明变体",)), *summary.dtypes])
    if summary.conforms:
        return Text(
            f"conforms in all it offers: {much}, {what}", f"在其提供的范围内全部符合：{zh_much}，{zh_what}"
        )
    if not summary.gradable:
        return Text("nothing could be graded", "没有可评的内容")
    broken = sum(summary.counts[v] for v in BROKEN)
    missing = f"; required but not graded: {', '.join(summary.missing)}" if summary.missing else ""
    zh_missing = f"；要求评测但未评：{', '.join(summary.missing)}" if summary.missing else ""
    return Text(
        f"does not conform: {broken} of {broken + summary.counts['pass']} verdicts broken; graded {much}, {what}{missing}",
        f"不符合：{broken + summary.counts['pass']} 个判定中有 {broken} 个未通过；评测了 {zh_much}，{zh_what}{zh_missing}",
    )


def end_line(summary: Summary, seconds: float) -> dict[str, Any]:
    """The last line of `results.jsonl`."""
    first = summary.first_broken
    return {
        "kind": "end",
        "conforms": summary.conforms,
        "counts": dict(summary.counts),
        "graded_statements": list(summary.statements),
        "testable_statements": summary.all_statements,
        "first_broken": vars(first) if first else None,
        "required_not_graded": list(summary.missing),
        "sentence": {"en": sentence(summary).en, "zh": sentence(summary).zh},
        "seconds": round(seconds, 3),
    }
