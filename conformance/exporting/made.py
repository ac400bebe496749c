"""What an exported program is made of: a variant, sizes, random weights; and inputs to try it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from conformance.language.errors import suggestion
from conformance.language.program import Mistake, Program
from conformance.pack.model import Case, Draw, Pack, Variant
from conformance.plan.own import Own
from conformance.plan.scenario import Scenario
from conformance.plan.scenarios import instantiate

POSITIONS = 128
"""Learned positions of an exported model, where nothing else is said."""
COUNTED = "n_layers"


class ExportError(ValueError):
    """What was asked for cannot be exported; says what is known and what to pass."""


@dataclass(frozen=True)
class Model:
    """A model to be made from the pack: `sizes` are those of the config that differ from the case's."""

    pack: Pack
    variant: Variant
    sizes: Mapping[str, int]
    mistake: Mistake | None = None
    form: int = 0
    seed: int = 0
    own: Own | None = None
    """Weights that are not random: those of a checkpoint."""

    @property
    def program(self) -> Program:
        """The program, with the mistake made."""
        if self.mistake is None:
            return self.pack.program
        return self.pack.program.mistaken(self.mistake, self.mistake.forms()[self.form])

    def scenario(
        self, batch: int = 3, schedule: Sequence[int] = (6,), padding: Sequence[int] = ()
    ) -> Scenario:
        """Inputs and, the same for all, weights. `padding` is how much each sequence has on the left.

        The program that it reads is the one with the mistake.
        """
        case = self._case()
        length = sum(schedule)
        given = {name: draw for name, draw in case.given.items() if name in ("tokens", "source")}
        if padding:
            given["attention_mask"] = Draw("left_padding", list(padding))
        sizes = {**case.sizes, "B": batch, "T": length}
        case = replace(case, sizes=sizes, given=given, schedule=tuple(schedule) if len(schedule) > 1 else ())
        operation = self.pack.operations[case.operation]
        choices = {**self.variant.choices, **operation.choices}
        pack = replace(self.pack, program=self.program)
        return instantiate(pack, operation, case, self.variant, choices, self.seed, self.own)

    def _case(self) -> Case:
        """The first case of the model that holds in every variant, with the sizes asked for."""
        models = {name for name, operation in self.pack.operations.items() if operation.model}
        case = next(c for c in self.pack.cases.values() if c.operation in models and not c.when)
        symbols = _symbols(self.pack)
        asked = {symbols[name]: size for name, size in self.sizes.items()}
        positions = {symbols["max_positions"]: POSITIONS} if "max_positions" in symbols else {}
        return replace(case, sizes={**case.sizes, **positions, **asked})


def _symbols(pack: Pack) -> dict[str, str]:
    """The symbol of each size that a config has."""
    symbol_of = {axis: symbol for symbol, axis in pack.program.axes.by_symbol.items()}
    found = {a.config: symbol_of[a.name] for a in pack.program.axes.by_name.values() if a.config}
    return {**found, COUNTED: "N"}


def sizes_of(pack: Pack, words: Sequence[str]) -> dict[str, int]:
    """`n_heads=8` and so on. Raises `ExportError` for a size that no config has."""
    known = _symbols(pack)
    sizes = {}
    for word in words:
        name, _, number = word.partition("=")
        if name not in known:
            near = suggestion(name, known)
            raise ExportError(
                f"--size {word}: the sizes are {', '.join(known)}" + (f"; {near}" if near else "")
            )
        if not number.isdecimal() or int(number) == 0:
            raise ExportError(f"--size {word}: write {name}=N, a whole number")
        sizes[name] = int(number)
    return sizes


def mistake_of(pack: Pack, name: str) -> tuple[Mistake, int]:
    """A mistake and its form: `mask-top-left`, or `mask-top-left:2` for its second. Raises `ExportError`."""
    identifier, _, number = name.partition(":")
    mistakes = pack.program.mistakes
    if identifier not in mistakes:
        near = suggestion(identifier, mistakes)
        raise ExportError(
            f"--mistake {name}: the pack has no such mistake"
            + (f"; {near}" if near else "; `conformance selftest` lists them")
        )
    forms = mistakes[identifier].forms()
    form = int(number) if number.isdecimal() else 1 if not number else 0
    if not 1 <= form <= len(forms):
        shown = "; ".join(
            f"{i}: {', '.join(f'{k} = {v}' for k, v in f.items()) or 'the only one'}"
            for i, f in enumerate(forms, 1)
        )
        raise ExportError(f"--mistake {name}: its forms are {shown}")
    return mistakes[identifier], form - 1
