"""Sizes and weights that a target brings along: a file is one model, not whatever a case asks for.

A case then keeps its lengths, its inputs and what it is about; the rest comes from the file. Where a
case draws weights of its own, or an experiment changes some, those alone are put to the target.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np

from conformance.language.arithmetic import Array
from conformance.language.program import Text
from conformance.pack.documents import ExperimentDocument
from conformance.pack.model import Case, Claim, Pack

MANY = 20_000_000
"""Numbers in weights from which on a target is graded as a large one."""
SAMPLED = 1 << 16
"""Elements of a weight that tell it from another, beside two sums of all of them."""


@dataclass(frozen=True)
class Own:
    """What a target brings along.

    Attributes:
        sizes: by the names of `config`; those that are None are the case's.
        parameters: by canonical name, float arrays: of a large target as they are stored, of others in
            float64; what the program needs and is not here, is drawn.
        missing: what could not be read of the target, in words.
        lacks: what its model cannot be given, `cache` or `positions`.
    """

    sizes: Mapping[str, int | None]
    parameters: Mapping[str, Array]
    missing: tuple[str, ...] = ()
    lacks: frozenset[str] = frozenset()
    rounded: str = ""
    """How its numbers are quantised: not at all, in its `weights`, or `whole` tensors by one scale each."""

    @cached_property
    def numbers(self) -> int:
        """How many numbers its weights hold."""
        return sum(array.size for array in self.parameters.values())

    @property
    def large(self) -> bool:
        """Whether it has too many weights to be read in float64, many times over."""
        return self.numbers > MANY

    @cached_property
    def digests(self) -> dict[str, str]:
        """What stands for the contents of each weight of a large target: cheaper than a hash of all of it."""
        return {name: _digest(array) for name, array in self.parameters.items()}

    def let_go(self) -> None:
        """Give back the memory of weights that are mapped; they are read from the file again when they are used."""
        for array in self.parameters.values():
            below: Any = array
            while isinstance(below, np.ndarray):
                below = below.base
            if isinstance(below, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                below.madvise(mmap.MADV_DONTNEED)

    def size(self, name: str, otherwise: int) -> int:
        """A size by its name in `config`."""
        own = self.sizes.get(name)
        return otherwise if own is None else own

    def fitting(self, shapes: Mapping[str, tuple[int, ...]]) -> Own:
        """Without weights whose shapes the program could not read, the reason for the first among what is missing.

        `shapes` are those that the program has for these sizes. A model of another kind may have such weights, an
        attention with matrices of low rank for instance.
        """
        misfits = {
            name: array.shape
            for name, array in self.parameters.items()
            if name in shapes and array.shape != shapes[name]
        }
        if not misfits:
            return self
        name = next(iter(misfits))
        reason = f"its {name} is {list(misfits[name])}, and its other sizes ask for {list(shapes[name])}"
        kept = {n: array for n, array in self.parameters.items() if n not in misfits}
        return replace(self, parameters=kept, missing=(*self.missing, reason))

    def symbols(self, pack: Pack) -> dict[str, int]:
        """Its sizes by the symbols of the pack's axes."""
        symbol_of = {axis: symbol for symbol, axis in pack.program.axes.by_symbol.items()}
        found = {}
        for axis in pack.program.axes.by_name.values():
            size = self.sizes.get(axis.config) if axis.config else None
            if size is not None and axis.name in symbol_of:
                found[symbol_of[axis.name]] = size
        return found

    def uncached(self, claim: Claim, case: Case) -> Text | None:
        """Why a claim about a cache is not asked of a target that has none; None where it has, or for other claims.

        Said before the case is read, in as many calls as its tokens would come in.
        """
        changed = claim.body.schedule if isinstance(claim.body, ExperimentDocument) else None
        calls = max(len(case.schedule), len(changed or ()))
        if "cache" not in self.lacks or calls < 2:
            return None
        return Text("the graph takes no cache", "该计算图不接受缓存")

    def refusal(
        self, case: Case, given: Mapping[str, Any], parameters: Iterable[str], choices: Mapping[str, Any]
    ) -> Text | None:
        """Why a case cannot be put to it, None where it can. `given` are the inputs that were made."""
        vocabulary = self.sizes.get("vocab_size")
        tokens = given.get("tokens")
        if vocabulary is not None and tokens is not None and int(tokens.array.max()) >= vocabulary:
            return Text(
                f"the file has {vocabulary} tokens, and the case needs number {int(tokens.array.max())}",
                f"该文件的词表只有 {vocabulary} 个词元，而用例需要编号 {int(tokens.array.max())}",
            )
        if vocabulary is None and tokens is not None:
            return Text("the size of its vocabulary could not be read", "未能读出其词表大小")
        rows = self.sizes.get("max_positions")
        if rows is not None and tokens is not None and choices.get("position") == "learned":
            positions = given.get("positions")
            last = int(positions.array.max()) if positions is not None else tokens.array.shape[1] - 1
            if last >= rows:
                return Text(
                    f"the file has {rows} learned positions, and the case needs number {last}",
                    f"该文件只有 {rows} 个可学习位置，而用例需要编号 {last}",
                )
        drawn = [n for n in parameters for pattern in case.parameters if fnmatchcase(n, pattern)]
        absent = [name for name in drawn if name not in self.parameters]
        if absent:
            return Text(
                f"the case draws `{absent[0]}`, which was not found in the file",
                f"用例要重新抽取 `{absent[0]}`，但在该文件中没有找到",
            )
        return None


def _digest(array: Array) -> str:
    """Equal arrays have equal ones; any one number that differs makes another, and so does nearly any change."""
    dense = np.ascontiguousarray(array.T if array.flags.f_contiguous else array).reshape(-1)
    words = dense.view(f"u{dense.dtype.itemsize}")
    sums = (int(np.bitwise_xor.reduce(words)), int(words.sum(dtype=np.uint64)))
    head = repr((array.shape, array.dtype.str, array.flags.f_contiguous, sums)).encode()
    return hashlib.sha256(head + words[:: max(1, len(words) // SAMPLED)].tobytes()).hexdigest()
