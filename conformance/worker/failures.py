"""What an exception says: type, message, and the innermost line of the submission's own files.

Everything is bounded, and nothing here trusts the exception: its `__str__` may raise.
"""

from __future__ import annotations

import linecache
import os
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .frameworks import module_of, name_of

if TYPE_CHECKING:
    from types import FrameType, TracebackType

MAX_MESSAGE = 2000
MAX_TEXT = 200
MAX_TRACEBACK = 16_000
MAX_FILES = 500  # whose lines are kept
MAX_FILE = 1000  # a file name: `compile` takes any
HEAD, TAIL = 8, 24  # frames of a traceback that are shown
_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


class Ended(Exception):
    """A call has ended without a result; `answer` is the JSON that says how, 'is' its kind."""

    def __init__(self, outcome: str, /, **answer: Any) -> None:
        super().__init__(outcome)
        self.answer = {"is": outcome, **answer}


class Sources:
    """Which files are the submission's, and their lines.

    The lines of its main file are kept from when it was loaded, and those of its other modules from
    `keep`: they may be gone later.
    """

    def __init__(self, path: str, text: str, own: Sequence[str] = ()) -> None:
        """The sources of a submission.

        Args:
            path: its main file, and
            text: what is in it.
            own: files and folders that are the submission's, wherever they are. With them the main
                file, and what stands beside it, only leads to what is graded.
        """
        self.path = path
        self._leads = bool(own)
        self._lines = {path: lines_of(text)}
        paths = sysconfig.get_paths()
        foreign = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
        # The innermost folder decides: a submission may hold a virtual environment, and an adapter
        # that comes with this project may stand in site-packages.
        folders = [(os.path.join(folder, ""), False) for folder in foreign]
        folders.append((os.path.join(os.path.dirname(path), ""), not own))
        folders += [(folder if folder.endswith(".py") else os.path.join(folder, ""), True) for folder in own]
        folders.append((_HERE, False))
        self._folders = sorted(folders, key=lambda entry: -len(entry[0]))

    def own(self, file: str) -> bool:
        """Whether `file` (a frame's file name) belongs to the submission."""
        if file == self.path:
            return not self._leads
        if file.startswith("<") or not file.endswith((".py", ".pyw")):
            return False
        for folder, own in self._folders:
            if file.startswith(folder):
                return own
        return True

    def line(self, file: str, number: int | None) -> str:
        """Line `number` of `file` without its indentation, '' when it cannot be had."""
        return "" if number is None else self.lines(file, number, number)

    def lines(self, file: str, first: int, last: int) -> str:
        """Lines `first` to `last` of `file` in one, without indentation, '' when they cannot be had."""
        text = self._all(file)[max(first - 1, 0) : last] if first > 0 else []
        return " ".join(line.strip() for line in text[:MAX_TEXT]).strip()[:MAX_TEXT]

    def text(self, file: str) -> str:
        """All of `file`, '' when it cannot be had."""
        return "\n".join(line.rstrip("\n") for line in self._all(file))

    def keep(self, modules: Mapping[str, Any]) -> None:
        """Reads the files of those modules that are the submission's."""
        for module in list(modules.values()):
            file = vars(module).get("__file__") if type(module) is ModuleType else None
            if type(file) is str and self.own(file) and len(self._lines) < MAX_FILES:
                self._all(file)

    def _all(self, file: str) -> list[str]:
        if file not in self._lines:
            lines = lines_of(read_text(file))
            if not lines:
                try:
                    lines = linecache.getlines(file)  # code that has its source elsewhere, as in doctest
                except Exception:  # what it uses may have been replaced
                    lines = []
            if len(self._lines) >= MAX_FILES:
                return lines
            self._lines[file] = lines
        return self._lines[file]


def type_name(error: BaseException) -> str:
    """Name of the exception's class, with its module unless that is builtins."""
    name, module = name_of(error), module_of(error)
    return name if module in ("builtins", "") else f"{module}.{name}"


def message_of(error: BaseException) -> str:
    """Text of the exception, at most `MAX_MESSAGE` characters."""
    try:
        text = str(error)
    except BaseException:  # the submission's own __str__
        return "(its message could not be read)"
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"


def describe_error(error: BaseException, sources: Sources | None) -> dict[str, Any]:
    """The exception as JSON: type, message, file, line, text, traceback.

    `file` and `line` are those of the innermost frame in the submission's own files, or of the
    syntax error; None when no frame is there.
    """
    frames = _frames(error.__traceback__)
    file: str | None = None
    line: int | None = None
    if sources is not None:
        for frame_file, frame_line, _ in frames:
            if sources.own(frame_file):
                file, line = frame_file, frame_line
        if isinstance(error, SyntaxError) and isinstance(error.filename, str):
            file, line = error.filename[:MAX_FILE], error.lineno
    text = sources.line(file, line) if sources is not None and file is not None else ""
    return {
        "type": type_name(error),
        "message": message_of(error),
        "file": file,
        "line": line,
        "text": text,
        "traceback": _traceback(error, frames, sources),
    }


def _frames(traceback: TracebackType | None) -> list[tuple[str, int, str]]:
    """(file, line, function) of each frame that is not the worker's, outermost first."""
    frames: list[tuple[str, int, str]] = []
    while traceback is not None:
        frame: FrameType = traceback.tb_frame
        code = frame.f_code
        if not code.co_filename.startswith((_HERE, "<frozen importlib")):
            frames.append((code.co_filename[:MAX_FILE], traceback.tb_lineno, code.co_name[:MAX_TEXT]))
        traceback = traceback.tb_next
    return frames


def _traceback(error: BaseException, frames: list[tuple[str, int, str]], sources: Sources | None) -> str:
    """The traceback as text, at most `HEAD + TAIL` frames of it."""
    left_out = len(frames) - HEAD - TAIL
    lines = []
    for position, (file, number, function) in enumerate(frames):
        if left_out > 0 and HEAD <= position < HEAD + left_out:
            if position == HEAD:
                lines.append(f"  … {left_out} frames left out …")
            continue
        lines.append(f'  File "{file}", line {number}, in {function}')
        text = sources.line(file, number) if sources is not None else ""
        if text:
            lines.append("    " + text)
    lines.append(f"{type_name(error)}: {message_of(error)}")
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        lines.append(f"(after {type_name(cause)}: {message_of(cause)})")
    whole = "\n".join(lines)
    half = MAX_TRACEBACK // 2
    return whole if len(whole) <= MAX_TRACEBACK else f"{whole[:half]}\n…\n{whole[-half:]}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the exception says that memory ran out; PyTorch says so with a RuntimeError."""
    if isinstance(error, MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    text = message_of(error)
    return "can't allocate memory" in text or "not enough memory" in text


def lines_of(text: str) -> list[str]:
    """Lines as Python counts them: a form feed ends none."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if text else []


def read_text(path: str) -> str:
    """The file's text, for showing lines: undecodable bytes are replaced; '' if it can't be read."""
    try:
        return Path(path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
