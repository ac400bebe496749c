"""The program read as an ONNX graph: an arithmetic whose arrays are values of the graph.

What depends on no input is worked out in float64 while reading, and stands in the graph as a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from conformance.exporting.graph import REAL, Graph, Type, Value
from conformance.exporting.lengths import Lengths
from conformance.exporting.products import contracted
from conformance.language.arithmetic import Array, Float64
from conformance.language.sizes import Dimension, Size
from conformance.language.tensors import SizeError

OPERATORS = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow",
    "maximum": "Max", "minimum": "Min", "negative": "Neg", "abs": "Abs", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tanh": "Tanh", "erf": "Erf", "less": "Less",
    "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual", "equal": "Equal",
    "and": "And", "or": "Or", "not": "Not", "where": "Where",
}  # fmt: skip
"""Functions of the language that are one operator of ONNX."""
TRUTH = frozenset(
    {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "and", "or", "not", "finite"}
)
REAL_RESULT = frozenset({"divide", "power", "exp", "log", "sqrt", "sin", "cos", "tanh", "erf"})
CAST = {"float32": 1, "int64": 7, "bool": 9, "float16": 10, "float64": 11, "bfloat16": 16}
"""What `Cast` calls each type."""
END = np.iinfo(np.int64).max
FOLDING = Float64()


@dataclass(frozen=True)
class Emission:
    """See `Arithmetic`. Real results are of the type `real`."""

    graph: Graph
    lengths: Lengths
    real: Type = "float32"

    def widened(self) -> Emission:
        """float32 for the sixteen-bit types."""
        return replace(self, real="float32") if self.real in ("float16", "bfloat16") else self

    # -- constants -------------------------------------------------------------------------------

    def constant(self, value: float | Size) -> Value:
        """A number, or a size that is known only when the graph runs."""
        return self.lengths.value(value) if isinstance(value, Size) else self.held(FOLDING.constant(value))

    def held(self, array: Array) -> Value:
        """Numbers that are known now."""
        kinds: dict[str, Type] = {"b": "bool", "i": "int64", "f": self.real}
        return Value("", kinds[array.dtype.kind], array.shape, array)

    def _known(self, values: Sequence[Value]) -> list[Array] | None:
        """The numbers of all values, if all are known."""
        arrays = [value.known for value in values if value.known is not None]
        return arrays if len(arrays) == len(values) else None

    def cast(self, value: Value, kind: Type) -> Value:
        """The same numbers in another type."""
        if value.type == kind:
            return value
        if value.known is not None:
            known: Array = value.known.astype({"bool": np.bool_, "int64": np.int64}.get(kind, np.float64))
            return Value("", kind, value.sizes, known)
        return self.graph.node("Cast", [value], kind, value.sizes, to=CAST[kind])

    # -- elementwise -----------------------------------------------------------------------------

    def shape(self, a: Value) -> tuple[Dimension, ...]:
        """The sizes of `a`."""
        return a.sizes

    def elementwise(self, name: str, *arrays: Value) -> Value:
        """A function of each element, in the widest type that takes part, and then in this arithmetic's."""
        known = self._known(arrays)
        if known is not None:
            return self.held(FOLDING.elementwise(name, *known))
        operands = self._operands(name, arrays)
        sizes = _broadcast([value.sizes for value in operands])
        kind: Type = "bool" if name in TRUTH else operands[-1].type
        mean = self._mean(*operands) if name == "divide" else None
        made = mean or self._operator(name, operands, kind, sizes)
        return self.cast(made, self.real) if made.real else made

    def _operands(self, name: str, arrays: Sequence[Value]) -> list[Value]:
        """Operands of one type, but for the condition of `where`."""
        reals = [REAL.index(value.type) for value in arrays if value.real and value.known is None]
        first = 1 if name == "where" else 0
        if not (any(v.real for v in arrays[first:]) or name in REAL_RESULT):
            return list(arrays)
        widest = max([REAL.index(self.real), *reals])
        return [*arrays[:first], *(self.cast(value, REAL[widest]) for value in arrays[first:])]

    def _operator(self, name: str, operands: list[Value], kind: Type, sizes: Sequence[Dimension]) -> Value:
        node = self.graph.node
        if name == "not_equal":
            return node("Not", [node("Equal", operands, "bool", sizes)], "bool", sizes)
        if name == "finite":
            if not operands[0].real:
                return self.held(np.ones((), np.bool_))
            bad = node("Or", [node(n, operands, "bool", sizes) for n in ("IsNaN", "IsInf")], "bool", sizes)
            return node("Not", [bad], "bool", sizes)
        if name in ("floor_divide", "remainder"):
            return self._divided(name, operands, kind, sizes)
        return node(OPERATORS[name], operands, kind, sizes)

    def _divided(self, name: str, operands: list[Value], kind: Type, sizes: Sequence[Dimension]) -> Value:
        """Quotient and remainder as Python has them; ONNX's own division of integers truncates."""
        node, (a, b) = self.graph.node, operands
        if kind in REAL:
            floor = node("Floor", [node("Div", [a, b], kind, sizes)], kind, sizes)
            return (
                floor
                if name == "floor_divide"
                else node("Sub", [a, node("Mul", [floor, b], kind, sizes)], kind, sizes)
            )
        if b.known is None or not b.known.all():
            # By 0 nothing is divided that has elements; onnxruntime refuses even that.
            zero = self.elementwise("equal", b, self.constant(0))
            b = self.elementwise("where", zero, self.constant(1), b)
        rest = node("Mod", [a, b], kind, sizes)
        if name == "remainder":
            return rest
        return node("Div", [node("Sub", [a, rest], kind, sizes), b], kind, sizes)

    def _mean(self, total: Value, count: Value) -> Value | None:
        """A sum divided by how many there were: one operator."""
        maker = self.graph.makers.get(total.name)
        if maker is None or maker[0].operator != "ReduceSum" or count.known is None or count.known.shape:
            return None
        source, axes = maker[1]
        assert axes.known is not None
        if source.sizes[int(axes.known[0])] != int(count.known):
            return None
        return self.graph.node("ReduceMean", [source, axes], total.type, total.sizes, **maker[0].attributes)

    # -- along axes ------------------------------------------------------------------------------

    def contract(self, spec: str, a: Value, b: Value) -> Value:
        """A sum of products."""
        known = self._known((a, b))
        if known is not None:
            return self.held(FOLDING.contract(spec, *known))
        a, b = self._operands("multiply", (a, b))
        made = contracted(self.graph, spec, a, b)
        return self.cast(made, self.real) if made.real else made

    def reduce(self, name: str, a: Value, axis: int) -> Value:
        """A reduction over one axis."""
        if a.known is not None:
            return self.held(FOLDING.reduce(name, a.known, axis))
        sizes = a.sizes[:axis] + a.sizes[axis + 1 :]
        if name in ("any", "all"):
            # Truth values have an order from opset 20 on only.
            counted = self.cast(a, "int64")
            operator = "ReduceMax" if name == "any" else "ReduceMin"
            found = self.graph.node(
                operator, [counted, self.graph.integers(axis)], "int64", sizes, keepdims=0
            )
            return self.cast(found, "bool")
        operator = {"sum": "ReduceSum", "max": "ReduceMax"}[name]
        return self.graph.node(operator, [a, self.graph.integers(axis)], a.type, sizes, keepdims=0)

    def cumulative_sum(self, a: Value, axis: int) -> Value:
        """Running sum along an axis; of truth values it counts."""
        if a.known is not None:
            return self.held(FOLDING.cumulative_sum(a.known, axis))
        counted = self.cast(a, "int64" if a.type == "bool" else "float32" if a.type in REAL[:2] else a.type)
        summed = self.graph.node("CumSum", [counted, self.constant(axis)], counted.type, a.sizes)
        return self.cast(summed, self.real) if summed.real else summed

    # -- layout ----------------------------------------------------------------------------------

    def transpose(self, a: Value, order: Sequence[int]) -> Value:
        """Axes in another order."""
        if list(order) == sorted(order):
            return a
        if a.known is not None:
            return replace(a, sizes=tuple(a.sizes[i] for i in order), known=a.known.transpose(order))
        return self.graph.node("Transpose", [a], a.type, [a.sizes[i] for i in order], perm=list(order))

    def reshape(self, a: Value, sizes: Sequence[Dimension]) -> Value:
        """The same elements in C order under other sizes."""
        sizes = tuple(sizes)
        if sizes == a.sizes:
            return a
        if a.known is not None and all(isinstance(size, int) for size in sizes):
            return replace(a, sizes=sizes, known=a.known.reshape([int(str(size)) for size in sizes]))
        new = _inserted(a.sizes, sizes)
        if new is not None:
            return self._unsqueezed(a, new, sizes)
        kept = [
            i < len(a.sizes) and size == a.sizes[i] and isinstance(size, Size) for i, size in enumerate(sizes)
        ]
        if 0 in sizes:
            return self.graph.node("Reshape", [a, self.lengths.shape(sizes)], a.type, sizes, allowzero=1)
        open_ = [i for i, size in enumerate(sizes) if isinstance(size, Size) and not kept[i]]
        if not open_:
            # Reshape takes 0 as "what it was".
            shape = self.graph.integers(*(0 if k else int(str(s)) for k, s in zip(kept, sizes, strict=True)))
            return self.graph.node("Reshape", [a, shape], a.type, sizes)
        # A length may be 0, and means it.
        return self.graph.node("Reshape", [a, self.lengths.shape(sizes)], a.type, sizes, allowzero=1)

    def _unsqueezed(self, a: Value, new: tuple[int, ...], sizes: tuple[Dimension, ...]) -> Value:
        """Axes of size 1 put in; a reduced axis that comes back had better be kept in the first place."""
        if len(new) == 1:
            kept = self._kept(a, new[0], sizes)
            if kept is not None:
                return kept
        return self.graph.node("Unsqueeze", [a, self.graph.integers(*new)], a.type, sizes)

    def _kept(self, a: Value, axis: int, sizes: tuple[Dimension, ...]) -> Value | None:
        """A reduction over `axis`, and elementwise functions of it alone, made anew with the axis kept."""
        maker = self.graph.makers.get(a.name)
        if maker is None:
            return None
        node, inputs = maker
        if node.operator.startswith("Reduce") and node.attributes.get("keepdims") == 0:
            axes = inputs[1].known
            if axes is None or list(axes) != [axis]:
                return None
            return self.graph.node(node.operator, inputs, a.type, sizes, keepdims=1)
        if node.operator not in ("Add", "Sub", "Mul", "Div", "Sqrt", "Pow", "Cast", "Max"):
            return None
        wide: list[Value] = []
        for value in inputs:
            again = value if not value.sizes else self._kept(value, axis, sizes)
            if again is None or value.sizes not in ((), a.sizes):
                return None
            wide.append(again)
        return self.graph.node(node.operator, wide, a.type, sizes, **node.attributes)

    def take(self, a: Value, indices: Value, axis: int) -> Value:
        """Entries along an axis."""
        known = self._known((a, indices))
        if known is not None:
            return self.held(FOLDING.take(known[0], known[1], axis))
        size = a.sizes[axis]
        every = np.arange(size) if isinstance(size, int) else None
        if indices.known is not None and every is not None and np.array_equal(indices.known, every):
            return a
        sizes = a.sizes[:axis] + indices.sizes + a.sizes[axis + 1 :]
        return self.graph.node("Gather", [a, self.cast(indices, "int64")], a.type, sizes, axis=axis)

    def concatenate(self, arrays: Sequence[Value], axis: int) -> Value:
        """Arrays one after the other; they agree in everything but the size of `axis`."""
        for other in arrays[1:]:
            for i, (here, there) in enumerate(zip(arrays[0].sizes, other.sizes, strict=True)):
                if i != axis and here != there:
                    raise SizeError(f"sizes {here} and {there} cannot stand one after the other", here, there)
        known = self._known(arrays)
        if known is not None:
            return self.held(FOLDING.concatenate(known, axis))
        total = sum((a.sizes[axis] for a in arrays[1:]), start=arrays[0].sizes[axis])
        sizes = (*arrays[0].sizes[:axis], total, *arrays[0].sizes[axis + 1 :])
        operands = self._operands("add", arrays)
        return self.graph.node("Concat", operands, operands[0].type, sizes, axis=axis)

    def last(self, a: Value, count: Dimension, axis: int) -> Value:
        """The last entries along an axis."""
        size = a.sizes[axis]
        if count == size:
            return a
        if a.known is not None and isinstance(count, int):
            return self.held(FOLDING.last(a.known, count, axis))
        sizes = (*a.sizes[:axis], count, *a.sizes[axis + 1 :])
        if not _counts(size - count):
            # Fewer than asked for, as in some mistakes: indices go round, as in NumPy; a slice's do not.
            backwards = self.elementwise("add", self.iota(count), self.constant(size - count))
            return self.take(a, backwards, axis)
        start = self.lengths.shape((size - count,))
        ends, axes = self.graph.integers(END), self.graph.integers(axis)
        return self.graph.node("Slice", [a, start, ends, axes], a.type, sizes)

    def iota(self, size: Dimension) -> Value:
        """0, 1, …, size - 1."""
        if isinstance(size, int):
            return self.held(FOLDING.iota(size))
        bounds = [self.constant(0), self.lengths.value(size), self.constant(1)]
        return self.graph.node("Range", bounds, "int64", (size,))


def _counts(size: Dimension) -> bool:
    """Whether a size is sure not to be negative."""
    return size >= 0 if isinstance(size, int) else all(coefficient > 0 for _, coefficient in size.terms)


def _inserted(old: tuple[Dimension, ...], new: tuple[Dimension, ...]) -> tuple[int, ...] | None:
    """Where axes of size 1 were put in, if that is all."""
    places, i = [], 0
    for j, size in enumerate(new):
        if i < len(old) and old[i] == size:
            i += 1
        elif size == 1:
            places.append(j)
        else:
            return None
    return tuple(places) if i == len(old) else None


def _broadcast(shapes: Sequence[tuple[Dimension, ...]]) -> tuple[Dimension, ...]:
    """The sizes of an elementwise result; the operands fit."""
    rank = max(len(sizes) for sizes in shapes)
    result: list[Dimension] = [1] * rank
    for sizes in shapes:
        for i, size in enumerate(sizes, rank - len(sizes)):
            if size != 1:
                result[i] = size
    return tuple(result)
