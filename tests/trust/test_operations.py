"""Softmax, norms, activations and feed-forward networks against `torch.nn.functional`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from conformance.language.arithmetic import Array
from trust.mapping import TOLERANCE, Config, Parameters, Subject, choices, distance, named

SCALES = {"small": 2.0**-10, "ordinary": 1.0, "large": 2.0**10}
"""Small inputs show eps; large ones, what overflows and what cancels."""


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def apply(
    function: str,
    x: Tensor,
    parameters: Parameters | None = None,
    axes: str = "batch query model",
    **changes: Any,
) -> Array:
    """A function of one tensor, in the variant `minimal` with some choices changed."""
    subject = Subject(choices("minimal", **changes), Config(), parameters or {})
    return subject.call(function, axes, x=named(axes, x))


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(axis: int, scale: float) -> None:
    x = random(3, 5, 7) * scale
    axes = ["batch", "head", "query"]
    axes[axis] = "over"
    assert distance(apply("softmax", x, axes=" ".join(axes)), torch.softmax(x, dim=axis)) <= TOLERANCE


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("eps", [1e-5, 1e-6, 1e-2])
def test_rms_norm(eps: float, scale: float) -> None:
    x, weight = random(3, 5, 24) * scale, random(24, seed=1)
    got = apply("rms_norm", x, {"weight": weight}, norm="rms_norm", norm_eps=eps)
    assert distance(got, functional.rms_norm(x, (24,), weight, eps)) <= TOLERANCE


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("eps", [1e-5, 1e-6, 1e-2])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
def test_layer_norm(eps: float, scale: float, biased: bool) -> None:
    # Off its own mean: a norm that leaves the mean in would be seen.
    x = (random(3, 5, 24) + random(3, 5, 1, seed=3)) * scale
    weight, bias = random(24, seed=1), random(24, seed=2) if biased else None
    parameters = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    got = apply("layer_norm", x, parameters, norm_eps=eps, norm_bias=biased)
    assert distance(got, functional.layer_norm(x, (24,), weight, bias, eps)) <= TOLERANCE


ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("reach", [1.0, 40.0])
def test_activation(name: str, reach: float) -> None:
    x = torch.linspace(-reach, reach, 801, dtype=torch.float64)
    assert distance(apply("activation", x, axes="ff", ffn=name), ACTIVATIONS[name](x)) <= TOLERANCE


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
def test_feed_forward(name: str, biased: bool) -> None:
    x, w_1, w_2 = random(3, 5, 24), random(24, 20, seed=1), random(20, 24, seed=2)
    b_1, b_2 = (random(20, seed=3), random(24, seed=4)) if biased else (None, None)
    parameters = {"w_1": w_1, "w_2": w_2} | ({"b_1": b_1, "b_2": b_2} if biased else {})
    got = apply("ffn", x, parameters, ffn=name, bias="all" if biased else "none")
    assert (
        distance(got, functional.linear(ACTIVATIONS[name](functional.linear(x, w_1.T, b_1)), w_2.T, b_2))
        <= TOLERANCE
    )


GATES = {"swiglu": functional.silu, "geglu": ACTIVATIONS["gelu"], "geglu_tanh": ACTIVATIONS["gelu_tanh"]}


@pytest.mark.parametrize("name", GATES)
def test_gated(name: str) -> None:
    x, gate, up, down = (
        random(3, 5, 24),
        random(24, 20, seed=1),
        random(24, 20, seed=2),
        random(20, 24, seed=3),
    )
    got = apply("ffn", x, {"w_gate": gate, "w_up": up, "w_down": down}, ffn=name)
    assert distance(got, (GATES[name](x @ gate) * (x @ up)) @ down) <= TOLERANCE


@pytest.mark.parametrize("reach", [1.0, 40.0, 2000.0])
def test_silu(reach: float) -> None:
    """Seen alone where the gate is the first feature, and the other factor the second, which is 1."""
    x = torch.linspace(-reach, reach, 801, dtype=torch.float64)
    parameters = {"w_gate": [[1.0], [0.0]], "w_up": [[0.0], [1.0]], "w_down": [[1.0, 0.0]]}
    got = apply(
        "gated_ffn",
        torch.stack((x, torch.ones_like(x)), dim=-1),
        {name: np.array(value) for name, value in parameters.items()},
        axes="query model",
        ffn="swiglu",
    )
    assert distance(got[:, 0], functional.silu(x)) <= TOLERANCE
