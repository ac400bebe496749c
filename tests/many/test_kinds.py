"""What submissions of one kind are compared with is worked out once, before the first of them, and changes nothing."""

import json
import os

import pytest
from test_grade import grade, rows

from conformance.cli.options import pack_folder
from conformance.many import pool
from conformance.many.row import Job, Unprepared, _opened, opened
from conformance.many.submissions import Finder

SELECT = ("--select", "q007.softmax*,q008.rms-norm*,q008.swiglu*")
NORM = """import numpy as np
def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight
"""
SOFTMAX = """import numpy as np
def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""
CLASS = {
    "right.py": 'variant = "llama"\n' + NORM + SOFTMAX,
    "right_too.py": 'variant = "llama"\n' + SOFTMAX + NORM,
    "undeclared.py": NORM + SOFTMAX,
    "sixteen.py": 'variant = "llama"\ndtype = "float16"\n' + SOFTMAX,
    "own_variant.py": 'variant = {"base": "llama", "norm_eps": 0.001}\n' + NORM,
    "wrong.py": 'variant = "llama"\n' + NORM.replace("+ eps", "") + SOFTMAX.replace(" - x.max", " - 0 * x.max"),
    "raises.py": 'variant = "llama"\ndef softmax(x, axis):\n    raise ValueError("not today")\n',
    "ends.py": 'variant = "llama"\nimport os\ndef softmax(x, axis):\n    os._exit(3)\n',
    "unknown.py": 'variant = "lama"\n' + SOFTMAX,
    "import_fails.py": "1 / 0\n",
    "counts.py": "import os, pathlib\n"
    "with open(os.environ['PYTHONUSERBASE'] + '/imports', 'a') as file:\n    file.write('x')\n" + SOFTMAX,
}  # fmt: skip


def lines(folder):
    """The lines of a results file without what a clock says."""
    text = (folder / "results.jsonl").read_text().replace(str(folder), "FOLDER")
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        for name in ("seconds", "seconds_inside"):
            line.pop(name, None)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("kinds")
    (home / "class").mkdir()
    for name, text in CLASS.items():
        (home / "class" / name).write_text(text)
    before = os.environ.get("PYTHONUSERBASE")
    os.environ["PYTHONUSERBASE"] = str(home)
    try:
        done = grade("class", *SELECT, "-o", "together", cwd=home)
        (home / "imports").rename(home / "imports_together")
        names = [f"class/{name}" for name in CLASS]
        for few in (names[: pool.WORTH], names[pool.WORTH :]):  # too few to prepare anything for
            grade(*few, *SELECT, "-o", "apart", cwd=home)
    finally:
        os.environ.pop("PYTHONUSERBASE") if before is None else os.environ.update(PYTHONUSERBASE=before)
    assert (done.returncode, done.stderr) == (0, "")
    return home


@pytest.mark.parametrize("name", CLASS)
def test_a_row_says_the_same_with_and_without_preparation(home, name):
    stem = name.removesuffix(".py")
    together, apart = lines(home / "together" / stem), lines(home / "apart" / stem)
    assert together == apart
    assert (together[-1]["kind"], len(together) > 2) == ("end", name not in ("unknown.py", "import_fails.py"))


def test_the_verdicts_are_not_all_alike(home):
    assert {row["outcome"] for row in rows(home / "together").values()} == {
        "conforms", "does not conform", "nothing graded",
    }  # fmt: skip


@pytest.mark.skipif(not pool.forks(), reason="nothing is prepared where rows are not forked")
def test_only_the_first_of_a_kind_is_begun_again(home):
    # Of an undeclared variant in float32 there are two.
    assert (home / "imports_together").read_text() in ("x", "xx")
    assert (home / "imports").read_text() == "x"


def jobs(folder, ahead):
    options = {
        "select": ("q007.softmax",), "require": (), "variants": (), "dtypes": (), "seed": 0, "python": None,
        "timeout": 10.0, "memory": 4096, "waive": None,
    }  # fmt: skip
    found = Finder(["softmax"]).find([folder])
    return [
        Job(s, pack_folder(None), folder / "out" / s.folder, options, None, "en", ahead=ahead) for s in found
    ]


def test_a_row_waits_for_each_kind_that_nothing_is_prepared_for(tmp_path):
    (tmp_path / "ann.py").write_text(SOFTMAX)
    (job,), (not_waiting,) = jobs(tmp_path, True), jobs(tmp_path, False)
    pack = opened(job.pack)
    with pytest.raises(Unprepared) as raised:
        _opened(job, pack, ["llama", "a variant of its own"], ["float32", "float16"])
    assert raised.value.kinds == (("llama", "float32"), ("llama", "float16"))
    with pytest.raises(Unprepared) as raised:
        _opened(job, pack, [], ["float32"])
    assert raised.value.kinds == (("", "float32"),)
    _opened(job, pack, ["a variant of its own"], ["float32"])
    _opened(not_waiting, pack, ["llama"], ["float32"])


@pytest.mark.skipif(not pool.forks(), reason="nothing is prepared where rows are not forked")
def test_a_row_whose_kind_could_not_be_prepared_is_graded_all_the_same(tmp_path):
    for i in range(pool.WORTH + 1):
        (tmp_path / f"s{i}.py").write_text(SOFTMAX)
    asked = []
    found = pool.Pool(1, prepare=lambda row: asked.append((row.job.submission.name, row.unprepared))).run(
        jobs(tmp_path, False)
    )
    assert [(row.side, row.ended) for row in found] == [("", True)] * len(found)
    assert asked == [("s0.py", (("", "float32"),))]


@pytest.mark.skipif(not pool.forks(), reason="nothing is prepared where rows are not forked")
def test_interrupted_while_a_kind_is_prepared_the_row_was_not_reached(tmp_path):
    for i in range(pool.WORTH + 1):
        (tmp_path / f"s{i}.py").write_text(SOFTMAX)

    def interrupt(row):
        raise KeyboardInterrupt

    interrupted = pool.Pool(1, prepare=interrupt)
    found = interrupted.run(jobs(tmp_path, False))
    assert interrupted.interrupted
    assert [(row.side, row.ended) for row in found] == [("interrupted", True)] * len(found)
