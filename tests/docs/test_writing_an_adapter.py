"""The guide to writing an adapter does what it says."""

import re

import pytest
from click.testing import CliRunner
from guide import ROOT, blocks, follow

from conformance.cli import main
from conformance.cli.options import open_pack
from conformance.plan.items import entry_point

GUIDE = blocks("writing-an-adapter.md")


def test_every_file_is_graded_with_the_result_that_is_printed(tmp_path):
    pytest.importorskip("torch")
    ran = list(follow(GUIDE, tmp_path))
    files = {block.first.removeprefix("# ") for block in GUIDE if block.language == "python"}
    graded = {word for command in ran for word in command.split() if word.endswith(".py")}
    assert files - graded == {"their_model.py"}  # which adapter.py calls


def test_every_tap_is_named():
    text = (ROOT / "docs/writing-an-adapter.md").read_text(encoding="utf-8")
    (names,) = [line for line in text.splitlines() if line.startswith("The names for `tap`: ")]
    named = set(names.partition("`: `")[2].partition("`;")[0].split())
    offered = {name for name, tensor in open_pack(None).program.tensors.items() if tensor.offered}
    assert named == offered - {"c"}  # of a decoder that reads an encoder


@pytest.mark.parametrize("framework", ["numpy", "torch", "onnx"])
def test_every_operation_is_in_the_skeleton(framework, tmp_path):
    skeleton = tmp_path / "mine.py"
    written = CliRunner().invoke(main, ["new", str(skeleton), "--framework", framework])
    assert written.exit_code == 0, written.output
    text = skeleton.read_text(encoding="utf-8")
    missing = {entry_point(operation) for operation in open_pack(None).operations.values()} - set(
        re.findall(r"(?:def|class) (\w+)", text)
    )
    assert not missing
