"""What a fused attention kernel keeps to itself: its weights, and which keys it lets be read.

They are asked of the kernel itself, by running it again on other values: one-hot ones give back the
weights, column by column; with queries of zero every key that may be read weighs more than nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

MOST_KEYS = 1024  # beyond which no probe is made
MOST_CALLS = 64  # of one probe: keys / width of a value
_ATTENTION = "scaled_dot_product"
_MODULE = "_native_multi_head_attention"
_GIVEN = ("query", "key", "value", "attn_mask", "attn_bias")


def given_to(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that a fused attention kernel was given, with the names of its own arguments."""
    if is_attention(func):
        for name, value in bound(func, args, kwargs).items():
            if name in _GIVEN and isinstance(value, torch.Tensor):
                yield name, value


def inside(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    """(name, tensor) of what a fused kernel had inside: 'mask' and 'weights'; nothing for others."""
    name = str(getattr(func, "__name__", ""))
    if name.startswith(_MODULE):
        values = bound(func, args, kwargs)
        values.update(need_weights=True, average_attn_weights=False)
        with torch.no_grad():
            yield "weights", func(**values)[1]
    elif is_attention(func):
        values = bound(func, args, kwargs)
        query, value = values["query"], values["value"]
        keys, width = value.shape[-2], value.shape[-1]
        if value.dim() < 2 or keys > MOST_KEYS or not width or keys / width > MOST_CALLS:
            return
        if "dropout_p" in values:
            values["dropout_p"] = 0.0  # it would draw random numbers, and so change what comes after
        with torch.no_grad():
            mask = one_hot(func, {**values, "query": torch.zeros_like(query)}) > 0
            weights = one_hot(func, values)
            yield "mask", mask
            yield "weights", weights
            used = int(mask.flatten(0, -2).any(0).nonzero().max()) + 1 if mask.any() else keys
            if used < keys:  # perhaps the slots of a preallocated cache that are in use
                yield "mask", mask[..., :used]
                yield "weights", weights[..., :used]


def one_hot(func: Any, values: dict[str, Any]) -> Any:
    """The weights [..., query, key]: one call for each piece of the identity as wide as the values were.

    The values keep their shape, so that PyTorch takes the same kernel.
    """
    value = values["value"]
    keys, width = value.shape[-2], value.shape[-1]
    identity = torch.eye(keys, dtype=value.dtype, device=value.device)
    pieces = []
    for start in range(0, keys, width):
        piece = torch.zeros_like(value)
        columns = identity[:, start : start + width]
        piece[..., : columns.shape[1]] = columns
        result = func(**{**values, "value": piece})
        pieces.append(result if isinstance(result, torch.Tensor) else result[0])
    return torch.cat(pieces, -1)[..., :keys]


def is_attention(func: Any) -> bool:
    """Whether an operation is a fused attention, and not its derivative."""
    name = str(getattr(func, "__name__", ""))
    return _ATTENTION in name and "backward" not in name and hasattr(func, "_schema")


def bound(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call under the names that the operation gives them."""
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args)), **kwargs}
