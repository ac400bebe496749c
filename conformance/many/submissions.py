"""What is graded: the submissions of a folder, of a list of files, of a roster.

A submission that cannot be graded is one all the same, with the reason: it gets its row. Nothing of a
submission is run here, and of a folder's files no more is read than what tells the adapter from the rest.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from conformance.language.program import Text

SUFFIXES = (".py", ".onnx")
_ARCHIVE = Text("an archive", "压缩包")
OTHERS = {
    ".ipynb": Text("a notebook", "笔记本"),
    **dict.fromkeys((".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar"), _ARCHIVE),
}
"""What is handed in as well, and cannot be graded: whoever did has a row that says so."""
READ = 1 << 20
"""Bytes of a file in which a definition is looked for."""
RESERVED = ("index.html", "grades.csv")
"""What stands beside the reports, so that none may be called so."""

_HIDDEN = re.compile(r"\.|__.*__(\.py)?$|__MACOSX$")


class SubmissionError(ValueError):
    """The command line, or a roster, names nothing that could be graded; says what was expected."""


@dataclass(frozen=True)
class Submission:
    """One row of the grades.

    Attributes:
        name: how tables call it.
        words: the target, as `conformance run` takes it, seen from `base`.
        base: the folder in which the words are to be read.
        problem: why it cannot be graded at all; None where it can be tried.
        folder: name of its report's folder, unique among all rows.
        more: further columns of the roster.
        among: whether it is a file beside those of others, whose names must not hide a library from it.
    """

    name: str
    words: tuple[str, ...]
    base: Path
    problem: Text | None = None
    folder: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    among: bool = False


@dataclass(frozen=True)
class Finder:
    """How submissions are found.

    Attributes:
        names: functions that an adapter may define; a folder's file that does is the one to grade.
        entry: the file to grade within each submission's folder; '' looks for it.
        adapter: words of a bundled adapter that reads the file: `cs336`, or `pytorch {}:GPT`.
        output: where reports go; never taken for a submission.
    """

    names: Sequence[str]
    entry: str = ""
    adapter: str = ""
    output: Path | None = None

    def find(self, given: Sequence[Path]) -> list[Submission]:
        """All submissions, with folders for their reports. Raises `SubmissionError`.

        One folder holds a submission in each of its files and folders. Of several arguments, as a
        shell makes them of `class/*`, each is a submission itself. A `.csv` is a roster.
        """
        found: list[Submission] = []
        for path in given:
            if path.suffix.lower() == ".csv" and path.is_file():
                from conformance.many.roster import read_roster

                found += read_roster(path, self)
            elif len(given) == 1 and path.is_dir():
                found += self.within(path)
            elif path.is_dir():
                if not self._is_output(path):
                    found.append(self.of_folder(path, path.parent))
            elif os.path.lexists(path):
                found.append(self.of_file(path, path.parent))
            else:
                raise SubmissionError(f"{path} does not exist")
        if not found:
            which = " or ".join(SUFFIXES)
            raise SubmissionError(f"{' '.join(map(str, given))}: no file {which} and no folder to grade")
        return with_folders(_among(found))

    def within(self, folder: Path) -> Iterator[Submission]:
        """The submissions of a folder, by name: each adapter file, and each folder. Raises `SubmissionError`."""
        try:
            entries = sorted(folder.iterdir(), key=lambda path: (path.name.casefold(), path.name))
        except OSError as error:
            raise SubmissionError(f"{folder} cannot be read: {error.strerror}") from None
        for path in entries:
            if _HIDDEN.match(path.name) or self._is_output(path):
                continue
            if path.is_dir():
                yield self.of_folder(path, folder)
            elif path.suffix.lower() in SUFFIXES:
                yield self.of_file(path, folder)
            elif kind := OTHERS.get(path.suffix.lower()):
                problem = Text(
                    f"it is {kind.en}; what is graded is a file {' or '.join(SUFFIXES)}, or a folder with one",
                    f"它是{kind.zh}；可评测的是 {' 或 '.join(SUFFIXES)} 文件，或含有它的文件夹",
                )
                yield Submission(path.name, (path.name,), folder, problem)

    def of_folder(self, folder: Path, base: Path) -> Submission:
        """The submission that a folder holds."""
        try:
            file, problem = self._entry(folder)
        except OSError as error:
            file = None
            problem = Text(
                f"the folder cannot be read: {error.strerror}", f"文件夹无法读取：{error.strerror}"
            )
        if file is None:
            return Submission(folder.name, (folder.name,), base, problem)
        return replace(self.of_file(file, base), name=folder.name, among=False)

    def of_file(self, file: Path, base: Path) -> Submission:
        """The submission that a file is."""
        problem = None
        if file.is_symlink() and not file.exists():
            problem = Text("it is a link to a file that does not exist", "它是指向不存在的文件的链接")
        elif file.is_dir():
            problem = Text("it is a folder", "它是文件夹")
        elif not file.is_file():
            problem = Text("it is no ordinary file", "它不是普通文件")
        return Submission(file.name, self.target(os.path.relpath(file, base)), base, problem, among=True)

    def target(self, file: str) -> tuple[str, ...]:
        """The words that name a file as a target."""
        if not self.adapter:
            # `hf:x.py` would be a module of a hub.
            return (f"./{file}" if file.startswith("hf:") else file,)
        words = shlex.split(self.adapter)
        if not any("{}" in word for word in words):
            words.append("{}")
        return tuple(word.replace("{}", file) for word in words)

    def _entry(self, folder: Path) -> tuple[Path | None, Text | None]:
        """The file to grade in a submission's folder, or why there is none."""
        if self.entry:
            file = folder / self.entry
            if not os.path.lexists(file):
                return None, Text(f"it holds no {self.entry}", f"其中没有 {self.entry}")
            return self._inside(file, folder)
        files = sorted(
            path
            for path in folder.iterdir()
            if path.suffix.lower() in SUFFIXES and not _HIDDEN.match(path.name) and path.is_file()
        )
        if not files:
            return None, _holds(folder)
        if len(files) > 1:
            files = [path for path in files if self._defines(path)] or files
        if len(files) > 1:
            listed = ", ".join(path.name for path in files[:5]) + (", …" if len(files) > 5 else "")
            return None, Text(
                f"which file is it? {listed}; name it with --entry",
                f"是哪个文件？{listed}；请用 --entry 指明",
            )
        return self._inside(files[0], folder)

    @staticmethod
    def _inside(file: Path, folder: Path) -> tuple[Path | None, Text | None]:
        """The file, unless a link makes it another's work."""
        if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
            return None, Text(
                f"{file.name} is a link that leads out of the submission's folder",
                f"{file.name} 是指向提交文件夹之外的链接",
            )
        return file, None

    def _defines(self, file: Path) -> bool:
        if file.suffix.lower() != ".py":
            return True
        try:
            with file.open("rb") as opened:
                text = opened.read(READ).decode("utf-8", "replace")
        except OSError:
            return False
        names = "|".join(map(re.escape, self.names))
        return (
            re.search(rf"^(?:def|class)[ \t]+(?:{names})\b|^(?:{names})[ \t]*=", text, re.MULTILINE)
            is not None
        )

    def _is_output(self, path: Path) -> bool:
        # realpath, since Path.resolve raises where links go round in a circle
        return self.output is not None and os.path.realpath(path) == os.path.realpath(self.output)


DEEP = 4
"""Folders within folders in which a file is looked for that is to be named."""


def _holds(folder: Path) -> Text:
    """Why a folder has no file to grade, and what it has instead: a notebook, an archive, a file further down."""
    which = " or ".join(SUFFIXES)
    own = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir() if not _HIDDEN.match(path.name))
    if not own:
        return Text("the folder is empty", "文件夹是空的")
    deeper = _deeper(folder, DEEP)
    if deeper:
        name = os.path.relpath(deeper, folder)
        return Text(
            f"the folder itself holds no file {which}; is it {name}? name it with --entry, or in a roster",
            f"文件夹本身没有 {which.replace('or', '或')} 文件；是不是 {name}？请用 --entry 或在名单中指明",
        )
    listed = ", ".join(own[:5]) + (", …" if len(own) > 5 else "")
    return Text(
        f"the folder holds no file {which}; it holds {listed}",
        f"文件夹中没有 {which.replace('or', '或')} 文件；其中有 {listed}",
    )


def _deeper(folder: Path, depth: int) -> Path | None:
    """The first file to grade in the folders of a folder; links are not followed."""
    for path in sorted(folder.iterdir())[:1000]:
        if _HIDDEN.match(path.name) or path.is_symlink() or not path.is_dir():
            continue
        inside = sorted(
            p for p in path.iterdir() if p.suffix.lower() in SUFFIXES and not _HIDDEN.match(p.name)
        )
        if inside:
            return inside[0]
        if depth > 1 and (found := _deeper(path, depth - 1)):
            return found
    return None


def _among(found: Sequence[Submission]) -> list[Submission]:
    """Files are among others' only where a folder holds several: one alone has its folder to itself."""

    def folder(submission: Submission) -> str:
        return str(Path(os.path.realpath(submission.base / submission.words[0])).parent)

    files = Counter(folder(s) for s in found if s.among and not s.problem)
    return [replace(s, among=s.among and not s.problem and files[folder(s)] > 1) for s in found]


def with_folders(submissions: Sequence[Submission]) -> list[Submission]:
    """Each with a name for its report's folder: safe for every file system, and no two alike."""
    taken = {name.casefold() for name in RESERVED}
    done = []
    for submission in submissions:
        wanted = safe_name(submission.name)
        folder, number = wanted, 1
        while folder.casefold() in taken:
            number += 1
            folder = f"{wanted}-{number}"
        taken.add(folder.casefold())
        done.append(replace(submission, folder=folder))
    return done


def safe_name(name: str) -> str:
    """A folder's name that reads like `name`: letters, digits, `-`, `_` and `.`, at most 60 of them."""
    stem, dot, suffix = name.rpartition(".")
    name = stem if dot and f".{suffix.lower()}" in SUFFIXES else name
    shown = unicodedata.normalize("NFC", name)
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in shown)[:60]
    return kept.strip("._") or "unnamed"
