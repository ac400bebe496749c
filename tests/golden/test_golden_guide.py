"""Every Python example of docs/golden.md runs, and prints the same."""

import re
from pathlib import Path

import pytest

import conformance

GUIDE = Path(conformance.__file__).parent.parent / "docs" / "golden.md"
EXAMPLES = re.findall(
    r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8") if GUIDE.exists() else "", re.DOTALL
)


@pytest.mark.parametrize("example", EXAMPLES, ids=["library", "header"])
def test_an_example_runs(
    example: str, built: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(built.parent)
    exec(example, {})  # noqa: S102 -- our own text
    assert capsys.readouterr().out == "(2, 3, 5, 8) ['batch', 'head', 'query', 'dh']\n"
