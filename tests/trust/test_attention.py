"""Attention against PyTorch's, and the worked example that stands in print."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from conformance.language.arithmetic import Array
from trust.mapping import TOLERANCE, Config, Subject, array, attention, choices, distance, named, randomised

BATCH, HEADS, WIDTH = 3, 6, 4


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def inputs(tq: int, tk: int, kv_heads: int = HEADS, dv: int = WIDTH) -> tuple[Tensor, Tensor, Tensor]:
    return (
        random(BATCH, HEADS, tq, WIDTH, seed=1),
        random(BATCH, kv_heads, tk, WIDTH, seed=2),
        random(BATCH, kv_heads, tk, dv, seed=3),
    )


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool | None = None
) -> tuple[Array, Array]:
    """Output and weights of the operation `attention`; a mask of size 1 along an axis has not that axis."""
    config = Config(n_heads=q.shape[1], n_kv_heads=k.shape[1], d_head=q.shape[3], d_value=v.shape[3])
    given = {
        "q": named("batch head query dh", q),
        "k": named("batch kv_head key dh", k),
        "v": named("batch kv_head key dv", v),
    }
    if mask is not None:
        lead = [axis for axis, size in zip(("batch", "head"), mask.shape, strict=False) if size > 1]
        given["mask"] = named(" ".join([*lead, "query", "key"]), mask.squeeze())
    if is_causal is not None:
        given["is_causal"] = named("", is_causal)
    reading = Subject(choices("minimal"), config, {}).reading()
    output = array(reading.call("attention_operation", given), "batch head query dv")
    return output, array(reading.taps["weights"], "batch head query key")


@pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])
@pytest.mark.parametrize(("tq", "tk"), [(5, 5), (4, 7), (7, 4), (1, 5), (5, 1), (90, 90)])
def test_unmasked(tq: int, tk: int, kv_heads: int) -> None:
    """Value vectors have a width of their own."""
    q, k, v = inputs(tq, tk, kv_heads, dv=3)
    got, _ = attend(q, k, v)
    assert distance(got, functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)) <= TOLERANCE


@pytest.mark.parametrize("scale", [2.0**-10, 64.0])
def test_scores_of_any_size(scale: float) -> None:
    """Scores in the thousands overflow an exponential whose maximum was not taken away."""
    q, k, v = inputs(5, 7)
    got, _ = attend(q * scale, k * scale, v)
    assert distance(got, functional.scaled_dot_product_attention(q * scale, k * scale, v)) <= TOLERANCE


@pytest.mark.parametrize("kv_heads", [6, 2])
@pytest.mark.parametrize("length", [1, 5, 90])
def test_causal(length: int, kv_heads: int) -> None:
    q, k, v = inputs(length, length, kv_heads)
    got, _ = attend(q, k, v, is_causal=True)
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert distance(got, expected) <= TOLERANCE


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("lead", [(1, 1), (BATCH, 1), (1, HEADS), (BATCH, HEADS)])
def test_masked(lead: tuple[int, int], is_causal: bool) -> None:
    """PyTorch takes a mask or a causal flag; ours are both in force. Some rows see nothing, and are zero in both."""
    q, k, v = inputs(5, 5)
    mask = random(*lead, 5, 5, seed=4) > 0
    mask[..., 3, :] = False
    seen = mask & torch.ones(5, 5, dtype=torch.bool).tril() if is_causal else mask
    got, _ = attend(q, k, v, mask, is_causal)
    assert distance(got, functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)) <= TOLERANCE


@pytest.mark.parametrize(("tq", "tk"), [(3, 7), (1, 5), (5, 5), (7, 3)])
def test_causal_where_query_and_key_differ_in_number(tq: int, tk: int) -> None:
    """The last query sees every key, as in `causal_lower_right` of PyTorch, which has no rows that see nothing."""
    q, k, v = inputs(tq, tk)
    got, weights = attend(q, k, v, is_causal=True)
    seen = causal_lower_right(tq, tk) if tq <= tk else torch.ones(tq, tk, dtype=torch.bool).tril(tk - tq)
    assert distance(got, functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)) <= TOLERANCE
    i, j = np.ogrid[:tq, :tk]
    np.testing.assert_array_equal(weights != 0, np.broadcast_to(j <= i + tk - tq, weights.shape))
    assert (weights[:, :, -1] > 0).all()


def test_a_query_that_sees_nothing_gets_zero() -> None:
    q, k, v = inputs(5, 7)
    mask = torch.ones(BATCH, 1, 5, 7, dtype=torch.bool)
    mask[1, :, 2] = False
    got, weights = attend(q, k, v, mask)
    assert not got[1, :, 2].any()
    assert not weights[1, :, 2].any()
    unmasked, _ = attend(q, k, v)
    unmasked[1, :, 2] = 0
    assert distance(got, unmasked) <= TOLERANCE


# -- with its projections -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "all"])
def test_multi_head_attention(causal: bool, biased: bool) -> None:
    """Weights as well as outputs against `torch.nn.MultiheadAttention`, with tokens padded away at either end."""
    module = randomised(nn.MultiheadAttention(24, 4, bias=biased, batch_first=True), seed=5)
    subject = Subject(
        choices("minimal", bias="all" if biased else "none", causal=causal), Config(), attention(module)
    )
    x, mask = random(3, 5, 24, seed=6), np.arange(5) < np.array([[5], [4], [2]])
    with torch.no_grad():
        expected, expected_weights = module(
            *(x, x, x),
            key_padding_mask=torch.tensor(~mask),
            average_attn_weights=False,
            attn_mask=torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None,
        )
    reading = subject.reading()
    given = {"x": named("batch query model", x), "attention_mask": named("batch key", mask)}
    got = array(reading.call("self_attention_operation", given), "batch query model")
    assert distance(got, expected) <= TOLERANCE
    assert distance(array(reading.taps["weights"], "batch head query key"), expected_weights) <= TOLERANCE


@pytest.mark.parametrize("position", ["none", "rope"])
def test_cross_attention(position: str) -> None:
    """Queries read another sequence, all of it, and nothing turns, even where self-attention has RoPE."""
    module = randomised(nn.MultiheadAttention(24, 4, batch_first=True), seed=7)
    subject = Subject(choices("minimal", bias="all", position=position), Config(), attention(module))
    x, memory = random(3, 5, 24, seed=8), random(3, 7, 24, seed=9)
    got = subject.call(
        "cross_attention",
        "batch query model",
        x=named("batch query model", x),
        context=named("batch context model", memory),
    )
    assert distance(got, module(x, memory, memory, need_weights=False)[0]) <= TOLERANCE


# -- in print -----------------------------------------------------------------------------------------------------


def printed(values: Array) -> list[str]:
    return [f"{value:.6f}" for value in values]


def test_the_worked_example() -> None:
    """Three tokens, one head, no norm and no rotation: every digit that is printed."""
    identity = np.eye(2)
    parameters = {
        "w_q": identity,
        "w_k": identity,
        "w_v": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "w_o": identity,
    }
    config = replace(Config(), d_model=2, n_heads=1, n_kv_heads=1, d_head=2, d_value=2)
    reading = Subject(choices("minimal"), config, parameters).reading()
    x = named("batch query model", [[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    output = array(reading.call("self_attention_operation", {"x": x}), "batch query model")[0]

    def tap(name: str, axes: str) -> Array:
        return array(reading.taps[name], f"batch {axes}")[0, 0]

    assert tap("q", "head query dh")[2].tolist() == [1, 1]
    assert tap("v", "kv_head context dv").tolist() == [[1, 2], [3, 4], [4, 6]]
    assert np.round(tap("scores", "head query key")[2] * np.sqrt(2), 12).tolist() == [1, 1, 2]
    assert [f"{score:.4f}" for score in tap("scores", "head query key")[2]] == ["0.7071", "0.7071", "1.4142"]
    weights = tap("weights", "head query key")
    assert printed(weights[2]) == ["0.248255", "0.248255", "0.503490"]
    assert printed(output[2]) == ["3.006980", "4.510470"]
    assert weights[0].tolist() == [1, 0, 0]
    assert weights[1, 2] == 0
