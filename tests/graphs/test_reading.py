"""An untrusted file: what is no model, what leads out of its folder, what would never end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from conformance.cli import main
from conformance.onnx import wire
from conformance.onnx.reading import Unreadable, read_model
from graphs.handmade import Plan, build, draw, save


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(build(Plan()), tmp_path / "model.onnx")


def with_external(path: Path, location: str, length: int = 8) -> Path:
    """A small model whose weight is said to stand in `location`."""
    tensor = TensorProto(name="w", dims=[2], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [tensor])
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()
    )
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"import numpy as np\n" * 20, "is text, not an ONNX model"),
        (b"PK\x03\x04" + b"0" * 100, "a zip archive"),
        (b"\x80\x02ccollections", "a pickle"),
        (b'{"a": 1}', "is JSON"),
        (bytes(range(200, 256)) * 30, "not a whole ONNX model"),
    ],
)
def test_what_is_no_model_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    result = CliRunner().invoke(main, ["inspect", str(path)])
    assert result.exit_code == 3
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_model_is_no_model(model: Path, part: float) -> None:
    content = model.read_bytes()
    model.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(Unreadable, match="not a whole ONNX model"):
        read_model(model)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "no.onnx", "does not exist"), (tmp_path, "is a folder")):
        result = CliRunner().invoke(main, ["inspect", str(path)])
        assert result.exit_code == 3
        assert message in result.output


def test_an_opset_from_another_time_is_refused(tmp_path: Path) -> None:
    for version in (6, 99):
        changed = build(Plan())
        changed.opset_import[0].version = version
        path = save(changed, tmp_path / "model.onnx")
        with pytest.raises(Unreadable, match=f"uses opset {version}; this version reads"):
            read_model(path)


def test_data_outside_of_the_folder_is_refused_before_it_is_read(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    secret = tmp_path / "secret"
    secret.write_bytes(b"12345678")
    secret.chmod(0)  # whoever opens it, fails
    for location in ("../secret", str(secret), "a/../../secret"):
        with pytest.raises(Unreadable, match="outside of the model's folder; nothing was read"):
            read_model(with_external(inside / "model.onnx", location))
    (inside / "link").symlink_to(secret)
    with pytest.raises(Unreadable, match="is a symbolic link; nothing was read"):
        read_model(with_external(inside / "model.onnx", "link"))
    (inside / "folder").symlink_to(tmp_path)
    with pytest.raises(Unreadable, match="is a symbolic link; nothing was read"):
        read_model(with_external(inside / "model.onnx", "folder/secret"))
    os.link(secret, inside / "hard")
    with pytest.raises(Unreadable, match="is a hard link"):
        read_model(with_external(inside / "model.onnx", "hard"))


def test_missing_and_short_data_are_told_apart(tmp_path: Path) -> None:
    path = with_external(tmp_path / "model.onnx", "weights.bin")
    with pytest.raises(Unreadable, match=r"'weights.bin' is missing"):
        read_model(path)
    (tmp_path / "weights.bin").write_bytes(b"1234")
    with pytest.raises(Unreadable, match=r"should end at byte 8 of weights.bin, which has 4"):
        read_model(path)
    (tmp_path / "weights.bin").write_bytes(b"12345678")
    assert len(read_model(path).graph) == 1


def nested(depth: int, fan: int = 2) -> onnx.ModelProto:
    """Functions that call the next one `fan` times each."""
    functions = []
    for i in range(depth):
        nodes = []
        before = "a"
        for j in range(fan):
            kind, domain = ("Neg", "") if i == depth - 1 else (f"F{i + 1}", "local")
            nodes.append(helper.make_node(kind, [before], [f"b{j}"], domain=domain))
            before = f"b{j}"
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
        functions.append(helper.make_function("local", f"F{i}", ["a"], [before], nodes, opsets))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("F0", ["x"], ["y"], domain="local")], "g", [x], [y])
    return helper.make_model(
        graph,
        functions=functions,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("local", 1)],
    )


def test_functions_are_counted_before_they_are_unfolded(tmp_path: Path) -> None:
    path = save(nested(3), tmp_path / "model.onnx")
    assert len(read_model(path).graph) == 8
    path = save(nested(16), tmp_path / "model.onnx")
    begun = time.monotonic()
    with pytest.raises(Unreadable, match="call each other more than 8 deep"):
        read_model(path)
    path = save(nested(7, 12), tmp_path / "model.onnx")
    with pytest.raises(Unreadable, match="unfold to 35831808 nodes"):
        read_model(path)
    assert time.monotonic() - begun < 60  # unfolded, they would take minutes and gigabytes
    looped = nested(2)
    looped.functions[1].node[0].op_type, looped.functions[1].node[0].domain = "F0", "local"
    path = save(looped, tmp_path / "model.onnx")
    with pytest.raises(Unreadable, match="calls itself"):
        read_model(path)


def test_weights_stay_where_they_are(tmp_path: Path) -> None:
    plan = Plan(vocab=4000, layers=1)
    params = draw(plan)
    path = save(build(plan, params), tmp_path / "model.onnx")
    content = path.read_bytes()
    stripped = wire.without_weights(memoryview(content), path.name)
    assert len(content) > 700_000
    assert len(stripped) < 30_000
    graph = read_model(path).graph
    assert (graph.initializers["embed"].const_value.numpy() == params["embed"]).all()
    small = graph.initializers["layers.0.norm1.weight"].const_value
    assert (small.numpy() == params["layers.0.norm1.weight"]).all()
    whole = onnx.ModelProto.FromString(stripped)
    assert len(whole.graph.node) == len(onnx.ModelProto.FromString(content).graph.node)
    assert numpy_helper.to_array(whole.graph.initializer[0]).size > 0


def test_nothing_of_a_deeply_nested_message_is_parsed(tmp_path: Path) -> None:
    inner = b""
    for _ in range(60):  # a graph in a node's attribute, again and again
        attribute = b"\x32" + wire._varint_bytes(len(inner)) + inner
        node = b"\x2a" + wire._varint_bytes(len(attribute)) + attribute
        inner = b"\x0a" + wire._varint_bytes(len(node)) + node
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x0a\x3a" + wire._varint_bytes(len(inner)) + inner)
    with pytest.raises(Unreadable, match="nested more than 40 deep"):
        read_model(path)


def test_sparse_weights_are_refused_before_anybody_opens_them(model: Path) -> None:
    """The reader of graphs does not see them, so that their data could be anywhere."""
    changed = build(Plan())
    values = TensorProto(name="s", dims=[2], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    values.external_data.add(key="location", value="/etc/hostname")
    indices = numpy_helper.from_array(np.array([0, 1]), "i")
    changed.graph.sparse_initializer.append(onnx.SparseTensorProto(values=values, indices=indices, dims=[4]))
    with pytest.raises(Unreadable, match="has sparse weights, which are not read"):
        read_model(save(changed, model))
    changed = build(Plan())
    changed.graph.node[3].attribute.add(
        name="a", type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=onnx.SparseTensorProto(dims=[4])
    )
    with pytest.raises(Unreadable, match="has sparse weights, which are not read"):
        read_model(save(changed, model))


def test_nodes_and_tensors_are_what_they_say(model: Path) -> None:
    changed = build(Plan())
    node = next(n for n in changed.graph.node if n.op_type == "MatMul")
    del node.input[1:]
    with pytest.raises(Unreadable, match=f"its node '{node.name}' .MatMul. has 1 inputs; MatMul takes 2"):
        read_model(save(changed, model))
    changed = build(Plan())
    weight = next(w for w in changed.graph.initializer if w.name == "embed")
    weight.dims[0] += 1
    with pytest.raises(Unreadable, match="its tensor 'embed' does not hold as many numbers as its shape"):
        read_model(save(changed, model))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[:3000]), "model.onnx is not a whole ONNX model"),
        (lambda p: p.write_bytes(b"PK\x03\x04" + b"0" * 100), "model.onnx is a zip archive"),
        (lambda p: with_external(p, "weights.bin"), "its data file 'weights.bin' is missing"),
        (lambda p: with_external(p, "../weights.bin"), "outside of the model's folder; nothing was read"),
        (lambda p: save(nested(16), p), "call each other more than 8 deep"),
    ],
    ids=["truncated", "zip", "missing data", "data outside", "nested functions"],
)
def test_run_refuses_in_one_message(spoil: Callable[[Path], object], said: str, model: Path) -> None:
    spoil(model)
    result = CliRunner().invoke(main, ["run", str(model), "-o", str(model.parent / "report")])
    assert result.exit_code == 3
    assert said in result.output
    assert "Traceback" not in result.output


def test_several_inputs_could_be_the_tokens(model: Path) -> None:
    changed = build(Plan(padded=False))
    changed.graph.input[0].name = "left"
    for node in changed.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = "left" if name == "input_ids" else name
    changed.graph.input.append(helper.make_tensor_value_info("right", TensorProto.INT64, ["batch", "seq"]))
    result = CliRunner().invoke(main, ["run", str(save(changed, model)), "-o", str(model.parent / "report")])
    assert result.exit_code == 3
    assert "several inputs could be the tokens: left, right" in result.output
    assert "write `tokens: NAME` into a file and pass it with --map" in result.output


def test_nothing_is_written_at_home(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    result = CliRunner().invoke(
        main, ["run", str(model), "--select", "q005.logits", "-o", str(tmp_path / "report")]
    )
    assert result.exit_code == 0, result.output
    assert list(home.iterdir()) == []
