"""A guide as a script: its files are written, its commands run, and what it shows is looked for in what they print.

A fenced block of `yaml` or `python` that begins with a comment of a file name is that file; with `, more` it goes on
where an earlier block ended. In a block of `console` each `$ line` is run, and every other line must be printed,
whatever the spaces; `…` stands for anything. `# status N` is the status it must end with.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.(?:yaml|py))(, more)?$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line on which it begins."""

    language: str
    text: str
    line: int

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]


def blocks(guide: str) -> list[Block]:
    """All fenced blocks of a page in `docs/`."""
    text = (ROOT / "docs" / guide).read_text(encoding="utf-8")
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 2) for m in _FENCE.finditer(text)]


def follow(found: list[Block], folder: Path) -> Iterator[str]:
    """Do what the blocks say, and yield the commands that were run."""
    for block in found:
        name = _FILE.match(block.first)
        if name is not None:
            path = folder / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            assert path.exists() == bool(name[2]), f"line {block.line}"
            with path.open("a", encoding="utf-8") as file:
                file.write(block.text if not name[2] else "\n" + block.text.partition("\n")[2])
        elif block.language == "console":
            for command, expected in commands(block):
                run(command, expected, folder, block.line)
                yield command


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the lines that it prints."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, *expected = part.strip().split("\n")
        yield command, [line for line in expected if line.strip()]


def run(command: str, expected: list[str], folder: Path, line: int) -> None:
    """Run a command of the guide and compare."""
    words, _, status = command.partition("# status")
    program, *arguments = shlex.split(words)
    done = subprocess.run(
        [sys.executable, "-m", program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**_environment(), "COLUMNS": "400"},
    )
    printed = " ".join((done.stdout + done.stderr).split())
    said = f"line {line}: {command}\n{done.stdout}{done.stderr}"
    assert done.returncode == int(status or 0), said
    for text in expected:
        pattern = ".*".join(map(re.escape, " ".join(text.split()).split("…")))
        assert re.search(pattern, printed), f"not printed: {text}\n{said}"


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)
