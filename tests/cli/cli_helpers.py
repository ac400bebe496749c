"""The command line in this process, adapters in a folder of the test's own, and results read back."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from conformance import cli

GOOD_SOFTMAX = """
def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""
GOOD_RMS_NORM = """
def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight
"""
FEW = "q007.softmax,q007.softmax-sums-to-one,q008.rms-norm"
"""A selection that is graded in a moment: two claims of softmax, one of rms_norm."""


def conformance(*args: object) -> Result:
    """`conformance ARGS`. An exception that nothing caught would be a traceback: it is raised here."""
    result = CliRunner().invoke(cli.main, [str(arg) for arg in args], prog_name="conformance")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def adapter(folder: Path, body: str = GOOD_SOFTMAX + GOOD_RMS_NORM, name: str = "mine.py") -> Path:
    """An adapter file with NumPy imported."""
    path = folder / name
    path.write_text("import numpy as np\n" + body, encoding="utf-8")
    return path


def lines(folder: Path) -> list[dict[str, Any]]:
    """The lines of `results.jsonl`; one that is cut off is left out."""
    found = []
    for text in (folder / "results.jsonl").read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            assert text == (folder / "results.jsonl").read_text(errors="replace").splitlines()[-1]
    return found


def verdicts(folder: Path, claim: str = "") -> list[dict[str, Any]]:
    """Verdict lines, perhaps of one claim."""
    return [line for line in lines(folder) if line["kind"] == "verdict" and claim in ("", line["claim"])]


def end(folder: Path) -> dict[str, Any]:
    """The last line, which an interrupted run has not."""
    last = lines(folder)[-1]
    assert last["kind"] == "end"
    return last


def flat(text: str) -> str:
    """Text without its line breaks."""
    return " ".join(text.split())
