"""One run: a target, a pack and options in; lines of results out, and what they amount to.

The only place that ties session, grading and results together; the command line calls it, and so
does everything else that grades.
"""

from __future__ import annotations

import datetime as dt
import platform
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformance import __version__
from conformance.diagnosis.causes import cause_lines, causes, sentence
from conformance.golden.tolerances import known_tolerances
from conformance.grading import Grader, Item, entry_point, plan
from conformance.judging.bench import Bench
from conformance.judging.count import PARAMETER_SHAPES
from conformance.judging.kinds import KINDS
from conformance.judging.observe import call_of
from conformance.pack.model import Claim, Pack
from conformance.plan.selection import Selection, SelectionError, unknown_variant
from conformance.plan.variants import Graded, VariantError, resolve
from conformance.plan.waivers import Waiver, waiver_of
from conformance.results.records import BROKEN, SCHEMA, Verdict, jsonable, verdict_line
from conformance.results.reproduce import reproduction
from conformance.results.store import Writer
from conformance.results.summary import Summary, end_line, summarise
from conformance.session import Call, Limits, Offer, Outcome, Session, TargetError
from conformance.targets import Target

REPRODUCTIONS = 40
"""Array files written for failures of one run; a file of a hundred red claims needs no more."""


PRINTED = 16_000
"""Characters kept of what a target prints while it is called."""


class Listening(Session):
    """A session that keeps what the target prints while it is called: each text once, within bounds."""

    def __init__(self, *given: Any, **named: Any) -> None:
        """As `Session`."""
        super().__init__(*given, **named)
        self.heard: dict[str, None] = {}
        self.left_out = 0

    def call(self, call: Call, dtype: str) -> Outcome:
        """As `Session`; an outcome that is remembered was heard already."""
        outcome = super().call(call, dtype)
        text = outcome.printed.strip("\n")
        if text and text not in self.heard:
            room = PRINTED - sum(map(len, self.heard))
            if room > 0:
                self.heard[text if len(text) <= room else text[:room] + "…"] = None
            self.left_out += max(len(text) - room, 0) if room > 0 else len(text)
        return outcome

    @property
    def printed(self) -> str:
        """All of it, and how much was left out."""
        more = [f"… {self.left_out} characters left out …"] if self.left_out else []
        return "\n".join([*self.heard, *more])


@dataclass(frozen=True)
class Options:
    """What the command line says of a run."""

    select: Selection = field(default_factory=Selection)
    require: tuple[tuple[str, Selection], ...] = ()
    variants: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    seed: int | None = 0
    python: str | None = None
    limits: Limits = field(default_factory=Limits)
    waivers: tuple[Waiver, ...] = ()


@dataclass(frozen=True)
class Events:
    """Who wants to know as it happens: how many verdicts each rung will have, and each line."""

    started: Callable[[Mapping[str, int]], None] = lambda _: None
    line: Callable[[Mapping[str, Any]], None] = lambda _: None


def run(
    pack: Pack, target: Target, options: Options, writer: Writer, events: Events | None = None
) -> Summary:
    """Grade a target and write every line as it comes.

    Raises `TargetError` when it cannot be imported, `VariantError` for an unknown variant,
    `EngineError` and `EngineFault` for faults of ours, `StoreError` when the results cannot be
    written any further. What was graded until then is written.
    """
    begun = time.perf_counter()
    events = events or Events()
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    names = [*(entry_point(operation) for operation in pack.operations.values()), PARAMETER_SHAPES]
    with ExitStack() as stack:
        session = stack.enter_context(
            Listening(
                target.path,
                names=names,
                python=options.python,
                limits=options.limits,
                arguments=target.arguments,
            )
        )
        try:
            offer = session.open()
            graded = resolve(pack, offer.variants, options.variants)
        except (TargetError, VariantError) as error:
            for line in refusal_lines(pack, target, options, seed, str(error)):
                writer.write(line)
            raise
        check_variants(pack, graded, options)
        dtypes = options.dtypes or offer.dtypes
        planned = plan(pack, offer, graded, dtypes, options.select)
        bench = Bench(session, offer, store=known_tolerances(pack))
        grader = Grader.of(pack, bench, graded, seed)
        output = _Output(pack, target, offer, grader, writer, events, options.waivers)
        variants = () if graded.undeclared else tuple(v.name for v in graded.variants)
        output.write(run_line(pack, target, variants, dtypes, seed, session, offer))
        events.started(Counter(item.claim.rung for item in planned.items))
        verdicts = output.grade(planned.items)
        missing = tuple(_missing(pack, offer, graded, dtypes, options.require, verdicts))
        summary = summarise(verdicts, testable(pack), missing, variants, dtypes)
        found = causes(verdicts)
        end = end_line(summary, time.perf_counter() - begun)
        end |= {"cause": jsonable(sentence(found, verdicts)), "causes": cause_lines(found)}
        end |= {"waivers": output.waiver_notes(), "seconds_inside": round(session.seconds_inside, 3)}
        output.write({**end, "printed": session.printed, "faults": grader.faults})
    return summary


def refusal_lines(
    pack: Pack, target: Target, options: Options, seed: int, why: str
) -> Sequence[Mapping[str, Any]]:
    """The results of a target that could not be imported: a run without a verdict, and why."""
    summary = summarise((), testable(pack), tuple(text for text, _ in options.require), (), options.dtypes)
    run = run_line(pack, target, (), options.dtypes, seed, None, None)
    return {**run, "notes": [why]}, end_line(summary, 0.0)


def check_variants(pack: Pack, graded: Graded, options: Options) -> None:
    """Refuse a `variant:` that neither the pack nor the target knows. Raises `SelectionError`."""
    known = {*pack.variants, *(variant.name for variant in (*graded.variants, *graded.declared))}
    for option, selection in (
        ("--select", options.select),
        *(("--require", selection) for _, selection in options.require),
    ):
        wrong = unknown_variant(selection, known, option)
        if wrong:
            raise SelectionError(wrong)


def testable(pack: Pack) -> int:
    """How many statements of the document a test can settle."""
    return sum(statement.settled == "T" for statement in pack.statements.values())


def run_line(
    pack: Pack,
    target: Target,
    variants: Sequence[str],
    dtypes: Sequence[str],
    seed: int,
    session: Session | None,
    offer: Offer | None,
) -> dict[str, Any]:
    """The first line of `results.jsonl`."""
    return {
        "kind": "run",
        "schema": SCHEMA,
        "pack": pack.id,
        "pack_version": pack.version,
        "target": target.name,
        "variants": list(variants),
        "dtypes": list(dtypes),
        "seed": seed,
        "tool_version": __version__,
        "isolation": session.isolation if session else "",
        "environment": {
            "platform": platform.platform(),
            "engine": {"python": platform.python_version(), "numpy": np.__version__},
            "target": dict(offer.versions) if offer else {},
        },
        "printed": offer.printed if offer else "",
    }


@dataclass
class _Output:
    """Turns verdicts into lines: claims before their first verdict, waivers, reproductions."""

    pack: Pack
    target: Target
    offer: Offer
    grader: Grader
    writer: Writer
    events: Events
    waivers: tuple[Waiver, ...]
    announced: set[str] = field(default_factory=set)
    used: Counter[str] = field(default_factory=Counter)
    needless: set[str] = field(default_factory=set)
    reproductions: int = 0
    today: dt.date = field(default_factory=dt.date.today)

    def write(self, line: Mapping[str, Any]) -> None:
        self.writer.write(line)
        self.events.line(line)

    def grade(self, items: Sequence[Item]) -> list[Verdict]:
        verdicts = []
        by_key = {(i.claim.id, i.case.id, i.variant.name, i.dtype): i for i in items}
        for verdict in self.grader.verdicts(items):
            claim = self.pack.claims[verdict.claim]
            if claim.id not in self.announced:
                self.announced.add(claim.id)
                self.write(claim_line(self.pack, claim))
            item = by_key.get((verdict.claim, verdict.case, verdict.variant or "", verdict.dtype)) or next(
                i
                for i in items
                if i.claim.id == verdict.claim and i.case.id == verdict.case and i.dtype == verdict.dtype
            )
            finished = self.finished(verdict, item)
            verdicts.append(finished)
            self.write(verdict_line(finished))
        return verdicts

    def finished(self, verdict: Verdict, item: Item) -> Verdict:
        """A verdict with what only a failure has, and with its waiver."""
        judgement = verdict.judgement
        waiver = waiver_of(verdict.claim, self.waivers, self.today)
        if judgement.verdict in BROKEN:
            judgement = replace(judgement, reproduce=self.reproduce(item, verdict))
            if waiver is not None:
                self.used[waiver.claim] += 1
                judgement = replace(judgement, verdict="waived")
        elif judgement.verdict == "pass" and waiver is not None:
            self.needless.add(waiver.claim)
        return replace(verdict, judgement=judgement)

    def reproduce(self, item: Item, verdict: Verdict) -> str:
        if self.reproductions >= REPRODUCTIONS:
            return ""
        operation = self.pack.operations[item.claim.operation]
        either = self.grader.either(operation, item.variant, item.dtype)
        scenario = self.grader.scenarios.of(item.case, item.variant, either)
        if scenario is None:
            return ""
        shapes = [
            {n: t.array.shape for n, t in s.outputs.items()} for s in self.grader.bench.expected(scenario)
        ]
        call = call_of(scenario, tap=False, expect=shapes)
        file = f"{item.case.id}-{item.variant.name}-{item.dtype}.npz".replace("/", "_")
        made = reproduction(
            call,
            self.target.path,
            self.offer.framework,
            item.dtype,
            self.writer.arrays.resolve(),
            file,
            verdict.judgement.evidence,
        )
        self.reproductions += self.writer.write_arrays(made.file, made.arrays)
        return made.text

    def waiver_notes(self) -> list[dict[str, Any]]:
        """What came of each waiver: used, expired, or no longer needed."""
        notes = []
        for waiver in self.waivers:
            expired = waiver.expires < self.today
            state = (
                "expired"
                if expired
                else "used"
                if self.used[waiver.claim]
                else "needless"
                if waiver.claim in self.needless
                else "unused"
            )
            notes.append(
                {
                    "claim": waiver.claim,
                    "reason": waiver.reason,
                    "expires": waiver.expires.isoformat(),
                    "state": state,
                    "verdicts": self.used[waiver.claim],
                }
            )
        return notes


def claim_line(pack: Pack, claim: Claim) -> dict[str, Any]:
    """What a report needs to know of a claim."""
    operation = pack.operations[claim.operation]
    tensors = {}
    for name in sorted(KINDS[claim.kind].reads(claim)):
        if name in operation.outputs:
            tensors[name] = list(operation.outputs[name])
        elif name in pack.program.tensors:
            tensors[name] = list(pack.program.tensors[name].axes)
    return {
        "kind": "claim",
        "id": claim.id,
        "rung": claim.rung,
        "level": claim.level,
        "statements": list(claim.statements),
        "question": claim.question,
        "title": jsonable(claim.title),
        "says": jsonable(claim.says),
        "equation": equation_of(pack, claim),
        "tensors": tensors,
        "source": claim.source,
        "operation": claim.operation,
        "check": claim.kind,
    }


def equation_of(pack: Pack, claim: Claim) -> str | None:
    """The formula that a claim is about, as the pack writes it."""
    if claim.kind == "holds":
        return str(claim.body)
    if claim.kind == "equation":
        tensor = pack.program.tensors[str(claim.body)]
        equation = pack.program.functions[tensor.functions[0]].equation(tensor.name)
        if equation is not None:
            return "; ".join(
                f"{tensor.name} = {e}" + (f" ({key})" if key else "")
                for key, e in equation.alternatives.items()
            )
    if claim.kind == "golden":
        operation = pack.operations[claim.operation]
        return f"{claim.body} = {operation.signature}"
    return None


def _missing(
    pack: Pack,
    offer: Offer,
    graded: Graded,
    dtypes: Sequence[str],
    require: Sequence[tuple[str, Selection]],
    verdicts: Sequence[Verdict],
) -> Iterator[str]:
    """What was required and not graded: claims by id, or an expression that fits none."""
    done = {v.claim for v in verdicts if v.judgement.verdict != "unsupported"}
    for text, selection in require:
        wanted = dict.fromkeys(i.claim.id for i in plan(pack, offer, graded, dtypes, selection).items)
        if not wanted:
            yield text
        yield from (claim for claim in wanted if claim not in done)
