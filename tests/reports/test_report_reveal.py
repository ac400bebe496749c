"""`--reveal`: of a real run of a wrong submission, no number that was expected is in any format that withholds it."""

import html
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance import cli
from conformance.reports.formats import FORMATS, render
from conformance.reports.reveal import revealed
from conformance.reports.terminal import show
from conformance.results.store import read_results

WRONG = Path(__file__).resolve().parents[1] / "zoo" / "wrong"
ATTENTION = WRONG / "attention_scale_by_query_count.py"


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reveal")
    select = ["--select", "q006.attention,q007.scale,q007.sums-to-one,q006.attention-weights,q007.jacobian"]
    CliRunner().invoke(cli.main, ["run", str(ATTENTION), *select, "-q", "-o", str(folder)])
    return folder


def planted(read):
    """Every number that a failure shows, as it is written anywhere; only those that could not stand there by chance."""
    found = set()

    def number(value):
        if isinstance(value, float) and len(f"{abs(value):.7g}".replace(".", "").lstrip("0")) >= 4:
            found.update({f"{value:.7g}", f"{value:.4g}", repr(value)})

    def walk(value):
        if isinstance(value, list):
            for item in value:
                walk(item)
        else:
            number(value)

    for line in read.of_verdict("fail", "waived"):
        evidence = line["evidence"] or {}
        for name in ("expected", "got", "tolerance"):
            number(evidence.get(name))
        number(line["margin"])
        for name in ("got", "expected"):
            walk(evidence.get("arrays", {}).get(name))
    return {text for text in found if len(text.lstrip("-0.")) >= 6}


def said(read, name, lang):
    if name == "terminal":
        stream = io.StringIO()
        show(read, lang, stream)
        return stream.getvalue()
    return html.unescape(render(read, name, lang))


def leaks(numbers, text):
    return {number for number in numbers if number in text}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", [*FORMATS, "terminal"])
def test_no_expected_number_is_in_any_format(graded, name, lang):
    read = read_results(graded)
    numbers = planted(read)
    assert len(numbers) > 100
    if name in ("html", "json", "csv", "markdown", "junit", "ctrf", "gradescope", "terminal"):
        assert leaks(numbers, said(read, name, lang))  # it would be found
    for level in ("hint", "none"):
        assert leaks(numbers, said(revealed(read, level), name, lang)) == set()
    hint, none = (said(revealed(read, level), name, lang) for level in ("hint", "none"))
    named = [m["mistake"] for line in read.of_verdict("fail") for m in line["diagnosis"]]
    assert named
    if name != "badge":
        assert any(mistake in hint for mistake in named)
    assert not any(mistake in none for mistake in named)


def test_a_course_grades_with_hints(graded, tmp_path):
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "ann.py").write_text(ATTENTION.read_text(encoding="utf-8"), encoding="utf-8")
    out = tmp_path / "grades"
    done = CliRunner().invoke(
        cli.main,
        ["grade", str(tmp_path / "submissions"), "--reveal", "hint", "--select", "q006.attention", "--seed", "0", "-o", str(out)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (report,) = out.glob("*/report.html")
    numbers = planted(read_results(report.parent)) | planted(read_results(graded))
    for page in (out / "index.html", out / "grades.csv", report):
        assert leaks(numbers, html.unescape(page.read_text(encoding="utf-8"))) == set()
    assert leaks(numbers, done.output) == set()


COURSE = Path(__file__).resolve().parents[2] / "docs" / "course"
SUBMISSIONS = {
    "wrong": (ATTENTION.read_text(encoding="utf-8"), "softmax"),
    "missing": (None, "could not be graded"),
    "broken": ("def f(:", "SyntaxError"),
    "ends": ("import os\nos._exit(0)", "exited with status 0"),
    "empty": ("", "no points"),
}


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_the_course_template_writes_points_whatever_it_is_given(name, tmp_path):
    source, says = SUBMISSIONS[name]
    for folder in ("submission", "source"):
        (tmp_path / folder).mkdir()
    shutil.copy(COURSE / "rubric.yaml", tmp_path / "source")
    if source is not None:
        (tmp_path / "submission" / "model.py").write_text(source, encoding="utf-8")
    environment = {**os.environ, "AUTOGRADER": str(tmp_path), "PYTHON": sys.executable}
    done = subprocess.run(
        [COURSE / "run_autograder"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    text = (tmp_path / "results" / "results.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert document["score"] >= 0
    if name == "wrong":
        assert 0 < document["score"] < 40
        assert {test["status"] for test in document["tests"]} == {"passed", "failed"}
        assert leaks(planted(read_results(tmp_path / "report")), text) == set()
    else:
        assert document["score"] == 0
    if name != "empty":
        assert says in text


EARLY = {
    "raises": "    raise ValueError('x')",
    "returns nothing": "    pass",
    "is right": "    return good(q, k, v, mask, is_causal)",
}
PRINTED = ("3.006980", "3.00698", "4.510470", "4.51047", "0.248255", "0.503490", "0.50349")


@pytest.fixture(scope="module", params=EARLY)
def early(request, tmp_path_factory):
    """A run in which no claim about printed numbers has evidence: it passed, or it never came to a comparison."""
    folder = tmp_path_factory.mktemp("early")
    mine = folder / "mine.py"
    good = "import numpy as np\n\ndef good(q, k, v, mask, is_causal):\n" + "\n".join(
        [
            "    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5",
            "    s = s if mask is None else np.where(mask, s, -np.inf)",
            "    w = np.exp(s - s.max(-1, keepdims=True)); w /= w.sum(-1, keepdims=True)",
            "    return w @ v, w",
        ]
    )
    mine.write_text(
        f"{good}\n\ndef attention(q, k, v, mask=None, is_causal=False):\n{EARLY[request.param]}\n"
    )
    CliRunner().invoke(
        cli.main, ["run", str(mine), "--select", "q006.worked-example*", "-q", "-o", str(folder)]
    )
    return read_results(folder)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", [*FORMATS, "terminal"])
def test_printed_numbers_are_withheld_whatever_came_of_their_claims(early, name, lang):
    assert leaks(PRINTED, said(early, "html", lang))  # it would be found
    for level in ("hint", "none"):
        assert leaks(PRINTED, said(revealed(early, level), name, lang)) == set()
