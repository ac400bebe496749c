"""The layers of a model one by one, and how an error runs along them and along positions."""

import itertools
import math
import re

import pytest
from reports_helpers import (
    ALONG_LAYERS,
    ALONG_POSITIONS,
    OWN_STAGES,
    claim,
    drawn,
    end,
    failed,
    failing,
    layered,
    passing,
    results,
    run,
)

from conformance.reports import charts, html
from conformance.reports.layers import MOST, stacks
from conformance.reports.reading import report_of
from conformance.results.records import Profile


def strip(lines):
    return {
        stack.name: [layer.state for layer in stack.layers] for stack in stacks(report_of(results(lines)))
    }


def model(*profiles, **more):
    return [run(), claim("a", "model"), failed("a", "model", profiles=list(profiles), **more), end(False)]


def evidence(tensor):
    return {"tensor": tensor, "index": {}, "got": 1, "expected": 2, "tolerance": 0.1, "arrays": {}}


@pytest.mark.parametrize(
    ("lines", "states"),
    [
        # Wrong itself; what follows is only given a wrong input.
        (layered(), {"": ["good", "bad", "silent"]}),
        # Against the program alone, the first that is off is the wrong one.
        (model(ALONG_LAYERS, evidence=evidence("logits")), {"": ["good", "bad", "silent"]}),
        (model(OWN_STAGES, evidence=evidence("layers.1.z")), {"": ["good", "bad", "unseen"]}),
        # Of a layer that nothing speaks of, nothing is said.
        (model(evidence=evidence("layers.3.z")), {"": ["unseen", "unseen", "unseen", "bad"]}),
        (
            model({**ALONG_LAYERS, "tensors": ["encoder.layers.0.y", "encoder.layers.1.y", "decoder.layers.0.y", "logits"]}, evidence=evidence("logits")),
            # What a decoder is given is wrong when its encoder is.
            {"encoder": ["good", "bad"], "decoder": ["silent"]},
        ),
        (passing(), {}),
        (model(evidence=evidence("logits")), {}),
        (model(evidence=evidence("layers.999.z")), {}),
    ],
)  # fmt: skip
def test_each_layer_has_the_state_of_what_was_found_in_it(lines, states):
    assert strip(lines) == states


def test_the_source_tells_which_layer_was_right_and_which_is_wrong():
    where = {
        "file": "m.py", "line": 9, "text": "", "variable": "s", "expected": "layers.1.scores",
        "last_right": {"file": "m.py", "line": 8, "text": "", "variable": "q", "expected": "layers.0.y"},
    }  # fmt: skip
    assert strip(model(evidence=evidence("logits"), where=where)) == {"": ["good", "bad"]}


def test_the_first_wrong_layer_is_marked_once():
    (stack,) = stacks(report_of(results(layered())))
    assert [layer.first for layer in stack.layers] == [False, True, False]
    assert len(stacks(report_of(results(model(evidence=evidence(f"layers.{MOST - 1}.z")))))[0].layers) == MOST


# -- charts --------------------------------------------------------------------------------------------


def test_bars_grow_with_the_error_and_stay_in_their_picture():
    profile = Profile("layer", ("layers.0.y", "layers.1.y", "layers.2.y", "layers.3.y", "logits"), (0.0, 0.5, 3.0, 1e30, math.inf))  # fmt: skip
    drawing = charts.chart(profile)
    heights = [bar.height for bar in drawing.bars]
    assert heights == sorted(heights)
    assert [bar.kind for bar in drawing.bars] == ["fine", "fine", "off", "off", "off"]
    # What is off stands over the line of the tolerance, and nothing else does.
    assert [bar.y < drawing.limit for bar in drawing.bars] == [False, False, True, True, True]
    for bar in drawing.bars:
        assert charts.LEFT <= bar.x < bar.x + bar.width <= charts.WIDTH
        assert 0 <= bar.y <= bar.y + bar.height <= charts.HEIGHT
    assert [mark.text for mark in drawing.labels] == ["0", "1", "2", "3", "logits"]
    assert [row[2] for row in drawing.rows] == ["0", "0.5", "3", "1e+30", "∞"]


def test_calls_are_parted_and_stand_beside_the_one_call():
    drawing = charts.chart(Profile("position", ("logits",), (0.1, 0.2, 400.0, None, 2e3), calls=(2, 1, 2), at_once=(0.1,) * 5))  # fmt: skip
    assert len(drawing.borders) == 2
    assert [bar.kind for bar in drawing.bars] == ["fine", "fine", "off", "off", *["fine once"] * 5]
    assert [row[:3] for row in drawing.rows] == [
        ("0", "0", "0.1"),
        ("1", "0", "0.2"),
        ("2", "1", "400"),
        ("3", "2", "–"),
        ("4", "2", "2,000"),
    ]
    between = drawing.borders[0]
    assert drawing.bars[1].x < between < drawing.bars[2].x


@pytest.mark.parametrize("n", [2, 17, 512])
def test_labels_do_not_run_into_each_other(n):
    drawing = charts.chart(Profile("position", ("logits",), (0.5,) * n))
    xs = [mark.x for mark in drawing.labels]
    assert min((b - a for a, b in itertools.pairwise(xs)), default=99) > 20


def test_a_page_has_the_strip_and_both_charts():
    page = html.render(results(layered()))
    assert page.count('<figure class="chart">') == 3
    assert re.findall(r'class="tile (\w+)( first)?"', page) == [
        ("good", ""),
        ("bad", " first"),
        ("silent", ""),
    ]
    assert page.count('<a href="#p') >= 3
    assert "Decode against prefill" in page
    assert "解码与预填充对比" in page
    # A run without a model has neither.
    for lines in (failing(), passing(), drawn()):
        assert '<figure class="chart">' not in html.render(results(lines))


@pytest.mark.parametrize(
    "profiles",
    [
        None, 3, "x", {}, [None], [{}], [{"over": "layer"}], [{"over": "time", "tensors": ["a"], "margins": [1]}],
        [{"over": "layer", "tensors": None, "margins": [1, 2]}],
        [{"over": "layer", "tensors": ["layers.0.y"], "margins": [None, "NaN", -1]}],
        [{"over": "position", "tensors": ["logits"], "margins": ["x", 1e400, "Infinity", True, 0], "calls": [-1, True, 10**9, "2", 1], "at_once": [{}]}],
        [{"over": "position", "tensors": ["<script>"], "margins": [5] * 10**5, "calls": [1] * 10**5, "at_once": [7] * 10**5}],
        [{"over": "layer", "tensors": ["<b>.layers.0.<script>alert(1)</script>"] * 9, "margins": [5] * 9}],
    ],
)  # fmt: skip
def test_profiles_that_are_none_are_no_error(profiles):
    lines = [run(), *(line for i in range(90) for line in (claim(f"a{i}", "model"), failed(f"a{i}", "model", profiles=profiles))), end(False)]  # fmt: skip
    page = html.render(results(lines))
    assert len(page.encode()) <= html.MAX_BYTES
    assert "<script>alert" not in page


def test_what_a_hint_says_has_no_margin_in_it():
    from conformance.reports.reveal import revealed

    for level in ("hint", "none"):
        read = revealed(results(layered()), level)
        assert all("profiles" not in line for line in read.verdicts)
        page = html.render(read)
        assert "50000" not in page
        assert "50,000" not in page
    assert ALONG_POSITIONS["margins"]  # the file of the test itself is as it was
