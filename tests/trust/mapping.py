"""From modules of PyTorch to the pack's named parameters, and from choices and parameters to a reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from conformance.language.arithmetic import Array, Float64
from conformance.language.evaluate import Reading
from conformance.language.program import Choices
from conformance.language.tensors import Named, Operations
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack

Parameters = Mapping[str, Tensor | Array]
Module = TypeVar("Module", bound=nn.Module)

TOLERANCE = 1e-12
"""The largest `distance` at which two float64 implementations count as the same."""


# -- the pack -----------------------------------------------------------------------------------------------------


@cache
def pack() -> Pack:
    """The bundled pack of the forward pass."""
    return load_pack(bundled("spec") / "forward-pass")


def choices(variant: str, **changes: Any) -> Choices:
    """The choices of a named variant, some of them changed."""
    named_choices = pack().variants[variant].choices
    unknown = set(changes) - set(named_choices)
    assert not unknown, f"there is no choice {unknown}"
    return {**named_choices, **changes}


@dataclass(frozen=True)
class Config:
    """The sizes of a model, under the names that an adapter's `config` has; pairwise different where they can be."""

    n_layers: int = 2
    d_model: int = 24
    n_heads: int = 4
    n_kv_heads: int = 4
    d_head: int = 6
    d_value: int = 6
    d_rotary: int = 6
    d_ff: int = 20
    vocab_size: int = 11
    max_positions: int = 32


# -- tensors ------------------------------------------------------------------------------------------------------


def named(axes: str, values: Tensor | npt.ArrayLike) -> Named[Array]:
    """An array or tensor under the names of its axes."""
    array = values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)
    names = tuple(axes.split())
    assert array.ndim == len(names), f"{array.shape} has not the axes [{axes}]"
    return Named(names, array)


def array(x: Named[Array], axes: str) -> Array:
    """The array of a named tensor, its axes in this order."""
    assert set(x.axes) == set(axes.split()), f"[{' '.join(x.axes)}] instead of [{axes}]"
    return Operations(Float64()).ordered(x, axes.split()).array


def distance(got: Array, expected: Tensor | Array) -> float:
    """The largest difference, relative to the largest expected magnitude; infinite where something is not finite."""
    want = expected.detach().numpy() if isinstance(expected, Tensor) else expected
    assert got.shape == want.shape, f"{got.shape} instead of {want.shape}"
    assert got.dtype == want.dtype == np.float64
    if not (np.isfinite(got).all() and np.isfinite(want).all()):
        return float("inf")
    return float(np.abs(got - want).max() / np.abs(want).max())


def randomised(module: Module, seed: int) -> Module:
    """`module` in float64 and ready to infer, every parameter drawn anew: no gain is 1, no bias 0, nothing is zero."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            magnitude = 0.1 + 0.3 * torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
            sign = 2 * torch.randint(2, parameter.shape, generator=generator) - 1
            gain = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(sign * (magnitude + 0.5 * gain))
    return module


# -- a reading ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """What the program reads besides its inputs: choices, sizes and parameters."""

    choices: Choices
    config: Config
    parameters: Parameters

    def reading(self) -> Reading[Array]:
        """A reading of the program in float64, with nothing remembered yet."""
        sizes = {
            axis.name: getattr(self.config, axis.config)
            for axis in pack().program.axes.by_name.values()
            if axis.config
        }
        return Reading(
            pack().program,
            self.choices,
            sizes,
            named_parameters(self.parameters),
            Float64(),
            numbers={"n_layers": self.config.n_layers},
        )

    def call(self, function: str, axes: str, **inputs: Named[Array]) -> Array:
        """What a function makes of `inputs`, having used every parameter that there is."""
        reading = self.reading()
        result = reading.call(function, inputs)
        assert set(reading.declared) == set(self.parameters)
        return array(result, axes)


def named_parameters(parameters: Parameters) -> dict[str, Named[Array]]:
    """Parameters with their axes, which the program declares under the last part of the name."""
    axes = {
        name: " ".join(parameter.axes)
        for function in pack().program.functions.values()
        if function.name != "head_norm"
        for name, parameter in function.parameters.items()
    }
    axes |= {f"{letter}_norm.weight": "dh" for letter in "qk"}

    def declared(name: str) -> str:
        *_, module, last = ("", *name.split("."))
        return axes.get(f"{module}.{last}", axes[last])

    return {name: named(declared(name), value) for name, value in parameters.items()}


# -- names --------------------------------------------------------------------------------------------------------


def prefixed(prefix: str, parameters: Parameters) -> dict[str, Tensor | Array]:
    """The same parameters, further down in a model."""
    return {f"{prefix}.{name}": value for name, value in parameters.items()}


def norm(module: nn.Module) -> dict[str, Tensor | Array]:
    """Gain and, where there is one, bias of a normalisation."""
    return {
        name: getattr(module, name) for name in ("weight", "bias") if getattr(module, name, None) is not None
    }


def linear(layer: nn.Linear, weight: str, bias: str = "") -> dict[str, Tensor | Array]:
    """A linear layer, which PyTorch keeps as [out, in], in the orientation x @ W."""
    found: dict[str, Tensor | Array] = {weight: layer.weight.T}
    return found if layer.bias is None else {**found, bias: layer.bias}


def attention(module: nn.MultiheadAttention) -> dict[str, Tensor | Array]:
    """The projections, of which PyTorch keeps three as one."""
    found = linear(module.out_proj, "w_o", "b_o")
    for letter, weight in zip("qkv", module.in_proj_weight.chunk(3), strict=True):
        found[f"w_{letter}"] = weight.T
    if module.in_proj_bias is not None:
        for letter, bias in zip("qkv", module.in_proj_bias.chunk(3), strict=True):
            found[f"b_{letter}"] = bias
    return found


def encoder_layer(layer: nn.Module) -> dict[str, Tensor | Array]:
    """`torch.nn.TransformerEncoderLayer`, and what a decoder layer has in common with it."""
    return {
        **prefixed("norm1", norm(layer.norm1)),
        **prefixed("norm2", norm(layer.norm2)),
        **prefixed("attention", attention(layer.self_attn)),
        **prefixed("ffn", {**linear(layer.linear1, "w_1", "b_1"), **linear(layer.linear2, "w_2", "b_2")}),
    }


def decoder_layer(layer: nn.TransformerDecoderLayer) -> dict[str, Tensor | Array]:
    """`torch.nn.TransformerDecoderLayer`."""
    return {
        **encoder_layer(layer),
        **prefixed("norm3", norm(layer.norm3)),
        **prefixed("cross_attention", attention(layer.multihead_attn)),
    }


def encoder_decoder(model: nn.Transformer, embed: Tensor) -> dict[str, Tensor | Array]:
    """`torch.nn.Transformer` between tied embeddings, which it leaves to its user."""
    found: dict[str, Tensor | Array] = {"embed": embed}
    for i, layer in enumerate(model.encoder.layers):
        found |= prefixed(f"encoder.layers.{i}", encoder_layer(layer))
    for i, layer in enumerate(model.decoder.layers):
        found |= prefixed(f"decoder.layers.{i}", decoder_layer(layer))
    if model.encoder.norm is not None:
        found |= prefixed("encoder.final_norm", norm(model.encoder.norm))
    if model.decoder.norm is not None:
        found |= prefixed("final_norm", norm(model.decoder.norm))
    return found


def gpt_neox(model: nn.Module) -> dict[str, Tensor | Array]:
    """`GPTNeoXForCausalLM`, whose one projection holds the queries, keys and values of each head in turn."""
    body = model.gpt_neox
    found: dict[str, Tensor | Array] = {"embed": body.embed_in.weight}
    for i, layer in enumerate(body.layers):
        heads = linear(layer.attention.dense, "w_o", "b_o")
        fused = layer.attention.query_key_value
        width = layer.attention.head_size
        for j, letter in enumerate("qkv"):
            heads[f"w_{letter}"] = fused.weight.unflatten(0, (-1, 3, width))[:, j].flatten(0, 1).T
            heads[f"b_{letter}"] = fused.bias.unflatten(0, (-1, 3, width))[:, j].flatten()
        feed_forward = {
            **linear(layer.mlp.dense_h_to_4h, "w_1", "b_1"),
            **linear(layer.mlp.dense_4h_to_h, "w_2", "b_2"),
        }
        found |= prefixed(
            f"layers.{i}",
            {
                **prefixed("norm1", norm(layer.input_layernorm)),
                **prefixed("attention", heads),
                **prefixed("norm2", norm(layer.post_attention_layernorm)),
                **prefixed("ffn", feed_forward),
            },
        )
    found |= prefixed("final_norm", norm(body.final_layer_norm))
    return {**found, **linear(model.lm_head, "lm_head")}


def x_transformer(model: nn.Module) -> dict[str, Tensor | Array]:
    """`x_transformers.TransformerWrapper` around a `Decoder`, whose gains are kept as what they are above 1."""
    found: dict[str, Tensor | Array] = {"embed": model.token_emb.emb.weight}
    if hasattr(model.pos_emb, "emb"):
        found["position_embed"] = model.pos_emb.scale * model.pos_emb.emb.weight

    def gain(module: nn.Module) -> dict[str, Tensor | Array]:
        return {"weight": 1 + module.gamma}

    layers = model.attn_layers.layers
    for i in range(len(layers) // 2):
        (norm1, *_), heads, _ = layers[2 * i]
        (norm2, *_), feed_forward, _ = layers[2 * i + 1]
        matrices: dict[str, Tensor | Array] = {}
        for letter in "qkv":
            matrices |= linear(getattr(heads, f"to_{letter}"), f"w_{letter}")
        matrices |= linear(heads.to_out, "w_o")
        found |= prefixed(
            f"layers.{i}",
            {
                **prefixed("norm1", gain(norm1)),
                **prefixed("attention", matrices),
                **prefixed("norm2", gain(norm2)),
                **prefixed(
                    "ffn",
                    {
                        **linear(feed_forward.ff[0][0], "w_1", "b_1"),
                        **linear(feed_forward.ff[2], "w_2", "b_2"),
                    },
                ),
            },
        )
    found |= prefixed("final_norm", gain(model.attn_layers.final_norm))
    return {**found, **linear(model.to_logits, "lm_head")}


def gpt2(model: nn.Module) -> dict[str, Tensor | Array]:
    """`GPT2LMHeadModel`, whose `Conv1D` keeps weights as [in, out] already."""
    body = model.transformer
    found: dict[str, Tensor | Array] = {"embed": body.wte.weight, "position_embed": body.wpe.weight}
    for i, layer in enumerate(body.h):
        heads = {"w_o": layer.attn.c_proj.weight, "b_o": layer.attn.c_proj.bias}
        for letter, weight, bias in zip(
            "qkv", layer.attn.c_attn.weight.chunk(3, dim=1), layer.attn.c_attn.bias.chunk(3), strict=True
        ):
            heads |= {f"w_{letter}": weight, f"b_{letter}": bias}
        feed_forward = {
            "w_1": layer.mlp.c_fc.weight,
            "b_1": layer.mlp.c_fc.bias,
            "w_2": layer.mlp.c_proj.weight,
            "b_2": layer.mlp.c_proj.bias,
        }
        found |= prefixed(
            f"layers.{i}",
            {
                **prefixed("norm1", norm(layer.ln_1)),
                **prefixed("attention", heads),
                **prefixed("norm2", norm(layer.ln_2)),
                **prefixed("ffn", feed_forward),
            },
        )
    return {**found, **prefixed("final_norm", norm(body.ln_f))}


def llama(model: nn.Module) -> dict[str, Tensor | Array]:
    """`LlamaForCausalLM` and its relatives; Gemma keeps gains as what they are above 1."""
    above = 1.0 if type(model).__name__.startswith("Gemma") else 0.0

    def gain(module: nn.Module) -> dict[str, Tensor | Array]:
        return {"weight": above + module.weight}

    found: dict[str, Tensor | Array] = {"embed": model.model.embed_tokens.weight}
    for i, layer in enumerate(model.model.layers):
        heads = {}
        for letter in "qkvo":
            heads |= linear(getattr(layer.self_attn, f"{letter}_proj"), f"w_{letter}", f"b_{letter}")
        for letter in "qk":
            if hasattr(layer.self_attn, f"{letter}_norm"):
                heads |= prefixed(f"{letter}_norm", gain(getattr(layer.self_attn, f"{letter}_norm")))
        feed_forward = {}
        for part in ("gate", "up", "down"):
            feed_forward |= linear(getattr(layer.mlp, f"{part}_proj"), f"w_{part}")
        found |= prefixed(
            f"layers.{i}",
            {
                **prefixed("norm1", gain(layer.input_layernorm)),
                **prefixed("attention", heads),
                **prefixed("norm2", gain(layer.post_attention_layernorm)),
                **prefixed("ffn", feed_forward),
            },
        )
    found |= prefixed("final_norm", gain(model.model.norm))
    return found if model.config.tie_word_embeddings else {**found, **linear(model.lm_head, "lm_head")}
