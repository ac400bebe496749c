"""Rotations and sinusoids against formulas, complex numbers, and ONNX's reference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from conformance.language.arithmetic import Array
from trust.mapping import TOLERANCE, Config, Subject, choices, distance, named

WIDTH, THETA = 6, 500.0
POSITIONS = {
    "from 0": np.arange(5),
    "anywhere": np.array([7, 0, 31, 2100, 3]),
    "per sequence": np.array([[0, 0, 1, 2, 3], [4, 5, 6, 7, 90], [2049, 2050, 2051, 1, 0]]),
}


def random(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape)


def rope(x: Array, positions: Array, layout: str) -> Array:
    subject = Subject(choices("llama", rope_theta=THETA, rope_layout=layout), Config(d_head=WIDTH), {})
    axes = "query" if positions.ndim == 1 else "batch query"
    return subject.call(
        "rope", "batch head query dh", x=named("batch head query dh", x), positions=named(axes, positions)
    )


def angles(positions: Array) -> Array:
    """Position times frequency, with an axis for the pairs at the end."""
    return positions[..., None] * THETA ** (-2.0 * np.arange(WIDTH // 2) / WIDTH)


@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rope_is_a_complex_multiplication(layout: str, positions: Array) -> None:
    """A pair is a complex number; its turn is a product with exp(i · angle)."""
    x = random(3, 4, 5, WIDTH)
    # [batch or 1, 1, query, pair]: the same for all heads.
    angle = torch.tensor(
        np.expand_dims(
            np.atleast_3d(angles(positions)) if positions.ndim == 2 else angles(positions)[None], 1
        )
    )
    turn = torch.polar(torch.ones_like(angle), angle)
    pairs = (
        x.reshape(3, 4, 5, 2, WIDTH // 2).swapaxes(-1, -2)
        if layout == "half"
        else x.reshape(3, 4, 5, WIDTH // 2, 2)
    )
    turned = torch.view_as_real(
        torch.view_as_complex(torch.tensor(np.ascontiguousarray(pairs))) * turn
    ).numpy()
    expected = (turned.swapaxes(-1, -2) if layout == "half" else turned).reshape(x.shape)
    assert distance(rope(x, positions, layout), expected) <= TOLERANCE


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rope_is_that_of_onnx(layout: str) -> None:
    """The operator `RotaryEmbedding` of opset 23, as ONNX's own reference computes it."""
    x, positions = random(3, 4, 5, WIDTH), POSITIONS["per sequence"]
    every = angles(np.arange(2100))
    node = onnx.helper.make_node(
        "RotaryEmbedding", ["x", "cos", "sin", "positions"], ["y"], interleaved=int(layout == "interleaved")
    )
    expected = onnx_reference(node, x=x, cos=np.cos(every), sin=np.sin(every), positions=positions)
    assert distance(rope(x, positions, layout), expected) <= TOLERANCE


def onnx_reference(node: onnx.NodeProto, **arrays: Array) -> Array:
    """One node on these inputs."""
    tensor = onnx.helper.make_tensor_value_info
    kinds = {"i": onnx.TensorProto.INT64, "f": onnx.TensorProto.DOUBLE}
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [tensor(name, kinds[a.dtype.kind], a.shape) for name, a in arrays.items()],
        [tensor(node.output[0], onnx.TensorProto.DOUBLE, None)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)])
    result: Any = ReferenceEvaluator(model).run(None, arrays)[0]
    return np.asarray(result)


def test_layouts_differ_by_a_permutation() -> None:
    """Features 0, 2, 4, … and then 1, 3, 5, …: what is interleaved becomes two halves."""
    x, positions = random(3, 4, 5, WIDTH), POSITIONS["anywhere"]
    apart = np.r_[0:WIDTH:2, 1:WIDTH:2]
    interleaved, half = rope(x, positions, "interleaved"), rope(x[..., apart], positions, "half")
    np.testing.assert_array_equal(interleaved[..., apart], half)
    assert distance(rope(x, positions, "half"), interleaved) > 0.1


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_scores_know_only_how_far_apart_two_tokens_are(layout: str) -> None:
    q, k = random(2, 1, 1, 5, WIDTH)

    def scores(shift: int) -> Array:
        positions = np.arange(5) + shift
        return np.asarray(rope(q, positions, layout) @ rope(k, positions, layout).swapaxes(-1, -2))

    assert distance(scores(100), scores(0)) <= TOLERANCE


def test_position_0_is_no_rotation() -> None:
    x = random(3, 4, 5, WIDTH)
    np.testing.assert_array_equal(rope(x, np.zeros(5, int), "half"), x)


@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_sinusoid_is_the_formula_of_the_paper(positions: Array) -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)) and PE(pos, 2i+1) = cos(pos / 10000^(2i/D))."""
    width = 24
    expected = np.empty((*positions.shape, width))
    for at, position in np.ndenumerate(positions):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            expected[(*at, 2 * i)] = math.sin(angle)
            expected[(*at, 2 * i + 1)] = math.cos(angle)
    axes = "query" if positions.ndim == 1 else "batch query"
    got = Subject(choices("vaswani"), Config(d_model=width), {}).call(
        "sinusoid", f"{axes} model", positions=named(axes, positions)
    )
    assert distance(got, expected) <= TOLERANCE
