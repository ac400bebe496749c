"""Layers and the encoder-decoder against `torch.nn.Transformer` and what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance.language.arithmetic import Array
from conformance.language.program import Choices
from trust import mapping
from trust.mapping import TOLERANCE, Config, Subject, choices, distance, named, randomised
from trust.sequences import Sequences, left_padding, logits, random_tokens

BATCH, LENGTH, MEMORY, WIDTH = 3, 5, 7, 24
CONFIG = Config(d_model=WIDTH, n_heads=4, d_ff=20)

Activation = str | Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}

every_activation = pytest.mark.parametrize("ffn", ACTIVATIONS)
every_placement = pytest.mark.parametrize("placement", ["pre", "post"])
with_and_without_bias = pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def later(length: int) -> Tensor:
    """What a causal query may not see, True where it may not."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def layer_choices(placement: str, ffn: str, biased: bool, **more: Any) -> Choices:
    return choices(
        "minimal",
        norm_placement=placement,
        ffn=ffn,
        bias="all" if biased else "none",
        norm_bias=biased,
        norm_eps=1e-4,
        **more,
    )


def torch_layer(kind: type[nn.Module], placement: str, ffn: str, biased: bool, seed: int) -> Any:
    layer = kind(
        WIDTH,
        4,
        dim_feedforward=20,
        dropout=0.0,
        activation=ACTIVATIONS[ffn],
        layer_norm_eps=1e-4,
        batch_first=True,
        norm_first=placement == "pre",
        bias=biased,
    )
    return randomised(layer, seed)


@pytest.mark.parametrize("one_kernel", [True, False], ids=["without gradients", "with gradients"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "all"])
@with_and_without_bias
@every_activation
@every_placement
def test_encoder_layer(placement: str, ffn: str, biased: bool, causal: bool, one_kernel: bool) -> None:
    """Without gradients, and with biases and ReLU or GELU, PyTorch computes the whole layer in one kernel of its own."""
    layer = torch_layer(nn.TransformerEncoderLayer, placement, ffn, biased, seed=1)
    subject = Subject(
        layer_choices(placement, ffn, biased, causal=causal), CONFIG, mapping.encoder_layer(layer)
    )
    x = random(BATCH, LENGTH, WIDTH, seed=2)
    with torch.set_grad_enabled(not one_kernel):
        expected = layer(x, src_mask=later(LENGTH) if causal else None)
    got = subject.call("block_operation", "batch query model", x=named("batch query model", x))
    assert distance(got, expected) <= TOLERANCE


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "all"])
@every_placement
def test_encoder_layer_with_padding(placement: str, causal: bool) -> None:
    layer = torch_layer(nn.TransformerEncoderLayer, placement, "gelu", biased=True, seed=3)
    subject = Subject(
        layer_choices(placement, "gelu", True, causal=causal), CONFIG, mapping.encoder_layer(layer)
    )
    x, mask = random(BATCH, LENGTH, WIDTH, seed=4), left_padding([0, 2, 4], LENGTH)
    expected = layer(x, src_mask=later(LENGTH) if causal else None, src_key_padding_mask=torch.tensor(~mask))
    got = subject.call(
        "block_operation",
        "batch query model",
        x=named("batch query model", x),
        attention_mask=named("batch key", mask),
    )
    assert distance(got[mask], expected[torch.tensor(mask)]) <= TOLERANCE


@with_and_without_bias
@every_activation
@every_placement
def test_decoder_layer(placement: str, ffn: str, biased: bool) -> None:
    layer = torch_layer(nn.TransformerDecoderLayer, placement, ffn, biased, seed=5)
    subject = Subject(layer_choices(placement, ffn, biased), CONFIG, mapping.decoder_layer(layer))
    x, memory = random(BATCH, LENGTH, WIDTH, seed=6), random(BATCH, MEMORY, WIDTH, seed=7)
    got = subject.call(
        "decoder_block_operation",
        "batch query model",
        x=named("batch query model", x),
        context=named("batch context model", memory),
    )
    assert distance(got, layer(x, memory, tgt_mask=later(LENGTH))) <= TOLERANCE


# -- the whole ----------------------------------------------------------------------------------------------------


def torch_transformer(placement: str, ffn: str, final_norm: bool) -> nn.Transformer:
    """Two encoder layers and two decoder layers, without the norm that PyTorch by itself puts after its encoder."""

    def layer(kind: type[nn.Module], seed: int) -> Any:
        return torch_layer(kind, placement, ffn, biased=True, seed=seed)

    encoder = nn.TransformerEncoder(layer(nn.TransformerEncoderLayer, 8), 2, enable_nested_tensor=False)
    norm = nn.LayerNorm(WIDTH, eps=1e-4) if final_norm else None
    decoder = nn.TransformerDecoder(layer(nn.TransformerDecoderLayer, 9), 2, norm=norm)
    return randomised(
        nn.Transformer(WIDTH, 4, custom_encoder=encoder, custom_decoder=decoder, batch_first=True), seed=10
    )


def sinusoids(length: int) -> Array:
    position, feature = np.arange(length)[:, None], np.arange(WIDTH)
    angle = position / 10000.0 ** (feature // 2 * 2 / WIDTH)
    return np.where(feature % 2 == 0, np.sin(angle), np.cos(angle))


@pytest.mark.parametrize("schedule", [(), (2, 1, 2)], ids=["at once", "in chunks"])
@pytest.mark.parametrize(
    ("placement", "ffn", "final_norm"),
    [("post", "relu", False), ("post", "gelu", True), ("pre", "relu", True), ("pre", "gelu", False)],
)
def test_encoder_decoder(placement: str, ffn: str, final_norm: bool, schedule: tuple[int, ...]) -> None:
    """The variant `vaswani` is the first of these."""
    model = torch_transformer(placement, ffn, final_norm)
    embed = random(CONFIG.vocab_size, WIDTH, seed=11) / np.sqrt(WIDTH)
    subject = Subject(
        choices("vaswani", norm_placement=placement, ffn=ffn, final_norm=final_norm, norm_eps=1e-4),
        CONFIG,
        mapping.encoder_decoder(model, embed),
    )
    tokens, source = random_tokens(11, BATCH, LENGTH, seed=12), random_tokens(11, BATCH, MEMORY, seed=13)

    def embedded(ids: Array) -> Tensor:
        return np.sqrt(WIDTH) * embed[torch.tensor(ids)] + torch.tensor(sinusoids(ids.shape[1]))

    expected = model(embedded(source), embedded(tokens), tgt_mask=later(LENGTH)) @ embed.T
    assert distance(logits(subject, Sequences(tokens, source=source), schedule), expected) <= TOLERANCE


@pytest.mark.parametrize("schedule", [(), (2, 1, 2)], ids=["at once", "in chunks"])
@every_placement
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_torch_transformer_as_it_is(placement: str, schedule: tuple[int, ...]) -> None:
    """`torch.nn.Transformer` without custom stacks: a norm stands after each of them."""
    model = randomised(
        nn.Transformer(
            WIDTH,
            4,
            num_encoder_layers=2,
            num_decoder_layers=2,
            dim_feedforward=20,
            dropout=0.0,
            layer_norm_eps=1e-4,
            batch_first=True,
            norm_first=placement == "pre",
        ),
        seed=14,
    )
    embed = random(CONFIG.vocab_size, WIDTH, seed=11) / np.sqrt(WIDTH)
    subject = Subject(
        choices("vaswani", norm_placement=placement, final_norm=True, encoder_final_norm=True, norm_eps=1e-4),
        CONFIG,
        mapping.encoder_decoder(model, embed),
    )
    tokens, source = random_tokens(11, BATCH, LENGTH, seed=12), random_tokens(11, BATCH, MEMORY, seed=13)

    def embedded(ids: Array) -> Tensor:
        return np.sqrt(WIDTH) * embed[torch.tensor(ids)] + torch.tensor(sinusoids(ids.shape[1]))

    expected = model(embedded(source), embedded(tokens), tgt_mask=later(LENGTH)) @ embed.T
    assert distance(logits(subject, Sequences(tokens, source=source), schedule), expected) <= TOLERANCE
