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
from pathlib import Path
from typing import Any

import numpy as np

from conformance import __version__
from conformance.claim_lines import claim_line
from conformance.diagnosis.causes import cause_lines, causes, sentence
from conformance.grading import Grader
from conformance.judging.common import Question
from conformance.judging.count import PARAMETER_SHAPES
from conformance.judging.profiles import Profiler
from conformance.judging.program_bench import ProgramSession
from conformance.known import Known
from conformance.pack.flow import layer_flow
from conformance.pack.model import Pack, Variant
from conformance.plan.items import Item, entry_points, plan
from conformance.plan.large import note
from conformance.plan.selection import Selection, SelectionError, unknown_variant
from conformance.plan.variants import Graded, VariantError, resolve
from conformance.plan.waivers import Waiver, waiver_of
from conformance.reproducing import reproduced
from conformance.results.records import BROKEN, SCHEMA, Profile, Verdict, jsonable, verdict_line
from conformance.results.reproduce_graph import GraphFile
from conformance.results.store import Writer
from conformance.results.summary import Summary, end_line, summarise
from conformance.serving import bytes_of, is_large, limits_of, serving
from conformance.session import Limits, Offer, TargetError
from conformance.session.listening import Listening
from conformance.targets import Target
from conformance.told import told

REPRODUCTIONS = 40
"""Array files written for failures of one run; a file of a hundred red claims needs no more."""


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
    """Who wants to know as it happens: how many verdicts each rung will have, and each line.

    `opened` hears before that of which variants (none: undeclared) and dtypes a target is that is no graph.
    """

    started: Callable[[Mapping[str, int]], None] = lambda _: None
    line: Callable[[Mapping[str, Any]], None] = lambda _: None
    opened: Callable[[Sequence[str], Sequence[str]], None] = lambda _variants, _dtypes: None


def run(
    pack: Pack,
    target: Target,
    options: Options,
    writer: Writer,
    events: Events | None = None,
    known: Known | None = None,
) -> Summary:
    """Grade a target and write every line as it comes. `known` is kept from a run before, if any.

    Raises `TargetError` when it cannot be imported, `VariantError` for an unknown variant,
    `EngineError` and `EngineFault` for faults of ours, `StoreError` when the results cannot be
    written any further. What was graded until then is written.
    """
    begun = time.perf_counter()
    events = events or Events()
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    names = [*entry_points(pack), PARAMETER_SHAPES]
    with ExitStack() as stack:
        try:
            served = stack.enter_context(serving(target))
            session = (
                ProgramSession(names, list(pack.variants))
                if target.program
                else stack.enter_context(
                    Listening(
                        served.path,
                        names=names,
                        python=options.python,
                        limits=limits_of(options.limits, served.graph),
                        arguments=served.arguments,
                        bytes_remembered=bytes_of(served.graph),
                        among=target.among,
                    )
                )
            )
            offer = session.open()
            graded = resolve(pack, offer.variants, options.variants)
        except (TargetError, VariantError) as error:
            told = explained(error, target)
            for line in refusal_lines(pack, target, options, seed, str(told)):
                writer.write(line)
            raise told from None
        check_variants(pack, graded, options)
        dtypes = options.dtypes or offer.dtypes
        variants = () if graded.undeclared else tuple(v.name for v in graded.variants)
        if served.graph is None and not target.program:
            events.opened(variants, dtypes)
        planned = plan(pack, offer, graded, dtypes, options.select, served.graph is not None)
        if known is None or known.seed != seed:
            known = Known.of(pack, seed)
        bench = known.program(session, offer) if target.program else known.bench(session, offer, served.graph)
        grader = Grader.of(pack, bench, graded, seed, known.scenarios)
        graph_file = None if target.model is None else GraphFile(target.model, Path(served.arguments[1]))
        output = _Output(pack, target, offer, grader, writer, events, options.waivers, graph_file=graph_file)
        drawn = flow_lines(pack, graded.variants[0]) if graded.variants else []
        first = {**run_line(pack, target, variants, dtypes, seed, session.isolation, offer), "flow": drawn}
        if served.graph is not None and is_large(served.graph):
            first["notes"] = [jsonable(note(served.graph.own.numbers))]
        output.write(first)
        events.started(Counter(item.claim.rung for item in planned.items))
        verdicts = output.grade(planned.items)
        graph = served.graph is not None
        missing = tuple(_missing(pack, offer, graded, dtypes, options.require, verdicts, graph))
        summary = summarise(verdicts, testable(pack), missing, variants, dtypes)
        found, tried = causes(verdicts), grader.namer.tried if grader.namer else ()
        end = end_line(summary, time.perf_counter() - begun)
        end |= {"cause": jsonable(sentence(found, verdicts, tried)), "causes": cause_lines(found)}
        end |= {"waivers": output.waiver_notes(), "seconds_inside": round(session.seconds_inside, 3)}
        notes = grader.namer.locator.notes if grader.namer else []
        output.write({**end, "printed": session.printed, "faults": grader.faults, "trace_notes": notes[:20]})
    return summary


def explained(error: TargetError | VariantError, target: Target) -> TargetError | VariantError:
    """An error in terms of what the user named: of a graph, not of the adapter that runs it."""
    if target.model is None or isinstance(error, VariantError):
        return error
    from conformance.onnx.serving import runtime_error

    return runtime_error(error, target.model)


def refusal_lines(
    pack: Pack, target: Target, options: Options, seed: int, why: str
) -> Sequence[Mapping[str, Any]]:
    """The results of a target that could not be imported: a run without a verdict, and why."""
    summary = summarise((), testable(pack), tuple(text for text, _ in options.require), (), options.dtypes)
    run = run_line(pack, target, (), options.dtypes, seed, "", None)
    return {**run, "notes": [jsonable(told(why))]}, end_line(summary, 0.0)


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


def flow_lines(pack: Pack, variant: Variant) -> list[dict[str, Any]]:
    """The tensors of a layer and what each is made of, for reports that draw it."""
    return [
        {
            "tensor": stage.tensor,
            "axes": list(stage.axes),
            "equation": stage.equation,
            "from": list(stage.sources),
            "says": jsonable(pack.program.tensors[stage.tensor.rpartition(".")[2]].says),
        }
        for stage in layer_flow(pack, variant)
    ]


def testable(pack: Pack) -> int:
    """How many statements of the document a test can settle."""
    return sum(statement.settled == "T" for statement in pack.statements.values())


def run_line(
    pack: Pack,
    target: Target,
    variants: Sequence[str],
    dtypes: Sequence[str],
    seed: int,
    isolation: str,
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
        "isolation": isolation,
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
    graph_file: GraphFile | None = None
    """Of an ONNX file: itself, and the folder of its recipe."""
    reproductions: int = 0
    profiler: Profiler = field(default_factory=Profiler)
    today: dt.date = field(default_factory=dt.date.today)

    def write(self, line: Mapping[str, Any]) -> None:
        self.writer.write(line)
        self.events.line(line)

    def grade(self, items: Sequence[Item]) -> list[Verdict]:
        verdicts = []
        for item, verdict in self.grader.graded_items(items):
            if item.claim.id not in self.announced:
                self.announced.add(item.claim.id)
                self.write(claim_line(self.pack, item.claim))
            finished = self.finished(verdict, item)
            verdicts.append(finished)
            self.write(verdict_line(finished))
        return verdicts

    def finished(self, verdict: Verdict, item: Item) -> Verdict:
        """A verdict with what only a failure has, and with its waiver."""
        judgement = verdict.judgement
        waiver = waiver_of(verdict.claim, self.waivers, self.today)
        if judgement.verdict in BROKEN:
            judgement = replace(
                judgement, reproduce=self.reproduce(item, verdict), profiles=self.profiles(item, verdict)
            )
            if waiver is not None:
                self.used[waiver.claim] += 1
                judgement = replace(judgement, verdict="waived")
        elif judgement.verdict == "pass":
            judgement = replace(judgement, profiles=self.profiles(item, verdict))
            if waiver is not None:
                self.needless.add(waiver.claim)
        return replace(verdict, judgement=judgement)

    def profiles(self, item: Item, verdict: Verdict) -> tuple[Profile, ...]:
        """Along layers and positions; a verdict stands without them."""
        given = verdict.judgement.verdict
        scenario = self.grader.scenario(item.case, item.variant, item.dtype)
        if given not in ("pass", "fail") or scenario is None:
            return ()
        question = Question(item.claim, scenario, item.dtype, self.grader.bench)
        try:
            return self.profiler.of(question, passed=given == "pass")
        except Exception as error:
            self.grader.faults.append(
                f"following the error of {item.claim.id} on {item.case.id} failed: {error!r}"
            )
            return ()

    def reproduce(self, item: Item, verdict: Verdict) -> str:
        """The snippet of a failure; the arrays that it loads are written."""
        if self.reproductions >= REPRODUCTIONS:
            return ""
        folder = self.writer.arrays.resolve()
        made = reproduced(item, verdict, self.grader, self.target, self.offer, folder, self.graph_file)
        if made is None:
            return ""
        self.reproductions += self.writer.write_arrays(made.file, made.arrays) if made.file else 0
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


def _missing(
    pack: Pack,
    offer: Offer,
    graded: Graded,
    dtypes: Sequence[str],
    require: Sequence[tuple[str, Selection]],
    verdicts: Sequence[Verdict],
    graph: bool,
) -> Iterator[str]:
    """What was required and not graded: claims by id, or an expression that fits none."""
    done = {v.claim for v in verdicts if v.judgement.verdict != "unsupported"}
    for text, selection in require:
        wanted = dict.fromkeys(i.claim.id for i in plan(pack, offer, graded, dtypes, selection, graph).items)
        if not wanted:
            yield text
        yield from (claim for claim in wanted if claim not in done)
