import math

import pytest

from conformance.language.program import Text
from conformance.reports import plain


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("scores", "scores"),
        ("  two\n lines\t ", "two lines"),
        ("softmax(q·k/√Dh) 沿键轴", "softmax(q·k/√Dh) 沿键轴"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b\u0085c", "a b c"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("e\u0301", "e\u0301"),
        ("Z" + "\u0301" * 40, "Z" + "\u0301" * 4),
        ("می\u200cخواهم", "می\u200cخواهم"),
        (None, ""),
        (3, "3"),
        (["a"], "['a']"),
    ],
)
def test_a_line_shows_what_is_there_and_does_nothing(given, shown):
    assert plain.line(given) == shown


def test_a_line_is_bounded():
    assert plain.line("x" * 10_000_000, 20) == "x" * 19 + "…"
    assert len(plain.line("\x1b" * 1000, 100)) == 100
    assert plain.line("\n" * 10_000_000) == "…"


def test_a_block_keeps_its_lines_and_loses_its_middle():
    assert plain.block("\n\na\tb\r\n  c\n\n") == "a   b\n  c"
    many = plain.block("\n".join(map(str, range(1000))), lines=10).split("\n")
    assert many == ["0", "1", "2", "3", "4", "… 990 lines left out …", "995", "996", "997", "998", "999"]
    long = plain.block("x" * 10_000_000, limit=100)
    assert "9999900 characters left out" in long
    assert len(long) < 200
    assert plain.block("progress 1\rprogress 2") == "progress 1\nprogress 2"


def test_texts_in_one_language_stand_for_both():
    assert plain.both({"en": "a", "zh": "甲"}) == Text("a", "甲")
    assert plain.both({"zh": "甲"}) == Text("甲", "甲")
    assert plain.both("a") == Text("a", "a")
    assert plain.both(None) == Text("", "")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (0.1, "0.1"),
        (-1.3400230407, "-1.340023"),
        (3, "3"),
        (True, "True"),
        ("NaN", "NaN"),
        (10**400, "Infinity"),
        (-(10**400), "-Infinity"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_read_by_people(given, shown):
    assert plain.number(given) == shown


def test_numbers_of_a_results_file():
    assert plain.real("Infinity") == math.inf
    assert math.isnan(plain.real("NaN") or 0)
    assert plain.real(10**400) == math.inf
    for nothing in (None, True, "1", "inf", [], {}):
        assert plain.real(nothing) is None
