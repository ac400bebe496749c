"""A roster: a CSV file with a row for each submission.

The column `target` (or `file`, `path`, `submission`) names what is graded, as `conformance run` takes
it, seen from the roster's folder; `name` (or `student`, `id`) what to call it. Every further column is
carried into the grades. It is read as spreadsheets save it: with commas, semicolons or tabs, in UTF-8,
UTF-16, GBK or Latin.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from conformance.language.program import Text
from conformance.many.submissions import Finder, Submission, SubmissionError

TARGET = ("target", "file", "path", "submission")
NAME = ("name", "student", "id")


def read_roster(path: Path, finder: Finder) -> list[Submission]:
    """The submissions of a roster, in its order. Raises `SubmissionError`, with the line."""
    try:
        text = decoded(path.read_bytes())
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror}") from None
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    try:
        columns = {(name or "").strip().casefold(): name for name in rows.fieldnames or ()}
        target = next((columns[name] for name in TARGET if name in columns), None)
        if target is None:
            seen = ", ".join(name for name in columns if name) or "no header"
            raise SubmissionError(f"{path}: a roster has a column `target`; it has {seen}")
        name = next((columns[name] for name in NAME if name in columns), None)
        found = [
            _submission(row, target, name, path.parent, finder, f"{path}:{rows.line_num}")
            for row in rows
            if any(isinstance(value, str) and value.strip() for value in row.values())
        ]
    except csv.Error as error:
        raise SubmissionError(f"{path}:{rows.line_num}: {error}") from None
    if not found:
        raise SubmissionError(f"{path} holds no submission")
    return found


def decoded(data: bytes) -> str:
    """The text of a roster, as spreadsheets save it: UTF-8 or UTF-16, else GBK where it reads as Chinese, else Latin.

    Bytes that are none of these are kept, as `os.fsdecode` does.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    for encoding in ("utf-8-sig", "gb18030", "cp1252"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding != "gb18030" or _reads_as_chinese(text):
            return text
    return data.decode("utf-8-sig", "surrogateescape")


def _reads_as_chinese(text: str) -> bool:
    """Whether most of what is no ASCII is among the common characters: `ü` and a letter make a rare one."""
    other = [character for character in text if not character.isascii()]
    return 2 * sum(_is_common(character) for character in other) > len(other)


def _is_common(character: str) -> bool:
    try:
        return len(character.encode("gb2312")) == 2
    except UnicodeEncodeError:
        return False


def _delimiter(text: str) -> str:
    """What parts the columns: a comma, or what spreadsheets of other countries write."""
    header = text.partition("\n")[0]
    return max(",;\t", key=header.count)


def _submission(
    row: Mapping[str, str | None], target: str, name: str | None, base: Path, finder: Finder, at: str
) -> Submission:
    said = (row.get(target) or "").strip()
    called = ((row.get(name) or "").strip() if name else "") or said
    more = {
        column: value or ""
        for column, value in row.items()
        if column and column not in (target, name) and isinstance(value, str | None)
    }
    made = _made(said, base, finder)
    if not said and not called:
        raise SubmissionError(f"{at}: neither a name nor a target")
    return replace(made, name=called, more=more)


def _made(said: str, base: Path, finder: Finder) -> Submission:
    if not said:
        return Submission(
            "", (), base, Text("the roster names no file: nothing was handed in", "名单中没有文件：未提交")
        )
    path = base / said
    try:
        if path.is_dir():
            return finder.of_folder(path, base)
        if os.path.lexists(path):
            return finder.of_file(path, base)
        words = tuple(shlex.split(said))
    except ValueError as error:  # an unpaired quotation mark, or a name that no file can have
        return Submission(
            said, (said,), base, Text(f"{said!r} names no file: {error}", f"{said!r} 不是文件名：{error}")
        )
    if len(words) == 1 and finder.adapter:
        words = finder.target(said)
    return Submission(said, words, base)
