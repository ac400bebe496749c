"""Tiny models of `transformers` as PyTorch's exporters write them; each takes seconds, so ask once a session."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VOCAB, WIDTH, LAYERS, HEADS, FF = 23, 24, 2, 4, 20


@dataclass(frozen=True)
class Export:
    """One export. `attention` is eager or sdpa."""

    model: str
    attention: str = "sdpa"
    opset: int = 20
    cached: bool = False
    dtype: str = "float32"

    @property
    def name(self) -> str:
        """A file name."""
        form = "cached" if self.cached else "plain"
        return f"{self.model}-{self.attention}-{self.opset}-{form}-{self.dtype}.onnx"


def make(export: Export) -> Any:
    """The PyTorch module, its weights drawn."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    usual = {"vocab_size": VOCAB, "attn_implementation": export.attention}
    fields: Mapping[str, Mapping[str, Any]] = {
        "gpt2": {
            "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 96, "n_inner": FF,
        },
    }  # fmt: skip
    more = fields.get(
        export.model,
        {
            "hidden_size": WIDTH, "intermediate_size": FF, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": 2, "max_position_embeddings": 128,
            "head_dim": 6, "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
        },
    )  # fmt: skip
    torch.manual_seed(0)
    config = AutoConfig.for_model(export.model, **usual, **more)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=export.attention).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
        else:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.2)
    return model.to(getattr(torch, export.dtype))


def write(export: Export, folder: Path) -> Path:
    """The exported file."""
    import torch
    from transformers import DynamicCache

    path = folder / export.name
    model = make(export)
    kv_heads = getattr(model.config, "num_key_value_heads", HEADS)
    dtype = next(model.parameters()).dtype

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits

    class Cached(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any, past: Any) -> Any:
            cache = DynamicCache()
            for i, (key, value) in enumerate(past):
                cache.update(key, value, i)
            result = self.model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=position_ids,
                past_key_values=cache,
                use_cache=True,
            )
            state = [t for layer in result.past_key_values.layers for t in (layer.keys, layer.values)]
            return (result.logits, *state)

    layers = range(LAYERS)
    tokens = torch.randint(0, VOCAB, (2, 5))
    free = {0: "batch", 1: "seq"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            if export.cached:
                past = [tuple(torch.randn(2, kv_heads, 3, 6, dtype=dtype) for _ in range(2)) for _ in layers]
                grown = {0: "batch", 2: "past"}
                torch.onnx.export(
                    Cached(),
                    (tokens, torch.ones(2, 8, dtype=torch.long), torch.arange(3, 8).repeat(2, 1), past),
                    str(path),
                    dynamo=True,
                    opset_version=export.opset,
                    verbose=False,
                    input_names=[
                        "input_ids", "attention_mask", "position_ids",
                        *(f"past_key_values.{i}.{kind}" for i in layers for kind in ("key", "value")),
                    ],
                    output_names=["logits", *(f"present.{i}.{k}" for i in layers for k in ("key", "value"))],
                    dynamic_shapes=(free, {0: "batch", 1: "total"}, free, [(grown, grown)] * LAYERS),
                )  # fmt: skip
            else:
                torch.onnx.export(
                    Plain(),
                    (tokens, torch.ones(2, 5, dtype=torch.long)),
                    str(path),
                    dynamo=True,
                    opset_version=export.opset,
                    verbose=False,
                    input_names=["input_ids", "attention_mask"],
                    output_names=["logits"],
                    dynamic_shapes=(free, free),
                )
        finally:
            logging.disable(logging.NOTSET)
    return path
