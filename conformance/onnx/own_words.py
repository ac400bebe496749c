"""What a file says of itself: its variant, its sizes, and that its weights and values have the document's names.

`conformance export` writes it as one entry of the model's metadata. It is a claim, like an adapter's `variant`: the
graph is then held to it. What does not fit the tensors of the file is not believed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.onnx.reading import OUTER

if TYPE_CHECKING:
    import onnx_ir as ir

KEY = "conformance"
LONGEST = 1 << 16
SIZES = (
    "n_layers",
    "d_model",
    "n_heads",
    "n_kv_heads",
    "d_head",
    "d_value",
    "d_ff",
    "vocab_size",
    "max_positions",
)
LARGEST = 1 << 24
WEIGHT = re.compile(
    r"embed|position_embed|lm_head|final_norm\.\w+|layers\.(\d+)\.(?:norm\d|attention|ffn)\.[\w.]+"
)
TENSOR = re.compile(r"final|layers\.\d+\.\w+")


@dataclass(frozen=True)
class OwnWords:
    """A declaration: `variant` as an adapter would write it; with `sizes`, names are the document's as well."""

    variant: Any
    sizes: Mapping[str, int | None]

    @property
    def named(self) -> bool:
        """Whether weights and values are found by their names."""
        return bool(self.sizes)


def words(variant: Any, sizes: Mapping[str, int]) -> dict[str, str]:
    """The entry of the metadata; without `sizes` nothing is said of names."""
    return {KEY: json.dumps({"variant": variant, "sizes": dict(sizes)}, sort_keys=True)}


def own_words(model: ir.Model) -> OwnWords | None:
    """What a model says of itself, None where that is nothing, or not to be believed."""
    text = model.metadata_props.get(KEY)
    if text is None or len(text) > LONGEST:
        return None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not isinstance(said.get("sizes", {}), dict):
        return None
    variant, sizes = said.get("variant"), dict(said.get("sizes", {}))
    fields = variant if isinstance(variant, dict) else {"": variant}
    if not all(isinstance(value, str | int | float | bool) for value in fields.values()):
        return None
    known = {name: sizes.get(name) for name in SIZES}
    if not sizes:
        return OwnWords(variant, {})
    whole = [n for n in known.values() if n is not None]
    if any(type(n) is not int or not 0 < n <= LARGEST for n in whole) or not _fits(model, known):
        return None
    return OwnWords(variant, known)


def weights_by_name(model: ir.Model) -> dict[str, ir.Value]:
    """Initializers that have a name of the document's."""
    return {
        name: value
        for name, value in model.graph.initializers.items()
        if WEIGHT.fullmatch(name) and value.const_value is not None
    }


def values_by_name(model: ir.Model) -> dict[str, ir.Value]:
    """Inner values that have a name of the document's, and can be asked for."""
    outer = model.meta[OUTER]
    made = (value for node in model.graph for value in node.outputs)
    return {v.name: v for v in made if v.name and v.name in outer and TENSOR.fullmatch(v.name)}


def _fits(model: ir.Model, sizes: Mapping[str, int | None]) -> bool:
    """Whether every weight that has such a name has the shape that the sizes give."""
    found = weights_by_name(model)
    if "embed" not in found:
        return False
    axes = {
        "D": sizes["d_model"],
        "V": sizes["vocab_size"],
        "P": sizes["max_positions"],
        "F": sizes["d_ff"],
        "Q": _times(sizes["n_heads"], sizes["d_head"]),
        "K": _times(sizes["n_kv_heads"], sizes["d_head"]),
        "W": _times(sizes["n_kv_heads"], sizes["d_value"]),
        "Z": _times(sizes["n_heads"], sizes["d_value"]),
    }
    shapes = {
        "embed": "VD", "position_embed": "PD", "lm_head": "DV", "w_q": "DQ", "w_k": "DK", "w_v": "DW", "w_o": "ZD",
        "b_q": "Q", "b_k": "K", "b_v": "W", "b_o": "D", "w_1": "DF", "b_1": "F", "w_2": "FD", "b_2": "D",
        "w_gate": "DF", "w_up": "DF", "w_down": "FD",
    }  # fmt: skip
    for name, value in found.items():
        wanted = shapes.get(name.rpartition(".")[2])
        layer = WEIGHT.fullmatch(name)
        if layer and layer[1] and not int(layer[1]) < (sizes["n_layers"] or 0):
            return False
        if wanted is None:
            continue
        if value.shape is None or [axes[letter] for letter in wanted] != list(value.shape):
            return False
    return True


def _times(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one * other
