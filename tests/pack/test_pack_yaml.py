"""YAML with line numbers, and each of its traps as an error that says what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.language.errors import PackError
from conformance.pack.yaml_source import parse, read


def fault(text: str) -> str:
    with pytest.raises(PackError) as caught:
        parse(text, "file.yaml")
    return str(caught.value)


# -- what it reads ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: 1", 1),
        ("a: -3", -3),
        ("a: 1.5", 1.5),
        ("a: 1.0e-5", 1e-5),
        ("a: .inf", float("inf")),
        ("a: -.inf", float("-inf")),
        ("a: true", True),
        ("a: False", False),
        ("a:", None),
        ("a: ~", None),
        ("a: word", "word"),
        ("a: '1'", "1"),
        ('a: "true"', "true"),
        ("a: [1, x, 2.5]", [1, "x", 2.5]),
        ("a: {b: 1, c: [2]}", {"b": 1, "c": [2]}),
        ("a: x ** 2", "x ** 2"),
        ("a: f(x, over=y)", "f(x, over=y)"),
        ("a: >-\n  f(x,\n  y)", "f(x, y)"),
        ("a: |\n  two\n  lines", "two\nlines"),
        ("a: 2026-01-01", "2026-01-01"),
        ("a: 中文", "中文"),
    ],
)
def test_plain_values(text: str, data: Any) -> None:
    found = parse(text, "file.yaml").data["a"]
    assert (found, type(found)) == (data, type(data))


def test_keys_are_texts_whatever_they_look_like() -> None:
    assert parse('1: a\n"true": b\n2.5: c', "file.yaml").data == {"1": "a", "true": "b", "2.5": "c"}


def test_an_alias_is_what_it_names() -> None:
    assert parse("a: &x {b: 1}\nc: *x", "file.yaml").data == {"a": {"b": 1}, "c": {"b": 1}}


def test_every_piece_knows_its_line_and_column() -> None:
    source = parse("a:\n  b: 1\n  c: [10, 20]\nd: {e: x}\n", "file.yaml")
    assert str(source.at("a")) == "file.yaml:1"
    assert str(source.at("a", "b")) == "file.yaml:2"
    assert (source.at("a", "c", 1).line, source.at("a", "c", 1).column) == (3, 11)
    assert (source.at("d", "e").line, source.at("d", "e").column) == (4, 5)


def test_a_place_that_is_not_there_is_the_nearest_one_around_it() -> None:
    source = parse("a:\n  b: 1\n", "file.yaml")
    assert str(source.at("a", "x", 3)) == "file.yaml:1"
    assert str(source.at("a", "b", "c")) == "file.yaml:2"
    assert str(parse("", "file.yaml").at("a")) == "file.yaml"


def test_an_empty_file_is_nothing() -> None:
    assert parse("# only a comment\n", "file.yaml").data is None


# -- traps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["1e-5", "1E5", "-2e3", "1.0e5", "+1e5"])
def test_a_number_that_yaml_reads_as_a_text(number: str) -> None:
    assert fault(f"a: 0\nb: {number}") == (
        f"file.yaml:2: YAML reads {number} as a string (write it with a point and a sign: 1.0e-5, 1.0e+9)"
    )


@pytest.mark.parametrize("word", ["no", "No", "on", "off", "yes", "y", "n"])
def test_a_word_that_yaml_reads_as_a_boolean(word: str) -> None:
    try:
        found = parse(f"a: {word}", "file.yaml").data["a"]
    except PackError as error:
        assert str(error) == f'file.yaml:1: YAML reads {word} as a boolean (write "{word}", or true or false)'  # noqa: PT017
    else:
        assert found == word  # PyYAML leaves y and n alone


@pytest.mark.parametrize("word", ["no", "on", "true", "False"])
def test_a_key_that_yaml_reads_as_a_boolean(word: str) -> None:
    assert (
        fault(f"a:\n  {word}: 1") == f'file.yaml:2: YAML reads the key {word} as a boolean (write "{word}":)'
    )


def test_an_unquoted_expression_with_a_comma_in_a_flow_mapping() -> None:
    assert fault("a: {pre: norm(x, params=p), post: x}") == (
        "file.yaml:1: 'norm(x' has unequal parentheses (an expression with a comma inside { } or [ ] must be quoted)"
    )


def test_an_expression_with_a_parenthesis_too_few() -> None:
    assert fault("a:\n  b: norm(x, params=p") == "file.yaml:2: 'norm(x, params=p' has unequal parentheses"


def test_an_unquoted_expression_whose_first_part_is_whole() -> None:
    assert fault("a: {pre: x, y}") == (
        "file.yaml:1: 'y' has no value: an expression with a comma inside { } must be quoted "
        '(write it as "…, y …")'
    )


def test_an_unquoted_expression_in_a_flow_list() -> None:
    assert "'f(x' has unequal parentheses" in fault("a: [f(x, y)]")


def test_a_key_with_nothing_may_be_meant_in_a_block() -> None:
    assert parse("a:\n  b:\n  c: 1", "file.yaml").data == {"a": {"b": None, "c": 1}}


def test_a_comment_sign_within_an_expression_cuts_it() -> None:
    assert "unequal parentheses" in fault("a: f(x #y)")


def test_a_key_twice() -> None:
    assert fault("a: 1\nb: 2\na: 3") == "file.yaml:3: 'a' stands twice"


def test_a_key_that_is_no_word() -> None:
    assert fault("? [a, b]\n: 1") == "file.yaml:1: a key must be a word"


def test_a_merge_key_is_refused_where_it_would_be_ignored() -> None:
    assert fault("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2") == (
        "file.yaml:3: the merge key << is not part of a pack's form (repeat the entries)"
    )


# -- what is no YAML ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1, 2", "file.yaml:"),
        ("a: b: c", "file.yaml:1"),
        ("a:\n\tb: 1", "file.yaml:2"),
        ("a: *x", "file.yaml:1"),
    ],
)
def test_bad_yaml(text: str, place: str) -> None:
    message = fault(text)
    assert message.startswith(place)
    assert "is not YAML" in message


def test_an_alias_inside_what_it_names() -> None:
    assert "an alias stands inside what it names" in fault("a: &x [*x]")


def test_two_documents_in_one_file() -> None:
    assert "is not YAML" in fault("a: 1\n---\nb: 2")


def test_control_characters() -> None:
    assert "is not YAML" in fault("a: \x07")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"none.yaml: cannot be read: No such file or directory"):
        read(tmp_path / "none.yaml")


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("a: ä".encode("latin-1"))
    with pytest.raises(PackError, match=r"shown.yaml: is not UTF-8"):
        read(path, "shown.yaml")


def test_a_file_that_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes("\ufeffa: 1".encode())
    assert read(path).data == {"a": 1}
