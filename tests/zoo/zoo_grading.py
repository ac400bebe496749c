"""Grading adapters of the zoo, one after the other: what the program makes of a case is worked out once for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from conformance.checked_pack import open_checked
from conformance.diagnosis.naming import Namer
from conformance.golden.tolerances import known_tolerances
from conformance.grading import Grader
from conformance.plan.items import entry_point, plan
from conformance.judging.bench import Bench
from conformance.judging.count import PARAMETER_SHAPES
from conformance.locations import bundled
from conformance.pack.model import Pack
from conformance.plan.scenarios import Scenarios
from conformance.plan.selection import Selection, parse_selection
from conformance.plan.variants import Graded, resolve
from conformance.results.records import BROKEN, Verdict
from conformance.session import Limits, Offer, Session

FOLDER = Path(__file__).resolve().parent
WRONG: Mapping[str, Mapping[str, Any]] = yaml.safe_load((FOLDER / "wrong.yaml").read_text(encoding="utf-8"))
"""What is wrong in each file; its own head explains the keys."""
RIGHT = sorted(path.stem for path in (FOLDER / "right").glob("*.py"))


def wrong_file(name: str) -> Path:
    return FOLDER / "wrong" / f"{name}.py"


def right_file(name: str) -> Path:
    return FOLDER / "right" / f"{name}.py"


def line_of_fault(path: Path) -> int:
    """The line that carries `# WRONG`."""
    (line,) = [
        i for i, text in enumerate(path.read_text(encoding="utf-8").split("\n"), 1) if "# WRONG" in text
    ]
    return line


def lines_accepted(name: str) -> set[int]:
    """That line, and those that a person would accept as well."""
    path = wrong_file(name)
    lines = path.read_text(encoding="utf-8").split("\n")
    accepted = {line_of_fault(path)}
    for entry in WRONG[name].get("also", ()):
        (line,) = [i for i, text in enumerate(lines, 1) if entry["line"] in text]
        accepted.add(line)
    return accepted


@dataclass
class Zoo:
    """A pack, and what of it no adapter can change: scenarios, exact readings and spreads.

    Those of one seed at a time: they take some hundred megabytes.
    """

    pack: Pack
    seed: int | None = None
    scenarios: Scenarios = field(init=False)
    exact: dict[str, Any] = field(init=False)
    sigmas: Any = field(init=False)
    measured: dict[Any, Any] = field(init=False)

    @staticmethod
    def opened() -> Zoo:
        """With the bundled pack."""
        return Zoo(open_checked(bundled("spec") / "forward-pass"))

    def verdicts(
        self,
        path: Path,
        claims: Sequence[str] = (),
        *,
        seed: int = 0,
        dtypes: Sequence[str] = (),
        diagnosed: bool = False,
    ) -> list[Verdict]:
        """Every verdict on an adapter, or those of some claims."""
        names = [*(entry_point(operation) for operation in self.pack.operations.values()), PARAMETER_SHAPES]
        with Session(path, names=names, limits=Limits(timeout=10.0)) as session:
            offer = session.open()
            graded = resolve(self.pack, offer.variants, [])
            selection = parse_selection([",".join(claims)], self.pack) if claims else Selection()
            items = plan(self.pack, offer, graded, dtypes or offer.dtypes, selection).items
            grader = self._grader(session, offer, graded, seed)
            grader.namer = Namer(self.pack, grader.bench) if diagnosed else None
            verdicts = list(grader.verdicts(items))
            assert not grader.faults, grader.faults[0]
            return verdicts

    def _grader(self, session: Session, offer: Offer, graded: Graded, seed: int) -> Grader:
        if seed != self.seed:
            self.seed, self.scenarios = seed, Scenarios(self.pack, seed)
            self.exact, self.sigmas, self.measured = {}, known_tolerances(self.pack), {}
        bench = Bench(session, offer, exact=self.exact, store=self.sigmas)
        bench.spreads.measured = self.measured
        return Grader(self.pack, bench, graded, self.scenarios, {})


def broken(verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """Those that are red."""
    return (verdict for verdict in verdicts if verdict.judgement.verdict in BROKEN)


def told(verdicts: Sequence[Verdict]) -> str:
    """Verdicts for the message of a failed assertion."""
    lines = [
        f"{v.judgement.verdict} {v.claim} on {v.case}, {v.variant}, {v.dtype}: {v.judgement.summary.en}"
        for v in verdicts
    ]
    return "\n".join(lines[:20])
