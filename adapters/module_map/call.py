"""From the contract's inputs to the module's arguments, and from what it returns to a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .errors import Lines, MapError, listed
from .expressions import value_of


def main_of(given: Mapping[str, Any]) -> Any:
    """The input that says how many sequences and tokens a call has: `tokens` [B, T], or `x` [B, T, D]."""
    return given["tokens"] if given.get("tokens") is not None else given["x"]


class Inputs:
    """The inputs of one call, each in the forms that modules take them in.

    Attributes:
        given: what the contract passes: tokens [B, T], x [B, T, D], context, attention_mask bool
            [B, past + T], positions int [T] or [B, T], source.
        past: tokens that the cache holds already.
        causal: whether a query sees no later key.
    """

    def __init__(self, given: Mapping[str, Any], past: int, causal: bool, dtype: Any) -> None:
        self.given = {name: value for name, value in given.items() if value is not None}
        self.past = past
        self.causal = causal
        self.dtype = dtype
        main = main_of(self.given)
        self.batch, self.length = main.shape[0], main.shape[1]
        self.device = main.device

    def mask(self, form: str, always: bool) -> Any:
        """Which tokens are real [B, past + T], None where all are and nothing says so."""
        real = self.given.get("attention_mask")
        if real is None:
            if not always:
                return None
            real = torch.ones(self.batch, self.past + self.length, dtype=torch.bool, device=self.device)
        return formed(real, form, self.dtype)

    def positions(self, rows: bool, always: bool) -> Any:
        """Positions [T], or [B, T] with `rows`; counted from the mask where nothing gives them.

        As generation with padding on the left does it: the first real token is at 0.
        """
        positions = self.given.get("positions")
        real = self.given.get("attention_mask")
        if positions is None and real is not None:
            positions = (real.long().cumsum(1) - 1).clamp(min=0)[:, -self.length :]
        if positions is None and always:
            positions = torch.arange(self.past, self.past + self.length, device=self.device)
        if positions is None:
            return None
        return positions.expand(self.batch, self.length) if rows else positions

    def visible(self) -> Any:
        """Which key a query may read by order alone, bool [T, past + T]."""
        ones = torch.ones(self.length, self.past + self.length, dtype=torch.bool, device=self.device)
        return ones.tril(self.past) if self.causal else ones

    def seen(self) -> Any:
        """Which key a query may read at all, bool [B, 1, T, past + T]."""
        real = self.given.get("attention_mask")
        seen = self.visible()[None, None]
        if real is None:
            return seen.expand(self.batch, -1, -1, -1)
        return seen & real[:, None, None, :]


def formed(visible: Any, form: str, dtype: Any) -> Any:
    """A mask (True is visible) in the form that a module takes.

    `visible` as it is; `hidden` True where nothing is read; `ones` int64, 1 is visible; `additive`
    0 and -inf; `lowest` 0 and the dtype's lowest finite number.
    """
    if form == "visible":
        return visible
    if form == "hidden":
        return ~visible
    if form == "ones":
        return visible.long()
    lowest = float("-inf") if form == "additive" else torch.finfo(dtype).min
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, lowest)


def arguments_of(
    plan: Mapping[str, Any], inputs: Inputs, names: Mapping[str, Any], lines: Lines, embedded: Any = None
) -> dict[str, Any]:
    """The keyword arguments of a call.

    `plan` is the map's `call`: for each input the arguments that take it, and how. Raises MapError
    for a constant that is no value.
    """
    found: dict[str, Any] = {}
    values: dict[str, Any] = dict(inputs.given)
    for name, entry in plan.items():
        if name in ("constants", "method"):
            continue
        always = entry.get("always", False)
        if name == "attention_mask":
            value = inputs.mask(entry.get("as", "ones"), always)
        elif name == "positions":
            value = inputs.positions(entry.get("rows", True), always)
        elif name == "causal":
            # Where a context is read, all of it may be.
            value = formed(inputs.visible(), entry.get("as", "hidden"), inputs.dtype)
            value = (
                None if "context" in values and "context" in plan and not entry.get("with_context") else value
            )
            value = value if inputs.causal or always else None
        elif name == "mask":
            value = formed(inputs.seen(), entry.get("as", "visible"), inputs.dtype)
        elif name == "embeddings":
            value = embedded(inputs)
        else:
            value = values.get(name)
        if value is not None:
            found.update(dict.fromkeys(entry["arguments"], value))
    try:
        constants = value_of(
            plan.get("constants", {}), {**names, "batch": inputs.batch, "length": inputs.length}
        )
    except ValueError as error:
        raise MapError(f"{lines.at('call', 'constants')}{error}") from None
    return {**constants, **found}


def picked(result: Any, where: Any, lines: Lines, entry: str = "returns") -> Any:
    """What the map's `returns` (or the cache's `result`) names of a result: an index, a key or an attribute.

    Raises MapError where it is not there.
    """
    for part in where if isinstance(where, list) else [] if where is None else [where]:
        result = _part(result, part, lines, entry)
    return result


def _part(result: Any, part: Any, lines: Lines, entry: str) -> Any:
    try:
        if isinstance(part, int) or (isinstance(result, Mapping) and part in result):
            return result[part]
        return getattr(result, part)
    except (AttributeError, KeyError, IndexError, TypeError):
        kind = type(result).__name__
        if isinstance(result, (tuple, list)):
            kind += f" of {len(result)}"
        elif isinstance(result, Mapping):
            kind += f" with {listed(list(map(str, result)))}"
        raise MapError(f"{lines.at(entry)}the module returned a {kind}, which has no {part!r}") from None
