"""Names for what went wrong: the known mistakes that make exactly what the target made.

Single mistakes first, then pairs within a budget. A name must fit every answer of the target on the
same operation, not only the one that failed: a wrong name is worse than none.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from conformance.diagnosis.answers import Place, concerns, counted, overflowed, place_of, right
from conformance.diagnosis.discovery import Finding
from conformance.diagnosis.fit import FITS, NO_FIT, Fitter, Suspect, stage_fit, suspects
from conformance.diagnosis.place import Locator
from conformance.diagnosis.stages import found_at
from conformance.judging.bench import Bench
from conformance.judging.common import Question
from conformance.judging.experiment import after_change
from conformance.judging.kinds import OF_GRAPHS
from conformance.language.program import Text
from conformance.pack.model import Pack
from conformance.results.records import Diagnosis, Judgement

SEARCHES = 3
"""Full searches of an operation that may end without a name before it is given up."""
WITNESSES = 8
"""Other answers of the same operation that a name has to fit."""
PAIR_SECONDS = 1.0
"""Time for pairs of mistakes, for each operation."""


@dataclass
class Namer:
    """Names mistakes; see the module. `tried` are the mistakes, and pairs of them, that were compared."""

    pack: Pack
    bench: Bench
    fitter: Fitter = field(init=False)
    locator: Locator = field(init=False)
    known: dict[Place, list[Suspect]] = field(default_factory=dict)
    vain: dict[Place, int] = field(default_factory=dict)
    questions: dict[Place, dict[str, Question]] = field(default_factory=dict)
    named: dict[tuple[str, str, str], tuple[tuple[Diagnosis, ...], Finding | None]] = field(
        default_factory=dict
    )
    whole: dict[Place, tuple[Diagnosis, ...]] = field(default_factory=dict)
    """Mistakes that make everything wrong that an operation returned; empty where one answer is none of theirs."""
    models: dict[Place, list[Suspect]] = field(default_factory=dict)
    tried: set[tuple[str, ...]] = field(default_factory=set)
    ahead: Callable[[Question], Sequence[Question]] = lambda _: ()
    """Questions of the same operation that are still to be put."""

    def __post_init__(self) -> None:
        """Nothing is worked out before something fails."""
        self.fitter = Fitter(self.bench)
        self.locator = Locator(self.fitter)

    @cached_property
    def all_suspects(self) -> list[Suspect]:
        """Every mistake of the pack is one."""
        return suspects(self.pack.program)

    def witness(self, question: Question) -> None:
        """Remember that a scenario was put to the target: a name will have to fit it too."""
        self.questions.setdefault(place_of(question), {})[question.scenario.key] = question

    def explain(self, question: Question, judgement: Judgement) -> Judgement:
        """A failed judgement with the mistakes that explain it, best first, and its place.

        Without a diagnosis where no known mistake fits, and without a place where none was found.
        """
        if question.claim.kind in OF_GRAPHS and judgement.diagnosis:
            return replace(judgement, diagnosis=self.reconciled(question, judgement.diagnosis))
        tap = judgement.evidence.tensor if judgement.evidence and question.claim.kind == "equation" else ""
        asked = question if tap else self.failing(question)
        key = (asked.scenario.key, asked.dtype, tap)
        if key not in self.named and self.bench.graph is not None and not tap:
            # A graph is often wrong in one layer, where no mistake of a whole model fits: its own stages tell.
            wrong = self.locator.in_graph(asked)
            tap = wrong.place.expected if wrong is not None and wrong.place is not None else ""
        if key not in self.named:
            found = self.searched(asked, tap)
            suspects = [suspect for _, suspect in found]
            finding = self.of_node(tap) or self.locator.find(
                asked, suspects, failed=bool(tap) or not right(asked)
            )
            self.named[key] = (tuple(self.diagnoses(found)), finding)
            if not asked.scenario.large and not right(asked):
                operation = place_of(asked)
                whole = found if not tap else self.fitting(asked, suspects, again=True) if suspects else []
                agreed = {d.mistake for d in self.whole.get(operation, self.named[key][0])}
                self.whole[operation] = tuple(d for d in self.diagnoses(whole) if d.mistake in agreed)
        diagnosis, finding = self.named[key]
        place = judgement.place or (finding.place if finding else None)
        if place is not None and not (place.file or place.node):
            place = None  # a tensor of a graph is known to be wrong, and not which node makes it
        summary = judgement.summary
        not_finite = self.locator.first_not_finite(asked) if overflowed(asked) else None
        if not_finite is not None:
            said, at = not_finite
            summary = Text(f"{summary.en}; {said.en}", f"{summary.zh}；{said.zh}")
            if place is not None and place.variable == "return":
                place = at  # what is returned only shows what became infinite before
        return replace(judgement, diagnosis=judgement.diagnosis or diagnosis, place=place, summary=summary)

    def searched(self, question: Question, tap: str) -> list[tuple[float, Suspect]]:
        """Mistakes that explain a tap, or where there is none all that came back."""
        if not tap:
            return self.of_outputs(question)
        if self.bench.graph is None:
            return self.of_stage(question, tap)
        # Of a graph, what explains all that came back comes first: a stage is searched for each place anew.
        found = self.of_whole(question) or self.of_stage(question, tap)
        if found or self.known.get(place_of(question)):
            # Where a stage has told a mistake already, it is in every answer: no other alone makes them.
            return found
        return self.of_outputs(question)

    def of_variant(self, suspect: Suspect, question: Question) -> bool:
        """Whether all mistakes of a suspect are about the variant that is asked."""
        program, choices = self.pack.program, question.scenario.choices
        return all(concerns(program, program.mistakes[name], choices) for name in suspect.names)

    def reconciled(self, question: Question, read: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
        """What was read off a graph, and what its numbers say: one fault may look like another to who reads.

        A mistake that makes all that came back of some operation leaves room for no other in it.
        """
        names = {d.mistake for d in read}
        of = (question.scenario.variant.name, question.dtype)
        for place, found in self.whole.items():
            if place[1:] == of and found:
                return tuple(sorted(found, key=lambda d: d.mistake not in names))
        return read

    def of_node(self, tap: str) -> Finding | None:
        """The node that makes a tensor of a graph."""
        graph = self.bench.graph
        if graph is None or tap not in graph.taps:
            return None
        return found_at(graph.taps[tap], tap)

    @staticmethod
    def failing(question: Question) -> Question:
        """The scenario to look at: of an experiment, the changed one where the other is right."""
        if question.claim.kind != "experiment" or question.claim.body.interleave or question.claim.body.twice:
            return question
        if not right(question):
            return question
        return replace(question, scenario=after_change(question))

    def diagnoses(self, found: Sequence[tuple[float, Suspect]]) -> Iterator[Diagnosis]:
        """Fits as they stand in a result: one entry for each mistake, or pair of them."""
        seen = set()
        for fit, suspect in sorted(found, key=lambda f: (len(f[1].names), round(f[0], 1))):
            name = " + ".join(suspect.names)
            if name not in seen:
                seen.add(name)
                texts = [self.pack.program.mistakes[n].says for n in suspect.names]
                yield Diagnosis(name, fit, Text(" ".join(t.en for t in texts), "".join(t.zh for t in texts)))

    # -- one stage ------------------------------------------------------------------------------

    def of_stage(self, question: Question, tap: str) -> list[tuple[float, Suspect]]:
        """Mistakes that explain one tap, given the target's own tensors before it."""
        place = place_of(question)
        short = tap.rpartition(".")[2]
        # What fitted before: of another stage here, or of the whole model.
        known = self.known.get(place, [])
        first = [*known, *(s for s in self.models.get(place, []) if s not in known)]
        rest = [
            s
            for s in self.all_suspects
            if self.about(s, short) and s not in first and self.of_variant(s, question)
        ]
        found: list[tuple[float, Suspect]] = []
        for i, suspect in enumerate((*first, *rest)):
            if found and i == len(first) and self.bench.graph is not None:
                break  # one place of a graph, again and again: what fitted there before is enough
            self.tried.add(suspect.names)
            fit = stage_fit(self.bench, question.scenario, suspect, question.dtype, tap)
            if fit <= FITS:
                found.append((fit, suspect))
        self.learn(place, [suspect for _, suspect in found])
        return found

    def about(self, suspect: Suspect, tensor: str) -> bool:
        """Whether a mistake patches the function that a tensor lives in, or one that it calls."""
        entry = self.pack.program.tensors.get(tensor)
        if entry is None:
            return True
        patched = {
            function for name in suspect.names for function, _ in self.pack.program.mistakes[name].replace
        }
        return bool(patched & self.near(frozenset(entry.functions)))

    def near(self, functions: frozenset[str]) -> frozenset[str]:
        """The functions themselves and those that their equations mention."""
        mentioned = {
            name
            for function in functions
            for equation in self.pack.program.functions[function].let
            for expression in equation.alternatives.values()
            for name in self.pack.program.functions
            if f"{name}(" in expression.text
        }
        return functions | mentioned | {"norm", "layer_norm", "rms_norm", "activation", "softmax", "rope"}

    # -- outputs alone --------------------------------------------------------------------------

    def of_outputs(self, question: Question) -> list[tuple[float, Suspect]]:
        """Mistakes that explain everything that came back."""
        place = place_of(question)
        if question.observation().failed is not None or not question.observation().steps:
            return []
        if question.scenario.large:
            return []  # a reading for each of two hundred mistakes takes longer than all else; its stages tell
        found = self.fitting(question, self.known.get(place, []), again=True)
        if found:
            return found
        if self.vain.get(place, 0) >= SEARCHES:
            return []
        found = self.confirmed(question, self.fitting(question, self.all_suspects))
        if not found and self.vain.get(place, 0) == 0:
            found = self.confirmed(question, self.pairs(question))
        if not found and overflowed(question):
            found = self.confirmed(question, list(self.out_of_range(question)))
        if not found:
            self.vain[place] = self.vain.get(place, 0) + 1
        self.learn(place, [suspect for _, suspect in found])
        return found

    def of_whole(self, question: Question) -> list[tuple[float, Suspect]]:
        """Of a graph: mistakes of the whole model, which make all that came back; one search for each operation.

        A stage alone does not tell a mask that is not used from one that was never made.
        """
        place = place_of(question)
        if question.scenario.large:
            return []
        if question.observation().failed is not None or not question.observation().steps or right(question):
            return []
        if place not in self.models:
            found = self.confirmed(question, self.fitting(question, self.all_suspects))
            self.models[place] = [suspect for _, suspect in found]
        return self.fitting(question, self.models[place], again=True)

    def fitting(
        self, question: Question, candidates: Sequence[Suspect], *, again: bool = False
    ) -> list[tuple[float, Suspect]]:
        """Candidates that make what the target made, and not what is right."""
        seen, counts = question.observation(), counted(question)
        found = []
        for suspect in candidates:
            if not self.of_variant(suspect, question):
                continue
            self.tried.add(suspect.names)
            fit = self.fitter.fit(question.scenario, suspect, seen, question.dtype, counts, again=again)
            if fit <= FITS and self.fitter.changes(question.scenario, suspect, question.dtype):
                found.append((fit, suspect))
        return found

    def out_of_range(self, question: Question) -> Iterator[tuple[float, Suspect]]:
        """Mistakes that are the same formula, and leave the range of the dtype where the target did."""
        scenario, seen, counts = question.scenario, question.observation(), counted(question)
        for suspect in self.all_suspects:
            if not self.of_variant(suspect, question):
                continue
            if self.fitter.changes(scenario, suspect, question.dtype):
                continue
            self.tried.add(suspect.names)
            if self.fitter.leaves_range(scenario, suspect, seen, question.dtype, counts):
                yield 0.0, suspect

    def pairs(self, question: Question) -> list[tuple[float, Suspect]]:
        """Two mistakes at a time, as far as the budget goes."""
        seen, counts = question.observation(), counted(question)
        until = time.monotonic() + PAIR_SECONDS
        # Of a mistake's forms the first stands for all: with two faults there are enough to try.
        singles = list({s.names: s for s in self.all_suspects}.values())
        # What another operation has shown already is likely one of the two.
        met = {s.names for found in self.known.values() for s in found}
        singles.sort(key=lambda s: s.names not in met)
        visible = []
        for suspect in singles:
            if time.monotonic() > until:
                return []
            if self.fitter.changes(question.scenario, suspect, question.dtype):
                visible.append(suspect)
        for one, other in itertools.combinations(visible, 2):
            if time.monotonic() > until:
                break
            self.tried.add((*one.names, *other.names))
            pair = one.and_(other, self.pack.program.mistakes[other.names[0]])
            fit = self.fitter.fit(question.scenario, pair, seen, question.dtype, counts)
            self.fitter.readings.pop((question.scenario.key, pair.names, pair.forms), None)
            if fit <= FITS:
                return [(fit, pair)]
        return []

    def confirmed(
        self, question: Question, found: Sequence[tuple[float, Suspect]]
    ) -> list[tuple[float, Suspect]]:
        """Those that fit every other answer of the same operation as well."""
        if not found:
            return []
        asked = self.questions.get(place_of(question), {}).values()
        others = sorted(asked, key=lambda q: q.scenario.case.id)[: WITNESSES + 1]
        distinct = {q.scenario.key: q for q in (*others, *self.ahead(question)[:WITNESSES])}
        others = [q for key, q in distinct.items() if key != question.scenario.key]
        kept = []
        for fit, suspect in found:
            if all(self.agrees(other, suspect) for other in others):
                kept.append((fit, suspect))
        return kept

    def agrees(self, question: Question, suspect: Suspect) -> bool:
        """Whether a mistake makes what the target made of another scenario, right or wrong."""
        seen = question.observation()
        if seen.failed is not None or not seen.steps:
            return True
        fit = self.fitter.fit(question.scenario, suspect, seen, question.dtype, counted(question), again=True)
        return fit < NO_FIT

    def learn(self, place: Place, found: Sequence[Suspect]) -> None:
        """Suspects that fitted once are tried first from then on."""
        known = self.known.setdefault(place, [])
        known += [suspect for suspect in found if suspect not in known]
