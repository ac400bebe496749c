import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result
from reports_helpers import failing, passing, run, save

from conformance import cli


def invoke(*args: object) -> Result:
    return CliRunner().invoke(cli.main, ["report", *map(str, args)], prog_name="conformance")


def test_help_has_an_example():
    out = invoke("--help").output
    assert "Example: conformance report conformance-report --to markdown" in " ".join(out.split())


def test_a_folder_and_its_file_are_the_same_and_go_to_stdout(tmp_path):
    file = save(tmp_path, failing())
    a, b, c = (
        invoke(tmp_path, "--to", "markdown"),
        invoke(file, "--to", "markdown"),
        invoke(file, "--to", "markdown", "-o", "-"),
    )
    assert a.exit_code == b.exit_code == c.exit_code == 0
    assert a.stdout == b.stdout == c.stdout
    assert a.stdout.startswith("### ❌")
    assert a.stdout.endswith("\n")
    assert a.stderr == ""


@pytest.mark.parametrize("name", ["html", "markdown", "json", "csv", "junit", "ctrf", "gradescope", "matrix"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_into_a_file(tmp_path, name, lang):
    save(tmp_path, failing())
    target = tmp_path / "out"
    result = invoke(tmp_path, "--to", name, "-o", target, "--lang", lang)
    assert (result.exit_code, result.output) == (0, "")
    assert target.stat().st_size > 500


def test_stdout_is_utf8_whatever_the_locale(tmp_path):
    save(tmp_path, failing())
    process = subprocess.run(
        [sys.executable, "-m", "conformance", "report", str(tmp_path), "--to", "json", "--lang", "zh"],
        capture_output=True, env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert process.stderr == b""
    assert json.loads(process.stdout.decode())["end"]["conforms"] is False


def test_an_interrupted_run_is_rendered_and_said(tmp_path):
    file = save(tmp_path, failing()[:-1])
    with file.open("a") as stream:
        stream.write('{"kind": "verdict", "cla')
    result = invoke(file, "--to", "csv")
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 10
    assert "interrupted run; it is rendered as far as it goes" in result.stderr
    assert "is cut off or no JSON" in result.stderr


def test_several_runs_are_for_a_matrix(tmp_path):
    file = save(tmp_path, passing())
    result = invoke(file, file, "--to", "html")
    assert result.exit_code == 2
    assert "The format html is of one run, and 2 results were given" in result.output


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "cannot be read: No such file or directory"),
        (lambda folder: folder.write_text(""), "is empty: this is no results file of conformance"),
        (lambda folder: folder.write_text('{"kind": "verdict"}\n'), "line 1 is no run line"),
    ],
)
def test_what_is_no_results_file_is_status_2_and_one_line(tmp_path, make, message):
    make(tmp_path / "results.jsonl")
    result = invoke(tmp_path / "results.jsonl", "--to", "json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_place_that_cannot_be_written_is_status_2(tmp_path):
    file = save(tmp_path, passing())
    result = invoke(file, "--to", "json", "-o", tmp_path / "missing" / "x.json")
    assert result.exit_code == 2
    assert "cannot be written: No such file or directory; choose another place with -o" in result.stderr


def test_a_newer_schema_is_said_and_rendered(tmp_path):
    file = save(tmp_path, [run(schema=2), *passing()[1:]])
    result = invoke(file, "--to", "markdown")
    assert result.exit_code == 0
    assert "written by a newer version (schema 2)" in result.stdout
    assert "written by a newer version (schema 2)" in result.stderr


@pytest.mark.parametrize("args", [(), ("x",), ("x", "--to", "pdf"), ("x", "--to", "json", "--lang", "fr")])
def test_usage_errors_are_status_2(args):
    assert invoke(*args).exit_code == 2
