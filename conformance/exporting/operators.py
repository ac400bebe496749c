"""Functions of the program that are one operator of ONNX."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.exporting.graph import Value as Emitted
from conformance.exporting.reading import EmittingScope, Operator
from conformance.language.names import Value
from conformance.language.tensors import Named


def operators_of(opset: int) -> dict[str, Operator]:
    """The operators that an opset has, by the function that each computes.

    Softmax is one in every opset, as every exporter writes it.
    """
    del opset
    return {"softmax": _softmax}


def _softmax(scope: EmittingScope, inputs: Mapping[str, Value]) -> Named[Emitted] | None:
    """`Softmax` along the axis that the call has bound."""
    x = inputs.get("x")
    if not isinstance(x, Named) or "over" not in x.axes or x.array.known is not None:
        return None
    axis = x.axes.index("over")
    # Counted from the end, where attention has it.
    made = scope.emission.graph.node(
        "Softmax", [x.array], x.array.type, x.array.sizes, axis=axis - len(x.axes)
    )
    return Named(x.axes, made)
