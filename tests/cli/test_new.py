"""`conformance new`: skeletons that run as they are."""

from pathlib import Path

import pytest
from cli_helpers import conformance, end, flat, verdicts


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


FRAMEWORKS = {"numpy": "numpy", "torch": "torch", "onnx": "onnxruntime"}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_skeleton_runs_as_it_is(framework):
    pytest.importorskip(FRAMEWORKS[framework])
    made = conformance("new", "mine.py", "--framework", framework)
    assert (made.exit_code, made.stderr) == (0, "")
    assert made.stdout == "mine.py is written; grade it with: conformance run mine.py\n"
    result = conformance("run", "mine.py")
    assert (result.exit_code, result.stderr) == (0, "")
    assert flat(result.stdout).startswith("conforms in all it offers: ")
    found = verdicts(Path("conformance-report"))
    assert {line["verdict"] for line in found} == {"pass", "unsupported"}
    graded = {line["claim"] for line in found if line["verdict"] == "pass"}
    assert "q007.softmax" in graded
    assert end(Path("conformance-report"))["first_broken"] is None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_skeleton_has_every_function_of_the_pack(framework):
    from conformance.cli.options import open_pack
    from conformance.plan.items import entry_point

    conformance("new", "mine.py", "--framework", framework)
    text = Path("mine.py").read_text(encoding="utf-8")
    for operation in open_pack(None).operations.values():
        keyword = "class" if operation.model else "def"
        assert f"{keyword} {entry_point(operation)}" in text


def test_the_file_names_itself():
    conformance("new", "some name.py")
    assert "conformance run some name.py" in Path("some name.py").read_text(encoding="utf-8")


def test_a_file_that_is_there_stays():
    Path("mine.py").write_text("mine")
    result = conformance("new", "mine.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "usage: mine.py exists already; pass --force to write over it\n"
    assert Path("mine.py").read_text() == "mine"
    assert conformance("new", "mine.py", "--force").exit_code == 0
    assert Path("mine.py").read_text() != "mine"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["mine.txt"], "usage: mine.txt should end with .py, since `conformance run` takes it as an adapter file\n"),
        (["mine.onnx", "--framework", "onnx"], "usage: mine.onnx should end with .py, since `conformance run` takes it as an adapter file; a graph is written by `conformance export program -o model.onnx`\n"),
        (["nowhere/mine.py"], "usage: nowhere/mine.py cannot be written: No such file or directory\n"),
    ],
)  # fmt: skip
def test_places_that_are_none(args, message):
    result = conformance("new", *args)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_a_framework_that_is_none():
    result = conformance("new", "mine.py", "--framework", "jax")
    assert result.exit_code == 2
    assert "'jax' is not one of 'numpy', 'torch', 'onnx'" in result.stderr
    assert not Path("mine.py").exists()
