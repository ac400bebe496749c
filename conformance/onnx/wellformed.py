"""Whether nodes and tensors are what they say: enough inputs, as many bytes as their shape needs.

Whoever reads a graph afterwards may take both for granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

NEEDED: Mapping[str, int] = {
    "Attention": 2, "MultiHeadAttention": 1, "GroupQueryAttention": 7, "SkipLayerNormalization": 3,
    "SkipSimplifiedLayerNormalization": 3, "FusedMatMul": 2, "BiasGelu": 2, "FastGelu": 1, "QuickGelu": 1,
    "EmbedLayerNormalization": 7, "RotaryEmbedding": 4, "MatMulNBits": 3, "SimplifiedLayerNormalization": 2,
}  # fmt: skip
"""Inputs that operators of onnxruntime need, which have no schema here."""


def fault_of_node(node: ir.Node, opset: int) -> str:
    """What a node lacks, '' for nothing. An operator that nobody knows lacks nothing."""
    called = f"its node '{node.name or '?'}' ({node.op_type})"
    if not node.outputs:
        return f"{called} has no outputs"
    least = NEEDED.get(node.op_type, 0) if node.domain == "com.microsoft" else _least(node.op_type, opset)
    if len(node.inputs) < least:
        return f"{called} has {len(node.inputs)} inputs; {node.op_type} takes {least} at least"
    return ""


def _least(op_type: str, opset: int) -> int:
    import onnx

    try:
        return int(onnx.defs.get_schema(op_type, opset, "").min_input)
    except onnx.defs.SchemaError:
        return NEEDED.get(op_type, 0)


def fault_of_tensor(tensor: ir.TensorProtocol) -> str:
    """What is the matter with a tensor, '' for nothing. Large ones are not opened."""
    import onnx_ir as ir

    shape = [int(size) for size in tensor.shape.numpy()]
    if any(size < 0 for size in shape):
        return f"its tensor '{tensor.name}' has shape {shape}"
    if isinstance(tensor, ir.ExternalTensor):
        if tensor.length is not None and tensor.length != tensor.nbytes:
            return f"its tensor '{tensor.name}' has shape {shape}, and {tensor.length} bytes instead of {tensor.nbytes}"
        return ""
    try:
        tensor.numpy()
    except (ValueError, TypeError, OverflowError, MemoryError):
        return f"its tensor '{tensor.name}' does not hold as many numbers as its shape {shape} says"
    return ""


def sparse(model: onnx.ModelProto) -> str:
    """What a model has of sparse tensors and of training, '' for nothing.

    The reader behind does not see them; a runtime does, with data from wherever they say.
    """
    if model.training_info:
        return "graphs for training"
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            if graph.sparse_initializer:
                return "sparse weights"
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                return "sparse weights"
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            graphs += attribute.graphs
    return ""
