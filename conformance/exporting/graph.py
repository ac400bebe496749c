"""An ONNX graph under construction: values, nodes, constants, and what becomes of them in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from conformance.language.arithmetic import Array, to_bfloat16
from conformance.language.sizes import Dimension, Size

if TYPE_CHECKING:
    import onnx

Type = Literal["bool", "int64", "float64", "float32", "float16", "bfloat16"]
REAL: tuple[Type, ...] = ("float16", "bfloat16", "float32", "float64")
"""Real types, each wider than those before it."""
FORMAT_OF_OPSET = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12}
"""The opsets that are written, each with the version of the file format that it came with."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor in the graph: its name, what it holds, its sizes.

    One that is known beforehand has its numbers in `known`, in float64, int64 or bool, and is written
    into the graph only where a node reads it; it has no name.
    """

    name: str
    type: Type
    sizes: tuple[Dimension, ...] = ()
    known: Array | None = None

    @property
    def real(self) -> bool:
        """Whether it holds real numbers."""
        return self.type in REAL


@dataclass(frozen=True)
class Node:
    """One operator on names of values."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any]
    place: str


@dataclass
class Graph:
    """Nodes in order. The same operator on the same values is one node, whoever asks for it.

    `place` is where in the program what comes next belongs; nodes are called after it.
    """

    opset: int
    nodes: list[Node] = field(default_factory=list)
    initializers: dict[str, tuple[Array, Type]] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    place: str = ""
    made: dict[Any, Value] = field(default_factory=dict)
    constants: dict[Any, str] = field(default_factory=dict)
    makers: dict[str, tuple[Node, tuple[Value, ...]]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    """How values are called in the end, by the names that they have here."""

    def input(self, name: str, kind: Type, sizes: Sequence[Dimension]) -> Value:
        """A value that comes from outside."""
        value = Value(name, kind, tuple(sizes))
        self.inputs.append(value)
        return value

    def weight(self, name: str, array: Array, kind: Type) -> Value:
        """A trained tensor; `array` is float64 and is rounded to `kind`."""
        self.initializers[name] = (array, kind)
        self.weights.add(name)
        return Value(name, kind, array.shape)

    def node(
        self,
        operator: str,
        inputs: Sequence[Value],
        kind: Type,
        sizes: Sequence[Dimension],
        **attributes: Any,
    ) -> Value:
        """The output of an operator; ints stand for themselves in `attributes`."""
        names = tuple(self.name(value) for value in inputs)
        key = (operator, names, repr(sorted(attributes.items())))
        if key not in self.made:
            output = f"value_{len(self.made)}"
            node = Node(operator, names, output, attributes, self.place)
            self.nodes.append(node)
            self.makers[output] = node, tuple(inputs)
            self.made[key] = Value(output, kind, tuple(sizes))
        return self.made[key]

    def name(self, value: Value) -> str:
        """The name by which a node reads a value; what is known is written down as a constant."""
        if value.known is None:
            return value.name
        array = np.ascontiguousarray(value.known)
        key = (value.type, value.known.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = f"constant_{len(self.constants)}"
            self.initializers[self.constants[key]] = (array.reshape(value.known.shape), value.type)
        return self.constants[key]

    def integers(self, *numbers: int) -> Value:
        """A constant list of whole numbers, as operators take axes and shapes."""
        return Value("", "int64", (len(numbers),), np.asarray(numbers, np.int64))

    def title(self, value: Value, title: str) -> None:
        """Call a value by the name that it has outside, unless it has one."""
        taken = title in self.initializers or title in self.titles.values()
        if value.name in self.makers and value.name not in self.titles and not taken:
            self.titles[value.name] = title

    def output(self, value: Value, name: str) -> None:
        """Give a value out under a name."""
        if value.name not in self.makers or any(value.name == given.name for given in self.outputs):
            # What comes from outside, or goes out already, has another name.
            output = f"value_{len(self.made)}"
            copy = Value(output, value.type, value.sizes)
            self.made[output] = copy
            node = Node("Identity", (self.name(value),), output, {}, name)
            self.nodes.append(node)
            self.makers[output] = node, (value,)
            value = copy
        # A tensor inside may have that name in the program: outside it is the output's.
        self.titles = {inner: title for inner, title in self.titles.items() if title != name}
        self.titles[value.name] = name
        self.outputs.append(value)

    # -- the file --------------------------------------------------------------------------------

    def needed(self) -> list[Node]:
        """The nodes that some output depends on."""
        wanted = {value.name for value in self.outputs}
        kept = []
        for node in reversed(self.nodes):
            if node.output in wanted:
                kept.append(node)
                wanted.update(node.inputs)
        return kept[::-1]

    def model(self, name: str, metadata: Mapping[str, str]) -> onnx.ModelProto:
        """The finished model, without what no output depends on; inputs that nothing reads stay out.

        Weights stay, read or not: the file says that it has them.
        """
        from onnx import helper, numpy_helper

        from conformance import __version__

        nodes = self.needed()
        read = {name for node in nodes for name in node.inputs}
        sizes = {value.name: value for value in self.made.values()}
        information = [
            self._information(sizes[inner], title)
            for inner, title in self.titles.items()
            if inner in {node.output for node in nodes} and inner not in {v.name for v in self.outputs}
        ]
        counted: dict[str, int] = {}
        protos = []
        for node in nodes:
            called = f"{node.place or 'graph'}/{node.operator}"
            counted[called] = counted.get(called, 0) + 1
            if counted[called] > 1:
                called += f"_{counted[called]}"
            protos.append(
                helper.make_node(
                    node.operator,
                    [self.titles.get(n, n) for n in node.inputs],
                    [self.titles.get(node.output, node.output)],
                    name=called,
                    **node.attributes,
                )
            )
        graph = helper.make_graph(
            protos,
            name,
            [self._information(value, value.name) for value in self.inputs if value.name in read],
            [self._information(value, self.titles[value.name]) for value in self.outputs],
            [
                numpy_helper.from_array(_stored(array, kind), called)
                for called, (array, kind) in self.initializers.items()
                if called in read or called in self.weights
            ],
            value_info=information,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=FORMAT_OF_OPSET[self.opset],
            producer_name="conformance",
            producer_version=__version__,
        )
        helper.set_model_props(model, dict(metadata))
        return model

    @staticmethod
    def _information(value: Value, name: str) -> onnx.ValueInfoProto:
        from onnx import TensorProto, helper

        codes = {"bool": TensorProto.BOOL, "int64": TensorProto.INT64, "float64": TensorProto.DOUBLE}
        code = codes.get(value.type) or {
            "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
        }[value.type]  # fmt: skip
        shape = [str(size) if isinstance(size, Size) else size for size in value.sizes]
        return helper.make_tensor_value_info(name, code, shape)


def _stored(array: Array, kind: Type) -> Any:
    """Numbers as a file keeps them."""
    if kind == "bfloat16":
        import ml_dtypes

        return to_bfloat16(array.astype(np.float32)).astype(ml_dtypes.bfloat16)
    with np.errstate(over="ignore"):
        return array.astype(np.dtype(kind))
