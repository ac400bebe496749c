"""Tiny models as PyTorch's exporters and onnxruntime's optimisers write them.

Each takes seconds, so ask the session's fixture, which makes each once.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

VOCAB, WIDTH, LAYERS, HEADS, FF = 23, 24, 2, 4, 20
HEAD = WIDTH // HEADS


@dataclass(frozen=True)
class Export:
    """One export.

    Attributes:
        model: a `model_type` of `transformers`, or `encoder_layer`: torch's TransformerEncoderLayer in a model.
        attention: eager or sdpa.
        exporter: dynamo or legacy.
        optimised: by onnxruntime: basic, extended or all, as its sessions do it; fused, as
            `onnxruntime.transformers` does; nothing.
        gradients: whether they were on while it was exported.
    """

    model: str
    attention: str = "sdpa"
    opset: int = 20
    cached: bool = False
    dtype: str = "float32"
    exporter: str = "dynamo"
    optimised: str = ""
    gradients: bool = True

    @property
    def name(self) -> str:
        """A file name."""
        form = "cached" if self.cached else "plain"
        parts = [self.model, self.attention, str(self.opset), form, self.dtype, self.exporter, self.optimised]
        return "-".join([*filter(None, parts), *([] if self.gradients else ["inference"])]) + ".onnx"


def make(export: Export) -> Any:
    """The PyTorch module, its weights drawn."""
    import torch

    torch.manual_seed(0)
    if export.model == "encoder_layer":
        model: Any = _encoder()
    else:
        model = _pretrained(export)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
        else:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.2)
    return model.eval().to(getattr(torch, export.dtype))


def _pretrained(export: Export) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

    usual = {"vocab_size": VOCAB, "attn_implementation": export.attention}
    fields: Mapping[str, Mapping[str, Any]] = {
        "gpt2": {
            "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 96, "n_inner": FF,
        },
        "bert": {
            "hidden_size": WIDTH, "intermediate_size": FF, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "max_position_embeddings": 96,
        },
    }  # fmt: skip
    more = fields.get(
        export.model,
        {
            "hidden_size": WIDTH, "intermediate_size": FF, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": 2, "max_position_embeddings": 128,
            "head_dim": HEAD, "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
        },
    )  # fmt: skip
    config = AutoConfig.for_model(export.model, **usual, **more)
    kind = AutoModelForMaskedLM if export.model == "bert" else AutoModelForCausalLM
    return kind.from_config(config, attn_implementation=export.attention)


def _encoder() -> Any:
    """Tokens through two of torch's own encoder layers; causal, so that it is a decoder of the document."""
    import torch

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(VOCAB, WIDTH)
            layer = torch.nn.TransformerEncoderLayer(
                WIDTH, HEADS, FF, dropout=0.0, batch_first=True, norm_first=True
            )
            self.layers = torch.nn.TransformerEncoder(
                layer, LAYERS, norm=torch.nn.LayerNorm(WIDTH), enable_nested_tensor=False
            )
            self.head = torch.nn.Linear(WIDTH, VOCAB, bias=False)

        def forward(self, input_ids: Any) -> Any:
            length = input_ids.shape[1]
            hidden = torch.full((length, length), float("-inf")).triu(1)
            return self.head(self.layers(self.embed(input_ids), mask=hidden))

    return Encoder()


def write(export: Export, folder: Path, base: Callable[[Export], Path]) -> Path:
    """The exported file in `folder`; `base` is asked for the export that is then optimised."""
    path = folder / export.name
    if export.optimised:
        optimise(base(replace(export, optimised="")), export, path)
        return path
    module, arguments, inputs, outputs, free = _call(export)
    with quiet(gradients=export.gradients):
        _export(export, module, arguments, path, inputs, outputs, free)
    return path


Free = list[Any]
"""Of each argument, the names of its free axes, nested as the arguments are."""


def _call(export: Export) -> tuple[Any, tuple[Any, ...], list[str], list[str], Free]:
    """A module of tensors alone, its arguments, the names of what goes in and comes out, the free axes."""
    import torch
    from transformers import DynamicCache

    model = make(export)
    tokens = torch.randint(0, VOCAB, (2, 5))
    free = {0: "batch", 1: "seq"}
    if export.model == "encoder_layer":
        return model, (tokens,), ["input_ids"], ["logits"], [free]

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            more = {} if export.model == "bert" else {"use_cache": False}
            return self.model(input_ids=input_ids, attention_mask=attention_mask, **more).logits

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

    if not export.cached:
        ones = torch.ones(2, 5, dtype=torch.long)
        return Plain(), (tokens, ones), ["input_ids", "attention_mask"], ["logits"], [free, free]
    layers = range(LAYERS)
    kv_heads = getattr(model.config, "num_key_value_heads", HEADS)
    dtype = next(model.parameters()).dtype
    past = [tuple(torch.randn(2, kv_heads, 3, HEAD, dtype=dtype) for _ in range(2)) for _ in layers]
    grown = {0: "batch", 2: "past"}
    parts = [f"{i}.{kind}" for i in layers for kind in ("key", "value")]
    return (
        Cached(),
        (tokens, torch.ones(2, 8, dtype=torch.long), torch.arange(3, 8).repeat(2, 1), past),
        ["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{part}" for part in parts)],
        ["logits", *(f"present.{part}" for part in parts)],
        [free, {0: "batch", 1: "total"}, free, [(grown, grown)] * LAYERS],
    )


def _export(
    export: Export, module: Any, arguments: tuple[Any, ...], path: Path, inputs: list[str], outputs: list[str],
    free: Free,
) -> None:  # fmt: skip
    import torch

    usual = {"opset_version": export.opset, "input_names": inputs, "output_names": outputs, "verbose": False}
    if export.exporter == "dynamo":
        torch.onnx.export(module, arguments, str(path), dynamo=True, dynamic_shapes=tuple(free), **usual)
        return
    flat = [axes for entry in free for axes in (_flat(entry))]
    named = dict(zip(inputs, flat, strict=True))
    named["logits"] = {0: "batch", 1: "seq"}
    named |= {name: {0: "batch", 2: "total"} for name in outputs if name != "logits"}
    torch.onnx.export(module, arguments, str(path), dynamo=False, dynamic_axes=named, **usual)


def _flat(entry: Any) -> Iterator[Any]:
    if isinstance(entry, dict):
        yield entry
        return
    for inner in entry:
        yield from _flat(inner)


def optimise(source: Path, export: Export, path: Path) -> None:
    """What onnxruntime makes of a file, as a file."""
    import onnxruntime

    if export.optimised == "fused":
        from onnxruntime.transformers import optimizer

        kind = {"gpt2": "gpt2", "bert": "bert"}.get(export.model, "gpt2")
        with quiet():
            made = optimizer.optimize_model(
                str(source),
                model_type=kind,
                num_heads=HEADS,
                hidden_size=WIDTH,
                opt_level=0,
                only_onnxruntime=False,
            )
            made.save_model_to_file(str(path))
        return
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = {
        "basic": levels.ORT_ENABLE_BASIC,
        "extended": levels.ORT_ENABLE_EXTENDED,
        "all": levels.ORT_ENABLE_ALL,
    }[export.optimised]
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


@contextmanager
def quiet(*, gradients: bool = True) -> Iterator[None]:
    """Without what exporters print."""
    import torch

    with warnings.catch_warnings(), torch.set_grad_enabled(gradients):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
