"""A report in Chinese is in Chinese: no sentence of ours is left in English, whatever came of a run."""

import html.parser
import io
import json
import re

import pytest
from click.testing import CliRunner
from reports_helpers import failing, layered, passing, results, run

from conformance import cli
from conformance.reports.formats import render
from conformance.reports.matrix import render as render_matrix
from conformance.reports.terminal import show
from conformance.results.store import parse_results, read_results

SENTENCE = re.compile(r"[A-Za-z]?[a-z]+(?:[ ,;:]+[a-z]{2,}){3,}")
"""Four English words in a row."""
QUOTED = re.compile(r"`[^`]*`|[\w.]+\([^()]*\)|most recent call first|\"[^\"]*\"|'[^']*'")
THEIRS = "theirs"

RAISES = f'''
variant = "minimal"
def softmax(x, axis): raise ValueError("{THEIRS}")
def ffn(x, w_1, b_1, w_2): return x
def swiglu(x, w_gate, w_up, w_down): return [1]
def rms_norm(x, weight, eps): return x.astype("float16")
def layer_norm(x, weight, bias, eps): return x[:, 1:]
def rope(x, positions, theta): raise NotImplementedError("{THEIRS}")
def attention(q, k, v, mask=None): return q * float("nan"), None
def block(x, params, config): return x
multi_head_attention = 3
'''
CRASHES = """
import os, time
def softmax(x, axis): os._exit(3)
def rms_norm(x, weight, eps): time.sleep(60)
def swiglu(x, w_gate, w_up, w_down): os.abort()
def layer_norm(x, weight, bias, eps): return x, x, x
def ffn(x, w_1, b_1, w_2, b_2):
    x[:] = 0
    return x
def attnetion(q, k, v): return q
"""
MODEL = """
variant = "llama"
class Model:
    def __init__(self, config, params): self.config = config
    def forward(self, tokens, cache=None):
        print("{0}")
        return None if cache is None else ({1}, cache)
"""
WAIVERS = 'waivers: [{claim: "q007.*", reason: 以后再讲, expires: "2099-01-01"}]'


def english(text):
    """English sentences in a text, what is quoted and what is theirs aside."""
    return SENTENCE.findall(QUOTED.sub("", text.replace(THEIRS, "")))


@pytest.fixture(
    scope="module",
    params=["raises", "crashes", "model", "import", "declares", "missing", "waived", "program"],
)
def graded(request, tmp_path_factory):
    """The results of a run of each sort, as the command leaves them."""
    home = tmp_path_factory.mktemp(request.param)
    name, options = f"{request.param}.py", []
    match request.param:
        case "raises" | "waived":
            (home / name).write_text(RAISES, encoding="utf-8")
        case "crashes":
            (home / name).write_text(CRASHES, encoding="utf-8")
            options = ["--timeout", "0.5", "--select", "rung:operation"]
        case "model":
            (home / name).write_text(MODEL.format(THEIRS, "tokens"), encoding="utf-8")
            options = ["--select", "q005.*,q008.*"]
        case "import":
            (home / name).write_text(f"raise ValueError('{THEIRS}')", encoding="utf-8")
        case "declares":
            (home / name).write_text('variant = "lama"', encoding="utf-8")
        case "missing":
            (home / name).write_text("dtype = 3", encoding="utf-8")
    if request.param == "waived":
        (home / "waive.yaml").write_text(WAIVERS, encoding="utf-8")
        options = [
            "--waive",
            str(home / "waive.yaml"),
            "--require",
            "rung:graph",
            "--select",
            "rung:operation",
        ]
    if request.param == "program":
        target, options = ["program"], ["--variant", "gpt2", "--select", "q007.*"]
    else:
        target = [str(home / name)]
    done = CliRunner().invoke(
        cli.main, ["run", *target, *options, "-q", "--lang", "zh", "-o", str(home / "report")]
    )
    assert done.exit_code in (0, 1, 2, 3), done.output
    return read_results(home / "report")


def texts(value, at=""):
    """Every text in both languages."""
    if isinstance(value, dict) and set(value) == {"en", "zh"}:
        yield at, value["en"], value["zh"]
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, f"{at}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, f"{at}[]")


def test_no_text_in_the_results_is_english_in_chinese(graded):
    lines = [graded.run, *graded.claims.values(), *graded.verdicts, graded.end]
    found = list(texts(lines))
    assert found
    assert not {(at, zh) for at, _, zh in found if english(zh)}
    # And none is the same in both, but for what nothing is to be said of.
    same = {(at, en) for at, en, zh in found if en == zh and english(en)}
    assert not same


class Visible(html.parser.HTMLParser):
    """What a page shows when it is read in Chinese: no code, and nothing that is marked as English."""

    VOID = ("meta", "path", "rect", "input", "br")

    def __init__(self, source):
        super().__init__()
        self.hidden, self.open, self.text = 0, [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        if tag in self.VOID or tag in ("td", "th"):  # may stay open
            return
        found = dict(attrs)
        hides = (
            tag in ("code", "pre", "script", "style", "title", "head")
            or found.get("lang") == "en"
            or "id" in (found.get("class") or "").split()
        )
        self.open.append((tag, hides))
        self.hidden += hides

    def handle_endtag(self, tag):
        while self.open and tag not in ("td", "th"):
            name, hides = self.open.pop()
            self.hidden -= hides
            if name == tag:
                break

    def handle_data(self, data):
        if not self.hidden:
            self.text.append(data)


def shown(read, name):
    if name == "terminal":
        stream = io.StringIO()
        show(read, "zh", stream)
        return stream.getvalue()
    text = render_matrix(read, "zh") if name == "matrix" else render(read, name, "zh")
    return "\n".join(Visible(text).text) if name in ("html", "matrix") else text


CODE = re.compile(
    r"^ *(?:import|data|spec|target|print|sys|#|from|call|got|output|expected|model|result|params|class|config)\b.*$",
    re.MULTILINE,
)


@pytest.mark.parametrize(
    "name", ["html", "matrix", "markdown", "gradescope", "junit", "ctrf", "csv", "terminal"]
)
def test_nothing_that_a_reader_sees_is_english(graded, name):
    text = shown(graded, name)
    if name in ("gradescope", "ctrf"):
        text = "\n".join(str(value) for value in values(json.loads(text)))
    if name == "csv":
        text = text.partition("\n")[2]  # names of columns are for programs
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert not set(english(CODE.sub("", text)))


def values(document):
    match document:
        case dict():
            for item in document.values():
                yield from values(item)
        case list():
            for item in document:
                yield from values(item)
        case _:
            yield document


@pytest.mark.parametrize("name", ["html", "matrix", "markdown", "gradescope", "junit", "terminal"])
@pytest.mark.parametrize(
    "read",
    [
        results(passing()), results(failing()), results(layered()), results(failing()[:-1]), results([run(schema=2), *passing()[1:]]),
        parse_results([json.dumps(run()), '{"kind": "new"}', '{"kind": "verd'], "results.jsonl"),
    ],
    ids=["passing", "failing", "layered", "interrupted", "newer", "cut off"],
)  # fmt: skip
def test_made_up_runs_are_in_chinese_too(read, name):
    text = re.sub(r"Title of [\w.]+|print\(.*|import numpy.*", "", shown(read, name))
    assert not set(english(text))
