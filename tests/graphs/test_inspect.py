"""`inspect` reads right graphs as they were built, and wrong ones as they are."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from conformance.cli import main
from conformance.judging.graph_checks import CHECKS, Finding
from conformance.onnx.attention import grouping_of
from conformance.onnx.describe import describe
from conformance.onnx.facts import GraphFacts
from conformance.onnx.reading import read_model
from conformance.onnx.structure import read_structure
from graphs.exported import Export
from graphs.handmade import Plan, build, save
from graphs.plans import GPT2, RIGHT


def facts_of(path: Path, names: dict[str, Any] | None = None) -> GraphFacts:
    return describe(read_structure(read_model(path), names), path.name)


def built(plan: Plan, folder: Path) -> GraphFacts:
    return facts_of(save(build(plan), folder / "model.onnx"))


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_graph_is_read_in_full(name: str, tmp_path: Path) -> None:
    plan, variant = RIGHT[name]
    facts = built(plan, tmp_path)
    assert facts.variant == variant
    assert facts.sizes["n_layers"] == 2
    assert facts.sizes["n_heads"] == 4
    assert facts.sizes["d_model"] == 24
    assert facts.sizes["d_ff"] == 20
    assert facts.misfits == []
    assert facts.unread == {}
    assert [[block.kind for block in layer.blocks] for layer in facts.layers] == [
        ["attention", "feed_forward"]
    ] * 2
    assert {block.source for layer in facts.layers for block in layer.blocks} == {"stream"}
    for attention in facts.attentions:
        assert attention.softmax_axis == "key"
        assert attention.scale == pytest.approx(1 / math.sqrt(6), rel=1e-3)
        assert (attention.mask.kind, attention.mask.offset) == ("causal", 0)
        assert attention.mask.padding is (True if plan.padded else None)
        assert attention.grouping == ("repeat" if plan.kv_heads == 2 else "none")
        assert attention.kv_heads == plan.kv_heads
        assert attention.problems == []
        assert attention.k is not None
        assert attention.k.projection is not None
        assert (attention.k.past is not None) is plan.cached
        assert (attention.k.joined_along == "key") is plan.cached
        assert (attention.k.rope is not None) is (plan.position == "rope")


CACHED = Plan(cached=True)


@dataclasses.dataclass(frozen=True)
class Wrong:
    """A mistake, and where it has to show: a function of the facts, and what it gives."""

    mistake: str
    shows: Callable[[GraphFacts], Any]
    value: Any
    plan: Plan = CACHED


def last(facts: GraphFacts) -> Any:
    return facts.attentions[-1]


WRONG = [
    Wrong("softmax-over-query", lambda f: last(f).softmax_axis, "query"),
    Wrong("softmax-over-head", lambda f: last(f).softmax_axis, "head"),
    Wrong("scale-by-model-width", lambda f: last(f).scale, 0.204124),
    Wrong("scale-by-width", lambda f: last(f).scale, 0.166667),
    Wrong("scale-dropped", lambda f: last(f).scale, 1.0),
    Wrong("mask-dropped", lambda f: last(f).mask.kind, "none"),
    Wrong("mask-dropped-here", lambda f: [a.mask.kind for a in f.attentions], ["causal", "none"]),
    Wrong("mask-late", lambda f: last(f).mask.offset, 1),
    Wrong("mask-early", lambda f: last(f).mask.offset, -1),
    Wrong("mask-top-left", lambda f: last(f).mask.past_ignored, True),
    Wrong("mask-inverted", lambda f: last(f).mask.kind, "other"),
    Wrong("mask-after-softmax", lambda f: (last(f).mask.kind, len(last(f).problems)), ("none", 1)),
    Wrong("padding-ignored", lambda f: last(f).mask.padding, False),
    Wrong("fill-small", lambda f: last(f).mask.fill, -10.0),
    Wrong("heads-tiled", lambda f: last(f).grouping, "tile"),
    Wrong("split-without-transpose", lambda f: len(last(f).problems), 1),
    Wrong("keys-of-another-layer", lambda f: last(f).k.weight, "layers.0.attention.w_k"),
    Wrong("value-from-keys", lambda f: last(f).v.weight, "layers.1.attention.w_k"),
    Wrong("rope-on-keys-only", lambda f: last(f).q.rope, None),
    Wrong("rope-sign", lambda f: last(f).q.rope["note"], "no rotation: a sign is wrong"),
    Wrong("rope-theta", lambda f: f.choices["rope_theta"], 1000.0),
    Wrong("positions-reset", lambda f: last(f).q.rope["offset"] + f.tried["past"], 0),
    Wrong("positions-late", lambda f: last(f).q.rope["offset"], 1),
    Wrong("positions-late", lambda f: f.position_offset, 1, Plan(**GPT2, cached=True)),
    Wrong("past-ignored", lambda f: (last(f).k.reads_past, f.attentions[0].k.reads_past), (False, True)),
    Wrong("past-behind", lambda f: (last(f).k.past_first, f.attentions[0].k.past_first), (False, True)),
    Wrong("residual-from-normed", lambda f: f.layers[1].blocks[0].source, "normed"),
    Wrong("ffn-residual-from-x", lambda f: f.layers[-1].blocks[-1].source, "another"),
    Wrong("attention-dropped", lambda f: [b.kind for b in f.layers[1].blocks], ["feed_forward"]),
    Wrong("ffn-dropped", lambda f: [b.kind for b in f.layers[1].blocks], ["attention"]),
    Wrong("final-norm-dropped", lambda f: f.final_norm, None),
    Wrong("activation-dropped", lambda f: f.layers[1].blocks[1].feed_forward, "none", Plan(**GPT2)),
    Wrong("gate-unused", lambda f: f.layers[1].blocks[1].feed_forward, "silu"),
    Wrong("sigmoid-gate", lambda f: f.layers[1].blocks[1].feed_forward, "gated sigmoid"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: f"{w.mistake}-{w.plan.position}")
def test_a_wrong_graph_is_read_as_it_is(wrong: Wrong, tmp_path: Path) -> None:
    facts = built(dataclasses.replace(wrong.plan, mistake=wrong.mistake), tmp_path)
    assert wrong.shows(facts) == wrong.value
    right = built(wrong.plan, tmp_path)
    assert wrong.shows(right) != wrong.value


def test_normed_queries_are_read(exported: Callable[[Export], Path]) -> None:
    facts = facts_of(exported(Export("qwen3", "sdpa", 20)))
    assert facts.variant == {"base": "llama", "qk_norm": "head"}
    assert {a.q.norm for a in facts.attentions if a.q is not None} == {"rms_norm"}


def test_the_command_prints_a_tree_and_json(tmp_path: Path) -> None:
    path = save(build(Plan()), tmp_path / "model.onnx")
    tree = CliRunner().invoke(main, ["inspect", str(path)])
    assert tree.exit_code == 0
    assert "softmax over: key" in tree.output
    assert "variant: llama" in tree.output
    data = CliRunner().invoke(main, ["inspect", str(path), "--format", "json"])
    assert data.exit_code == 0
    facts = json.loads(data.output)
    assert facts["variant"] == "llama"
    assert facts["attentions"][0]["mask"]["fill"] == "-Infinity"


def test_names_that_nobody_knows_are_told_by_a_map(tmp_path: Path) -> None:
    model = build(Plan(padded=False))
    names = {"input_ids": "aleph", "logits": "omega"}
    for node in model.graph.node:
        for group in (node.input, node.output):
            for i, name in enumerate(group):
                group[i] = names.get(name, name)
    model.graph.input[0].name, model.graph.output[0].name = "aleph", "omega"
    path = save(model, tmp_path / "model.onnx")
    assert facts_of(path, {"tokens": "aleph", "logits": "omega"}).variant == "llama"
    table = tmp_path / "map.yaml"
    table.write_text("tokens: beth\n")
    result = CliRunner().invoke(main, ["inspect", str(path), "--map", str(table)])
    assert result.exit_code == 3
    assert "--map names 'beth' as the tokens; there are aleph" in result.output
    table.write_text("token: aleph\n")
    result = CliRunner().invoke(main, ["inspect", str(path), "--map", str(table)])
    assert result.exit_code == 2
    assert "'token' is none of tokens, attention_mask" in result.output


def test_sizes_that_are_built_in_are_seen(tmp_path: Path) -> None:
    from onnx import numpy_helper

    model = build(Plan(padded=False))
    for node in model.graph.node:  # the heads are split off for 5 tokens, whatever comes in
        if node.op_type == "Reshape" and node.name.startswith("Reshape"):
            name = node.input[1]
            for weight in model.graph.initializer:
                if weight.name == name and list(numpy_helper.to_array(weight)) == [0, 0, 4, 6]:
                    weight.CopyFrom(
                        numpy_helper.from_array(np.add(numpy_helper.to_array(weight), [0, 5, 0, 0]), name)
                    )
    facts = facts_of(save(model, tmp_path / "model.onnx"))
    assert facts.misfits[0].at.op_type == "Reshape"
    assert "does not fit into" in facts.misfits[0].message


def phrases() -> list[str]:
    """Every phrase that the tree says, as it stands in its source."""
    import ast
    import inspect

    from conformance.onnx import tree

    calls = [n for n in ast.walk(ast.parse(inspect.getsource(tree))) if isinstance(n, ast.Call)]
    said = [c.args[0] for c in calls if isinstance(c.func, ast.Name) and c.func.id == "say"]
    found = [node for argument in said for node in ast.walk(argument) if isinstance(node, ast.Constant)]
    return [n.value for n in found if isinstance(n.value, str) and n.value and "past" not in n.value[-6:]]


def test_the_tree_is_the_same_in_chinese(tmp_path: Path) -> None:
    import re

    from conformance.onnx.tree import tree
    from conformance.onnx.tree_zh import WORDS

    assert [phrase for phrase in phrases() if phrase not in WORDS] == []
    for english, chinese in WORDS.items():
        assert sorted(re.findall(r"{[^}]*}", english)) == sorted(re.findall(r"{[^}]*}", chinese)), english
    facts = built(Plan(cached=True), tmp_path)
    one, other = (tree(facts, lang).splitlines() for lang in ("en", "zh"))
    assert len(one) == len(other)
    assert "因果" in "".join(other)
    assert not re.search("attention\\b|norm before|unknown", "\n".join(li for li in other if "_" not in li))


def test_a_rotation_on_axes_of_its_own_is_read(tmp_path: Path) -> None:
    """As the program writes it: pairs are split off on an axis, turned, and merged, in either layout."""
    from conformance.exporting.files import write
    from conformance.exporting.made import Model
    from conformance.exporting.program_export import export_program
    from conformance.locations import bundled
    from conformance.pack.load import load_pack
    from conformance.plan.variants import variant_of

    pack = load_pack(bundled("spec") / "forward-pass")
    for layout in ("half", "interleaved"):
        variant = variant_of(pack, {"base": "llama", "rope_layout": layout}, "a test")
        model, _ = export_program(Model(pack, variant, {"n_layers": 1}), True, "float32", 18)
        write(model, tmp_path / "model.onnx", external=False)
        facts = facts_of(tmp_path / "model.onnx")
        assert [a.q.rope and (a.q.rope["layout"], a.q.rope["theta"]) for a in facts.attentions if a.q] == [
            (layout, 10000.0)
        ]
        assert facts.choices["rope_layout"] == layout


def test_how_heads_are_shared() -> None:
    """Values may come from other heads than the keys do (differential attention): that is no order of sharing."""
    rows = np.arange(24).reshape(4, 6)
    two, tiled, one = rows[[0, 0, 1, 1]], rows[[0, 1, 0, 1]], rows[[0, 0, 0, 0]]
    assert grouping_of(rows, rows) == ("none", 4)
    assert grouping_of(two, two) == ("repeat", 2)
    assert grouping_of(tiled, tiled) == ("tile", 2)
    assert grouping_of(two, tiled) == ("other", None)
    assert grouping_of(two, one) == (None, None)


@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize(("held", "other"), [("gelu_tanh", "gelu"), ("gelu", "gelu_tanh")])
def test_of_two_networks_the_one_that_the_model_is_not_held_to_is_odd(
    odd: int, held: str, other: str, tmp_path: Path
) -> None:
    facts = built(Plan(**GPT2), tmp_path)
    layers = [
        msgspec.structs.replace(
            layer,
            blocks=[
                msgspec.structs.replace(b, feed_forward=b.feed_forward and (other if i == odd else held))
                for b in layer.blocks
            ],
        )
        for i, layer in enumerate(facts.layers[:2])
    ]
    made = msgspec.structs.replace(facts, layers=layers)
    results = list(CHECKS["networks"](made, {"ffn": held}))
    assert [r.right for r in results if isinstance(r, Finding)] == [i != odd for i in range(2)]
