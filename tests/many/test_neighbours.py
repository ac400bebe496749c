"""Submissions that lie in one folder: what one is called, or holds, changes nothing for the others."""

import pytest
from test_grade import FEW, GOOD, grade, rows

from conformance.many.submissions import Finder

HIDING = ["random.py", "typing.py", "numpy.py", "json.py", "secrets.py"]


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory):
    home = tmp_path_factory.mktemp("neighbours")
    folder = home / "class"
    folder.mkdir()
    for name in HIDING:
        (folder / name).write_text(GOOD, encoding="utf-8")
    imports = (
        "import random, typing, json, secrets\nrandom.seed(0), typing.Any, json.dumps, secrets.randbelow\n"
    )
    (folder / "ann.py").write_text(imports + GOOD, encoding="utf-8")
    # What a course puts beside them is still found.
    (folder / "ben.py").write_text("from course_utils import EPS\n" + GOOD, encoding="utf-8")
    (folder / "course_utils.py").write_text("EPS = 1e-5\n", encoding="utf-8")
    # A folder of one's own comes first, as in Python.
    (folder / "cleo").mkdir()
    (folder / "cleo" / "model.py").write_text("from random import MINE\n" + GOOD, encoding="utf-8")
    (folder / "cleo" / "random.py").write_text("MINE = 1\n", encoding="utf-8")
    (folder / "__MACOSX").mkdir()
    (folder / "__MACOSX" / "._model.py").write_bytes(b"\0\5\x16\7")
    done = grade("class", *FEW, "-o", "out", cwd=home)
    return rows(home / "out"), done


@pytest.mark.parametrize("name", [*HIDING, "ann.py", "ben.py"])
def test_a_neighbours_name_hides_no_library(neighbours, name):
    found, done = neighbours
    assert (done.returncode, done.stderr) == (0, "")
    assert found[name]["outcome"] == "conforms", found[name]["reason"]


def test_ones_own_folder_comes_first(neighbours):
    found, _ = neighbours
    assert found["cleo"]["outcome"] == "conforms", found["cleo"]["reason"]


def test_what_an_archive_of_a_mac_leaves_is_no_submission(neighbours):
    assert "__MACOSX" not in neighbours[0]


def test_a_file_alone_in_its_folder_is_among_no_others(tmp_path):
    for name in ("ann", "ben"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.py").write_text(GOOD)
    apart = Finder(["softmax"]).find([tmp_path / "ann" / "model.py", tmp_path / "ben" / "model.py"])
    assert [s.among for s in apart] == [False, False]
    (tmp_path / "ann" / "other.py").write_text(GOOD)
    beside = Finder(["softmax"]).find([tmp_path / "ann" / "model.py", tmp_path / "ann" / "other.py"])
    assert [s.among for s in beside] == [True, True]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([], "the folder is empty"),
        (["hw.ipynb", "data.zip"], "it holds data.zip, hw.ipynb"),
        (["hw/src/model.py"], "is it hw/src/model.py? name it with --entry"),
        (["model.py.txt"], "it holds model.py.txt"),
    ],
)
def test_a_folder_without_a_file_to_grade_says_what_it_holds(tmp_path, files, says):
    folder = tmp_path / "ann"
    folder.mkdir()
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(GOOD)
    (submission,) = Finder(["softmax"]).within(tmp_path)
    assert submission.problem is not None
    assert says in submission.problem.en
    assert submission.problem.zh


@pytest.mark.parametrize("name", ["hw.ipynb", "hw.zip", "HW.ZIP", "hw.tar.gz"])
def test_who_hands_in_what_cannot_be_graded_has_a_row(tmp_path, name):
    (tmp_path / name).write_bytes(b"PK")
    (tmp_path / "notes.txt").write_text("no submission")
    (tmp_path / "ann.py").write_text(GOOD)
    handed_in = {s.name: s.problem for s in Finder(["softmax"]).find([tmp_path])}
    assert set(handed_in) == {"ann.py", name}
    assert handed_in[name] is not None
    assert "what is graded is a file .py or .onnx" in handed_in[name].en
