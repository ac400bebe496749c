"""From an untrusted file to a graph, or to one sentence that says why not.

Nothing outside the model's own folder is opened, weights are not loaded, functions are counted
before they are unfolded. Meant for a process with limits; see `child`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.onnx import wire
from conformance.onnx.wellformed import fault_of_node, fault_of_tensor, sparse

if TYPE_CHECKING:
    import onnx_ir as ir

MOST_NODES = 1_000_000
"""Nodes after all functions are unfolded; a model of 126 layers has some ten thousand."""
DEEPEST_CALLS = 8
"""Functions that call functions; exporters nest two or three."""
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
OUTER = "conformance.outer"
"""In a model's `meta`: names of values that stand in the graph itself, and can be asked for when it runs."""
LARGE = 16 << 20
"""Bytes of a file that is not read as a whole."""
OLDEST_OPSET, NEWEST_OPSET = 11, 26


class Unreadable(Exception):
    """The file cannot be read as a model; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        """What was found, and what to do."""
        super().__init__(message)
        self.message = message
        self.hint = hint


def read_model(path: Path) -> ir.Model:
    """The model in `path`, functions unfolded, its weights left where they are.

    Raises `Unreadable`.
    """
    model = _parsed(path)
    _check_opsets(model)
    _check_external(model, path)
    _check_form(model)
    model.meta[OUTER] = frozenset(v.name for node in model.graph for v in node.outputs)
    if model.functions:
        _count_calls(model)
        from onnx_ir.passes.common import InlinePass

        InlinePass()(model)
    return model


def _parsed(path: Path) -> ir.Model:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be opened: {error.strerror}", "check the path") from None
    if size == 0:
        raise Unreadable(f"{path.name} is empty", "export the model again")
    with path.open("rb") as file:
        data: wire.Bytes = wire.Window(file, size) if size > LARGE else memoryview(file.read())
        _check_kind(path, data)
        try:
            text = wire.without_weights(data, path.name)
        except wire.Malformed as error:
            raise Unreadable(
                f"{path.name} is not a whole ONNX model: {error}",
                "it may have been cut off while it was copied: compare its size with the original's",
            ) from None
    import onnx
    import onnx_ir as ir
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # it has none

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(text)
        if not proto.graph.node:
            raise Unreadable(f"{path.name} has no graph", "give a model file (.onnx), not its data file")
        hidden = sparse(proto)
        if hidden:
            raise Unreadable(
                f"{path.name} has {hidden}, which are not read", "export it with weights that are dense"
            )
        # Every weight is external now; the folder is where relative locations begin.
        model = ir.from_proto(proto)
    except Unreadable:
        raise
    except (DecodeError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise Unreadable(
            f"{path.name} is not an ONNX model: {reason[0][:200]}", "give a file written by an ONNX exporter"
        ) from None
    for tensor in _tensors(model):
        if isinstance(tensor, ir.ExternalTensor):
            tensor.base_dir = str(path.parent.resolve())
    return model


def _check_kind(path: Path, data: wire.Bytes) -> None:
    """Refuse what is plainly another kind of file; a model begins with its format's version."""
    start = bytes(data[:8])
    known = {
        b"PK": "a zip archive (a PyTorch checkpoint is one)",
        b"\x80": "a pickle",
        b"{": "JSON",
        b"<": "text",
    }
    for prefix, what in known.items():
        if start.startswith(prefix):
            raise Unreadable(
                f"{path.name} is {what}, not an ONNX model", "give a file written by an exporter"
            )
    if start.isascii() and bytes(data[:64]).isascii() and b"\x08" not in start[:1]:
        raise Unreadable(f"{path.name} is text, not an ONNX model", "give a file written by an ONNX exporter")


def _check_opsets(model: ir.Model) -> None:
    version = model.opset_imports.get("", model.opset_imports.get("ai.onnx"))
    if version is None:
        raise Unreadable("the model names no opset of ai.onnx", "export it again")
    if not OLDEST_OPSET <= version <= NEWEST_OPSET:
        raise Unreadable(
            f"the model uses opset {version}; this version reads {OLDEST_OPSET} to {NEWEST_OPSET}",
            "convert it with onnx.version_converter, or export it with opset_version=20",
        )


def foreign_domains(model: ir.Model) -> list[str]:
    """Operator sets that are neither ONNX's nor onnxruntime's own, and no function of the file."""
    own = {key[0] for key in model.functions}
    used = {node.domain for node in model.graph.all_nodes()}
    return sorted(used - set(DOMAINS) - own)


def _tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    import onnx_ir as ir

    graphs = [model.graph, *(function.graph for function in model.functions.values())]
    for graph in graphs:
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value.const_value
        for node in graph.all_nodes():
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.TENSOR:
                    yield attribute.as_tensor()
                elif attribute.type == ir.AttributeType.TENSORS:
                    yield from attribute.as_tensors()
                elif attribute.type == ir.AttributeType.GRAPH:
                    inner = attribute.as_graph().initializers.values()
                    yield from (v.const_value for v in inner if v.const_value is not None)


def _check_external(model: ir.Model, path: Path) -> None:
    """Refuse data outside the model's folder, before anything opens it.

    A name that leads out of the folder (`..`, an absolute path, a symbolic link) and a file that
    has another name elsewhere (a hard link) are all the same to who wrote the model.
    """
    import onnx_ir as ir

    folder = path.parent.resolve()
    checked: dict[str, int] = {}
    for tensor in _tensors(model):
        if not isinstance(tensor, ir.ExternalTensor):
            continue
        location = str(tensor.location)
        if location not in checked:
            checked[location] = vetted(folder, location, path)
        end = (tensor.offset or 0) + (tensor.length or 0)
        if end > checked[location] or (tensor.offset or 0) < 0:
            raise Unreadable(
                f"'{tensor.name}' should end at byte {end} of {location}, which has {checked[location]}",
                "the data file is of another model, or was cut off",
            )


def vetted(folder: Path, location: str, model: Path) -> int:
    """The size of an external file that may be read. Raises `Unreadable`."""
    parts = Path(location).parts
    if Path(location).is_absolute() or ".." in parts or "\\" in location or not parts or "\0" in location:
        raise Unreadable(
            f"its data is at '{location[:200]}', outside of the model's folder; nothing was read",
            "put the data file beside the model and correct its location",
        )
    file = folder / location
    at = folder
    for part in parts:
        at = at / part
        if at.is_symlink() and at.resolve() != model.resolve():
            raise Unreadable(
                f"its data file '{location}' is a symbolic link; nothing was read",
                "put the file itself beside the model",
            )
    try:
        status = file.stat()
    except OSError:
        raise Unreadable(
            f"its data file '{location}' is missing", f"put it into {folder}, beside {model.name}"
        ) from None
    if not file.is_file():
        raise Unreadable(f"its data '{location}' is no file", "export the model again")
    if status.st_nlink > 1 and not file.samefile(model):
        raise Unreadable(
            f"its data file '{location}' is a hard link to a file that has another name; nothing was read",
            "copy the file, so that the model has one of its own",
        )
    return status.st_size


def _check_form(model: ir.Model) -> None:
    """Refuse nodes without their inputs and tensors of another size than they say."""
    opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx", NEWEST_OPSET))
    own = {(key[0], key[1]) for key in model.functions}
    graphs = [model.graph, *(function.graph for function in model.functions.values())]
    faults = (
        fault_of_node(n, opset) for g in graphs for n in g.all_nodes() if (n.domain, n.op_type) not in own
    )
    fault = next(filter(None, faults), "") or next(filter(None, map(fault_of_tensor, _tensors(model))), "")
    if fault:
        raise Unreadable(fault, "the file was cut or edited: export it again, or ask onnx.checker about it")


def _count_calls(model: ir.Model) -> None:
    """How many nodes there are once functions are unfolded; refuses what would never end."""
    sizes: dict[tuple[str, str, str], tuple[int, int]] = {}
    for key in model.functions:
        _size_of(model, key, sizes, ())
    total = 0
    for node in model.graph.all_nodes():
        called = node.op_identifier()
        total += sizes[called][0] if called in sizes else 1
    if total > MOST_NODES:
        raise Unreadable(
            f"its functions unfold to {total} nodes; at most {MOST_NODES} are read",
            "unfold the functions before (onnx.inliner.inline_local_functions)",
        )


def _size_of(
    model: ir.Model,
    key: tuple[str, str, str],
    sizes: dict[tuple[str, str, str], tuple[int, int]],
    above: tuple[tuple[str, str, str], ...],
) -> tuple[int, int]:
    """Nodes and depth of a function, unfolded."""
    if key in sizes:
        return sizes[key]
    if key in above:
        raise Unreadable(f"its function '{key[1]}' calls itself", "ONNX has no recursion; export it again")
    nodes, depth = 0, 1
    for node in model.functions[key].graph.all_nodes():
        called = node.op_identifier()
        if called in model.functions:
            inner = _size_of(model, called, sizes, (*above, key))
            nodes, depth = nodes + inner[0], max(depth, inner[1] + 1)
        else:
            nodes += 1
        if len(above) + depth > DEEPEST_CALLS:
            raise Unreadable(
                f"its functions call each other more than {DEEPEST_CALLS} deep",
                "unfold the functions before (onnx.inliner.inline_local_functions)",
            )
    sizes[key] = (nodes, depth)
    return sizes[key]
