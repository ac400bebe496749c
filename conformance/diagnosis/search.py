"""The array at which one known mistake enters what a target computes.

Records are compared with the true program's tensors and with those that the mistake changes. What the
replaced equations make themselves says most, then a right tensor that stands where another belongs,
then what a function gave to a replaced equation, then anything that follows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from conformance.diagnosis.changes import Patches, content, equation_of
from conformance.diagnosis.matching import PIECE, Index, Known
from conformance.language.arithmetic import Array
from conformance.language.program import RESULT
from conformance.plan.scenario import Tensors
from conformance.session.tracing import Record

NEARER = 0.25
"""How much nearer a wrong tensor must be where both are within rounding: a wrong ε is as mild as that."""


Hit = tuple[int, Known]
"""Which record, and which wrong tensor it is."""


class Search:
    """Looks for the array at which one mistake enters."""

    def __init__(
        self,
        records: Sequence[Record],
        matches: Sequence[Known | None],
        right: Index,
        true: Sequence[Tensors],
        patches: Patches,
        inputs: Sequence[Array],
        own: Index,
        given: Index,
        changed: Index,
    ) -> None:
        """`matches` are the right tensors; the wrong ones are those of replaced equations, and all.

        `own` of these the equations make themselves, `given` are what functions gave to them.
        """
        self.records, self.matches, self.right, self.true = records, matches, right, true
        self.patches = patches
        self.contents = [content(record.array) for record in records]
        self.entry = {record.step: record.function for record in records}  # what returns last
        self.inputs = {content(array) for array in inputs}
        self.own, self.given, self.any = (
            [wrong.match(record.array, record.step) for record in records] for wrong in (own, given, changed)
        )
        self.followers = self.clear(self.any)
        made = {equation_of(name) for step in true for name in step.inner}
        self.remembered = any(
            function in {f for f, _ in made} and (function, name) not in made for function, name in patches
        )

    def made(self) -> tuple[int, Known, int] | None:
        """The first array that a replaced equation itself makes, or before it a right one in its place."""
        own = self.formula([(i, known) for i, known in self.clear(self.own) if self.is_own(i, known)])
        given = self.passed_on(own)
        hit = given or own
        other = self.mistaken_for(
            hit if hit is not None else self.first(self.followers), made=hit is not None
        )
        if other is not None:
            return *other, 3
        if given is not None:
            return *given, 2
        own = self.remembering(own)
        return None if own is None else (*own, 4)

    def formula(self, hits: Sequence[Hit]) -> Hit | None:
        """The first piece of a formula, in the function that finishes it."""
        records = self.records
        hits = [
            hit
            for hit in self.unsound(hits)
            if hit[1].obscurity != PIECE or records[hit[0]].array.dtype != bool
        ]
        if not hits:
            return None
        whole = next((i for i, known in hits if known.obscurity != PIECE), None)
        if whole is None or records[whole].array.dtype.kind == "b":
            return hits[0]
        function = records[whole].function
        inside = [i for i, _ in hits if records[i].function == function]
        right = self.has_appeared(records[whole].step, hits[0][1].name, whole)
        if len(self.callers(inside)) < 2 and right is not None:
            # Something is done to what was right: whoever had it done is to blame.
            while records[right].function != records[whole].function and self.handed_on(whole) != whole:
                whole = self.handed_on(whole)
            return whole, next(known for _, known in hits if known.obscurity != PIECE)
        return next(hit for hit in hits if hit[0] == inside[0])

    def has_appeared(self, step: int | None, name: str, until: int) -> int | None:
        """Which record before one is the right tensor of an equation; None for none."""
        equation = name.partition(":")[0].partition("~")[0]
        inner = self.true[step or 0].inner
        true = next((t for n, t in inner.items() if n.partition("~")[0] == equation), None)
        if true is None:
            return None
        values = np.sort(true.array, axis=None)
        found = (
            i
            for i, known in enumerate(self.matches[:until])
            if known is not None and known.values.size == values.size and np.allclose(known.values, values)
        )
        return next(found, None)

    def passed_on(self, own: Hit | None) -> Hit | None:
        """Before a hit, what an equation was given, where the same function binds it."""
        if own is None:
            return None
        function = self.records[own[0]].function
        return next(
            (
                (i, known)
                for i, known in self.unsound(self.clear(self.given))
                if i < own[0] and known.obscurity != PIECE and self.records[i].function == function
            ),
            None,
        )

    def is_own(self, i: int, known: Known) -> bool:
        """Whether an array is what the equation makes rather than something else that the mistake changes."""
        other, array = self.any[i], self.records[i].array
        if other is None or {known.values.size, other.values.size} != {array.size}:  # a mask
            return True
        if np.array_equal(known.values, other.values, equal_nan=True):
            return True
        return known.distance(array) < NEARER * other.distance(array)

    def called(self) -> tuple[int, Known, int] | None:
        """The first that a replaced equation has from a function which it calls."""
        hit = self.remembering(self.first(self.clear(self.given)))
        return None if hit is None else (*hit, 2)

    def remembering(self, hit: Hit | None) -> Hit | None:
        """A hit, or what is wrong before it because a mistake is about what is kept from call to call."""
        earlier = self.first(self.followers) if self.remembered else None
        return earlier if hit is not None and earlier is not None and earlier[0] < hit[0] else hit

    def followed(self) -> tuple[int, Known, int] | None:
        """The first of anything that the mistake changes."""
        hit = self.first(self.followers)
        return None if hit is None else (*hit, 1)

    def clear(self, wrong: Sequence[Known | None]) -> list[Hit]:
        """Arrays that are wrong tensors and no right ones, up to the first layer in which there are any."""
        hits = [(i, known) for i, known in enumerate(wrong) if known is not None and self.is_wrong(i, known)]
        if wrong is self.any:
            return hits
        until = layer(self.followers[0][1].name) if self.followers else None
        return [hit for hit in hits if until is None or (layer(hit[1].name) or 0) <= until]

    def is_wrong(self, i: int, wrong: Known) -> bool:
        """Whether a record is a wrong tensor of its call rather than a right one, unless that was of an earlier call."""
        record, right = self.records[i], self.matches[i]
        kept = right is not None and record.step is not None and right.step < wrong.step == record.step
        if kept and wrong.obscurity != PIECE:
            return True
        return nearer(record.array, wrong, right)

    def mistaken_for(self, hit: Hit | None, made: bool) -> Hit | None:
        """Before a hit, a right tensor that stands where another belongs, which never appears.

        `made` if the hit is what the mistake itself makes.
        """
        until = len(self.records) if hit is None else hit[0]
        direct: list[Hit] = []
        for i in range(until):
            right, any_ = self.matches[i], self.any[i]
            if right is None:
                continue
            if self.records[i].array.dtype.kind in "iu":  # small integers coincide with anything
                passing = any_ is not None and any_.obscurity != PIECE
                if any_ is not None and passing and not self.is_recorded(any_):
                    return self.handed_on(i), any_
                continue
            if any_ is None or not any_.whole or any_.obscurity == PIECE or self.appears(any_):
                continue
            if self.right.is_shared(right):  # with weights that are the identity, q is k
                continue
            own = self.own[i] or self.given[i]
            if own is not None and own.obscurity != PIECE:
                direct.append((i, own))
                if self.is_part(right, own):
                    return i, own
            whole = own is not None and own.obscurity != PIECE
            # What was kept from an earlier call is no argument that was passed wrongly in this one.
            fresh = right.step == any_.step
            passed = fresh and any_.obscurity and equation_of(any_.name)[1] != RESULT
            if (whole or passed) and self.is_renamed(i, returned=whole):
                return self.made_again(self.handed_on(i), until), any_
        return None if made else next(iter(direct), None)

    def is_recorded(self, wrong: Known) -> bool:
        """Whether what an integer tensor should have been is among the records of its call."""
        true = next((t for n, t in self.true[wrong.step].inner.items() if n == wrong.name), None)
        return true is not None and any(
            record.step in (None, wrong.step) and content(record.array) == content(true.array)
            for record in self.records
            if record.array.size == true.array.size
        )

    def handed_on(self, i: int) -> int:
        """Where the function that called for a result binds it."""
        records = self.records
        if records[i].variable != "return" or i + 1 == len(records):
            return i
        following = records[i + 1].function != records[i].function
        return i + 1 if following and self.contents[i + 1] == self.contents[i] else i

    def made_again(self, i: int, until: int) -> int:
        """Where the function that binds an array binds the same values again, on another line: that is the copy."""
        records = self.records
        if not records[i].variable.isidentifier():
            return i
        again = (
            j
            for j in range(i + 1, until)
            if records[j].function == records[i].function
            and records[j].variable.isidentifier()
            and records[j].variable not in ("return", records[i].variable)
            and self.contents[j] == self.contents[i]
            and self.right_name(j) == self.right_name(i)
        )
        return next(again, i)

    def right_name(self, i: int) -> str:
        """The right tensor that a record is."""
        known = self.matches[i]
        return "" if known is None else known.name

    def is_part(self, right: Known, own: Known) -> bool:
        """Whether what should be an equation's is only a part of it, or another's that was replaced as well."""
        mine, other = equation_of(own.name), equation_of(right.name)
        if right.obscurity == 0 and (mine[0], other[1]) in self.patches:
            return mine[1] != other[1]
        return mine == other or (right.obscurity == 1 and (mine[0] == other[0] or other[1] == RESULT))

    def appears(self, wrong: Known) -> bool:
        """Whether the right tensor of that name is among the records."""
        right = self.right.named(wrong.name, wrong.step)
        first = None if right is None else self.right.match(right.tensor, wrong.step)
        if right is None or first is None or first.name != wrong.name:  # it stands in that place only
            return False
        return any(
            known is not None
            and mistaken is None
            and known.values.size == right.values.size
            and np.allclose(known.values, right.values)
            for known, mistaken in zip(self.matches, self.own, strict=True)
        )

    def is_renamed(self, i: int, returned: bool) -> bool:
        """Whether a record gives another name to an array that was there before, perhaps only as a result."""
        earlier = (
            j
            for j, other in enumerate(self.records[:i])
            if line_of(other) != line_of(self.records[i])
            and (returned or not other.variable.startswith("return"))
        )
        return self.contents[i] in self.inputs or any(self.contents[j] == self.contents[i] for j in earlier)

    def first(self, hits: Sequence[Hit]) -> Hit | None:
        """Of several hits the first that is to blame."""
        if not hits:
            return None
        records = self.records
        hits = self.unsound(hits) or hits
        i = hits[0][0]
        if len(self.callers([j for j, _ in hits if records[j].function == records[i].function])) > 1:
            return hits[0]
        # Where a helper that knew nothing right made it, the line that called the helper is shown.
        before = [
            r.function for r, known in zip(records[:i], self.matches, strict=False) if known is not None
        ]
        return next((hit for hit in hits if records[hit[0]].function in before[-1:]), hits[0])

    def unsound(self, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Hits without those on lines that make right tensors elsewhere in the call, as a norm's own code does."""
        guilty = {i for i, _ in hits}
        sound = {
            (line_of(record), record.step)
            for i, (record, known) in enumerate(zip(self.records, self.matches, strict=True))
            if known is not None and i not in guilty and record.function != self.entry[record.step]
        }
        records = self.records
        return [hit for hit in hits if (line_of(records[hit[0]]), records[hit[0]].step) not in sound]

    def callers(self, hits: Sequence[int]) -> set[int]:
        """The lines to which a function gave its wrong results."""
        records = self.records
        following = (
            next((r for r in records[i + 1 :] if r.function != records[i].function), None) for i in hits
        )
        return {record.line for record in following if record is not None}


def layer(name: str) -> int | None:
    """The number of the layer that a tensor belongs to; None for none."""
    found = re.search(r"layers\.(\d+)\.", name)
    return int(found[1]) if found else None


def nearer(array: Array, wrong: Known, right: Known | None) -> bool:
    """Whether an array is the wrong tensor: it is no right one, or a mild mistake's is far nearer."""
    if right is None:
        return True
    if wrong.tensor.dtype.kind == right.tensor.dtype.kind == "b":
        return wrong.twist(array) < right.twist(array)
    if array.dtype.kind != "f":
        return False
    if right.tensor.dtype.kind == "b":  # two values that are in a mask's places, and those of scores
        return wrong.tensor.dtype.kind != "b"
    return wrong.distance(array) < NEARER * right.distance(array)


def line_of(record: Record) -> tuple[str, int, str]:
    """A line of a target's source, and the variable that it binds."""
    return record.file, record.line, record.variable
