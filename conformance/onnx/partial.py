"""Everything in a graph that depends on neither tokens nor weights, at chosen sizes.

Masks, positions, rotation tables, scales and shapes are made of sizes, positions and constants
only. They are computed here in NumPy; of all else the shape is kept. So a mask is known by what it
hides, not by how its exporter wrote it, and a size that is built in shows as operands that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.onnx.fused import COMPLAINTS, SHAPES
from conformance.onnx.layouts import KNOWN_FROM_SHAPE, LAYOUTS, SIZES
from conformance.onnx.operators import DTYPES, ELEMENTWISE, REDUCTIONS, Array, Attributes, Operator

if TYPE_CHECKING:
    import onnx_ir as ir

SMALL = 16 << 10
"""Elements of a float constant that is looked at; larger ones are weights."""
MASK = 1 << 22
"""Elements of an integer or boolean constant that is looked at: the mask of 2048 tokens is one."""
LARGEST = 1 << 24
"""Elements of a result that is computed; nothing that is looked for is larger."""


@dataclass(frozen=True)
class Seen:
    """A value: its numbers where they are known, else zeros that have its shape and nothing behind them."""

    array: Array
    known: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, which is always known."""
        return self.array.shape


@dataclass(frozen=True)
class Misfit:
    """A node whose operands do not fit at the chosen sizes."""

    node: ir.Node
    message: str


@dataclass
class Partial:
    """What is known of each value of a graph; None where nothing is."""

    seen: dict[ir.Value, Seen | None] = field(default_factory=dict)
    misfits: list[Misfit] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)
    """Operators that are not read, and how often they occur."""

    def of(self, value: ir.Value | None) -> Seen | None:
        """What is known of a value."""
        return None if value is None else self.seen.get(value)

    def shape(self, value: ir.Value | None) -> tuple[int, ...] | None:
        """The shape of a value."""
        seen = self.of(value)
        return None if seen is None else seen.shape

    def known(self, value: ir.Value | None) -> Array | None:
        """The numbers of a value."""
        seen = self.of(value)
        return seen.array if seen is not None and seen.known else None

    def number(self, value: ir.Value | None) -> float | None:
        """The number that a value is throughout."""
        array = self.known(value)
        if array is None or array.size == 0:
            return None
        first = array.reshape(-1)[0]
        return float(first) if (array == first).all() else None


def ghost(shape: Sequence[int], dtype: Any = np.float32) -> Seen:
    """A value of which only the shape is known."""
    return Seen(np.broadcast_to(np.zeros((), dtype), tuple(shape)), known=False)


def evaluate(graph: ir.Graph, inputs: Mapping[ir.Value, Seen | None]) -> Partial:
    """All values of a graph for given inputs."""
    result = Partial()
    result.seen.update(inputs)
    for value in graph.initializers.values():
        if value not in result.seen:
            result.seen[value] = constant(value)
    with np.errstate(all="ignore"):
        run(graph, result)
    return result


def run(nodes: Iterable[ir.Node], result: Partial) -> None:
    """Add the outputs of nodes, in order, to what is known."""
    for node in nodes:
        outputs: Sequence[Seen | None]
        try:
            outputs = _node(node, result)
        except (ValueError, IndexError, TypeError) as error:
            outputs = ()
            result.misfits.append(Misfit(node, str(error).splitlines()[0][:200] if str(error) else "?"))
        except NotImplementedError:
            outputs = ()
        except (KeyError, AttributeError, ArithmeticError, MemoryError):
            outputs = ()
            result.missing[node.op_type] = result.missing.get(node.op_type, 0) + 1
        for i, value in enumerate(node.outputs):
            result.seen[value] = outputs[i] if i < len(outputs) else None


def constant(value: ir.Value) -> Seen | None:
    """An initializer: its numbers where they are few, its shape otherwise."""
    import onnx_ir as ir

    tensor = value.const_value
    if tensor is None:
        return None
    return _tensor(tensor, external=isinstance(tensor, ir.ExternalTensor))


def _tensor(tensor: ir.TensorProtocol, *, external: bool) -> Seen | None:
    shape = tuple(int(size) for size in tensor.shape.numpy())
    code = int(tensor.dtype)
    dtype = DTYPES.get(code)
    if dtype is None:
        return None
    size = int(np.prod(shape, dtype=np.int64))
    limit = SMALL if np.dtype(dtype).kind == "f" else MASK
    if size > limit or (external and np.dtype(dtype).kind == "f"):
        return ghost(shape, dtype)
    array = np.asarray(tensor.numpy())
    return Seen(array.astype(dtype) if array.dtype != dtype else array, known=True)


def attributes_of(node: ir.Node) -> dict[str, Any]:
    """The attributes of a node as Python values; tensors as arrays."""
    import onnx_ir as ir

    made: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if tensor.size <= MASK and not isinstance(tensor, ir.ExternalTensor):
                made[name] = tensor.numpy()
        elif attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            made[name] = attribute.value
    return made


def _node(node: ir.Node, result: Partial) -> Sequence[Seen | None]:
    name, domain = node.op_type, node.domain if node.domain != "ai.onnx" else ""
    if name == "Constant":
        return [_constant_node(node)]
    inputs = [result.of(value) for value in node.inputs]
    absent = [value is None for value in node.inputs]
    attributes = attributes_of(node)
    if name == "Split":
        attributes["_outputs"] = len(node.outputs)
    operator = find_operator(domain, name)
    complete = all(seen is not None or gone for seen, gone in zip(inputs, absent, strict=True))
    if operator is not None and complete:
        arrays = [None if seen is None else seen.array for seen in inputs]
        if all(seen is None or seen.known for seen in inputs):
            if _bounded(name, arrays):
                return [Seen(np.asarray(array), known=True) for array in operator(arrays, attributes)]
            raise NotImplementedError(name)
        return _shaped(name, operator, inputs, arrays, attributes)
    shape_of = SHAPES.get((domain, name))
    if shape_of is None:
        if operator is None:
            result.missing[name] = result.missing.get(name, 0) + 1
        return ()
    if not inputs or inputs[0] is None:
        return ()
    if complete and name in ("MatMul", "Gemm") and all(seen is not None and seen.known for seen in inputs):
        product = _product(name, [seen.array for seen in inputs if seen is not None], attributes)
        if product is not None:
            return [Seen(product, known=True)]
    shapes = [None if seen is None else seen.shape for seen in inputs]
    complaint = COMPLAINTS.get((domain, name), _no_complaint)(shapes, attributes)
    if complaint:
        result.misfits.append(Misfit(node, complaint))
    dtype = next((seen.array.dtype for seen in inputs if seen is not None), np.dtype(np.float32))
    return [None if shape is None else ghost(shape, dtype) for shape in shape_of(shapes, attributes)]


def _no_complaint(_shapes: object, _attributes: object) -> str:
    return ""


def find_operator(domain: str, name: str) -> Operator | None:
    """The operator in NumPy, None where it has none here."""
    for table in (ELEMENTWISE, LAYOUTS, SIZES, REDUCTIONS):
        if name in table and domain in ("", "com.microsoft"):
            return table[name]
    return None


def _constant_node(node: ir.Node) -> Seen | None:
    import onnx_ir as ir

    for name, attribute in node.attributes.items():
        if name == "value":
            tensor = attribute.as_tensor()
            return _tensor(tensor, external=isinstance(tensor, ir.ExternalTensor))
        if name in ("value_int", "value_ints"):
            return Seen(np.asarray(attribute.value, np.int64), known=True)
        if name in ("value_float", "value_floats"):
            return Seen(np.asarray(attribute.value, np.float32), known=True)
    return None


def _shaped(
    name: str,
    operator: Operator,
    inputs: Sequence[Seen | None],
    arrays: Sequence[Array | None],
    attributes: Attributes,
) -> Sequence[Seen | None]:
    """The result of an operator some of whose inputs are known by shape only."""
    if name in KNOWN_FROM_SHAPE:
        return [Seen(array, known=True) for array in operator(arrays, attributes)]
    if name in ELEMENTWISE:
        shape = np.broadcast_shapes(*(seen.shape for seen in inputs if seen is not None))
        tiny = [None if seen is None else np.zeros(1, seen.array.dtype) for seen in inputs]
        return [ghost(shape, operator(tiny, attributes)[0].dtype)]
    if name == "Gather" and len(inputs) == 2 and inputs[0] is not None and inputs[1] is not None:
        table, rows = inputs[0].array, inputs[1].shape  # NumPy would copy the table
        axis = int(attributes.get("axis", 0)) % table.ndim
        return [ghost((*table.shape[:axis], *rows, *table.shape[axis + 1 :]), table.dtype)]
    if name in LAYOUTS:
        data = len(inputs) if name == "Concat" else 1
        if name not in ("Gather", "GatherElements", "GatherND", "ScatterND") and any(
            seen is not None and not seen.known for seen in inputs[data:]
        ):
            return ()  # where it goes is not known
        return [ghost(array.shape, array.dtype) for array in operator(arrays, attributes)]
    if name in REDUCTIONS and all(seen is None or seen.known for seen in inputs[1:]):
        return [ghost(array.shape, array.dtype) for array in operator(arrays, attributes)]
    return ()


def _bounded(name: str, arrays: Sequence[Array | None]) -> bool:
    """Whether a result is small enough to be computed."""
    present = [array for array in arrays if array is not None]
    if name in ("Expand", "ConstantOfShape", "Tile"):
        shape = np.asarray(present[-1]).astype(np.float64)
        size = float(np.prod(np.abs(shape))) if shape.size else 1.0
        return size * (present[0].size if name == "Tile" else 1) <= LARGEST
    if name == "Range":
        start, limit, delta = (float(array.reshape(-1)[0]) for array in present[:3])
        return delta != 0 and abs((limit - start) / delta) <= LARGEST
    if name in ELEMENTWISE:
        return float(np.prod(np.broadcast_shapes(*(a.shape for a in present)), dtype=float)) <= LARGEST
    return sum(array.size for array in present) <= LARGEST


def _product(name: str, arrays: Sequence[Array], attributes: Attributes) -> Array | None:
    a, b = arrays[0], arrays[1]
    if a.size * (b.shape[-1] if b.ndim else 1) > LARGEST:
        return None
    if name == "MatMul":
        return np.asarray(np.matmul(a, b))
    a = a.T if attributes.get("transA") else a
    b = b.T if attributes.get("transB") else b
    total = attributes.get("alpha", 1.0) * (a @ b)
    return np.asarray(total + attributes.get("beta", 1.0) * arrays[2] if len(arrays) > 2 else total)
