"""Results that are no whole file of this version: said plainly, and shown as far as they go, in every format."""

import html
import io
import json
import re

import pytest
from click.testing import CliRunner
from reports_helpers import claim, end, failed, failing, layered, passing, run, verdict

from conformance import cli
from conformance.reports.formats import FORMATS, render
from conformance.reports.terminal import show
from conformance.results.store import parse_results

TELLING = [*(name for name in FORMATS if name not in ("csv", "badge", "matrix")), "terminal"]
"""Formats that have a place for a note; the others are told of on stderr."""


def rows(lines):
    return [json.dumps(line) for line in lines]


CASES = {
    "interrupted": (rows(failing()[:-1]), "the file has no end line", "没有结束行"),
    "truncated": ([*rows(failing()[:9]), rows(failing())[9][:40]], "line 10 is cut off or no JSON", "第 10 行被截断"),
    "in the middle": ([*rows(failing()[:4]), "\x00\x00garbage", *rows(failing()[4:])], "line 5 is cut off or no JSON", "第 5 行被截断"),
    "newer": (rows([run(schema=7), *failing()[1:]]), "written by a newer version (schema 7)", "由更新的版本写成（schema 7）"),
    "no schema": (rows([{"kind": "run", "target": "a.py"}, *failing()[1:]]), "written by another version (schema None)", "由其他版本写成"),
    "new kinds": (rows([*failing()[:2], {"kind": "remark", "text": "x"}, *failing()[2:]]), "line 3 is of an unknown kind 'remark'", "第 3 行种类未知"),
    "two runs": (rows([*failing(), run(pack="other", target="b.py"), claim("zzz"), verdict("zzz"), end(True)]), "begins another run", "另一次评测的开头"),
}  # fmt: skip


def shown(read, name, lang):
    if name == "terminal":
        stream = io.StringIO()
        show(read, lang, stream)
        return re.sub(r"\s+", " " if lang == "en" else "", stream.getvalue())
    text = render(read, name, lang)
    if name in ("html", "junit", "markdown"):
        text = html.unescape(text).replace("\\", "")
    return text if lang == "en" else text.replace(" ", "")


@pytest.mark.parametrize("name", TELLING)
@pytest.mark.parametrize("case", CASES)
def test_it_is_said_and_what_there_is_is_shown(case, name):
    lines, en, zh = CASES[case]
    read = parse_results(lines, "results.jsonl")
    for lang, says in (("en", en), ("zh", zh.replace(" ", ""))):
        if name == "json" and (case == "interrupted" or lang == "zh"):
            assert json.loads(render(read, name))["end"] is None or lang == "zh"
            continue
        text = shown(read, name, lang)
        assert says in text.replace("\n", " ")
        # What was read is there.
        assert "q006.attention" in text
        assert "zzz" not in text


@pytest.mark.parametrize("name", [*FORMATS, "terminal"])
def test_every_beginning_of_a_file_is_shown(name):
    """Cut off anywhere, it is read as far as it goes."""
    whole = "\n".join(rows(layered()))
    for part in range(1, 12):
        text = whole[: len(whole) * part // 12]
        if "\n" not in text:
            continue
        assert shown(parse_results(text.split("\n"), "results.jsonl"), name, "en")


NEWER = [
    run(schema=9, flow={"nodes": []}, notes={"en": "x"}, isolation={"kind": "vm"}),
    claim("a", rung="training", level="MAY NOT", statements={"Q1": 1}, title="a title"),
    verdict("a", "training", "uncertain", margin={"low": 1}, profiles={"by": "layer"}, diagnosis={"m": 1}, where=[1], evidence=[{"tensor": "z"}], seconds="3"),
    failed("b", "training", evidence={"tensor": "z", "index": [1, 2], "got": [1], "expected": None, "arrays": {"sparse": 1}}),
    {"kind": "end", "conforms": "partly", "counts": 3, "causes": {"a": 1}, "first_broken": "a", "waivers": {"a": 1}, "sentence": "in part"},
]  # fmt: skip


@pytest.mark.parametrize("name", [*FORMATS, "terminal"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_fields_of_another_form_are_no_error(name, lang):
    text = shown(parse_results(rows(NEWER), "results.jsonl"), name, lang)
    assert text
    if name not in ("badge", "json", "csv"):
        assert "conforms in all" not in text


def test_results_of_different_packs_are_not_taken_for_one(tmp_path):
    folders = []
    for pack in ("one", "two"):
        folder = tmp_path / pack
        folder.mkdir()
        (folder / "results.jsonl").write_text(
            "\n".join(rows([run(pack=pack), *passing()[1:]])), encoding="utf-8"
        )
        folders.append(str(folder))
    invoke = CliRunner().invoke
    page = invoke(cli.main, ["report", *folders, "--to", "matrix"]).stdout
    assert "Results of several packs: one 0.1.0, two 0.1.0" in page
    assert "结果来自不同的规范包" in page
    assert (
        "pack differs: one 0.1.0 before, two 0.1.0 after"
        in invoke(cli.main, ["report", *folders, "--to", "diff"]).stdout
    )
