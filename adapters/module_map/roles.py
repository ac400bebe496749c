"""Guesses at which parameter of a module is which of the contract's: by name, shape, and order of use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .usage import Use

PROJECTIONS = {
    "q": ("q", "wq", "q_proj", "query", "to_q", "queries", "w_query", "w_q", "q_lin", "linear_q"),
    "k": ("k", "wk", "k_proj", "key", "to_k", "keys", "w_key", "w_k", "k_lin", "linear_k"),
    "v": ("v", "wv", "v_proj", "value", "to_v", "values", "w_value", "w_v", "v_lin", "linear_v"),
    "o": (
        "o",
        "wo",
        "o_proj",
        "out_proj",
        "c_proj",
        "to_out",
        "dense",
        "proj",
        "w_o",
        "out",
        "out_lin",
        "linear_o",
    ),
}
SHIFTS = ("bias", "shift", "beta", "b")
GATES = {
    "gate": ("gate_proj", "gate", "w1", "w_gate", "fc_gate"),
    "up": ("up_proj", "up", "w3", "w_up", "fc_up"),
}


class Sizes(NamedTuple):
    """The sizes that the module was built with, no two alike, so that shapes tell roles apart."""

    vocab: int
    width: int
    hidden: int
    positions: int


class Guess(NamedTuple):
    """An entry of a map, and why: '' where name and shape leave no doubt."""

    parameter: str
    made_of: str
    why: str = ""


def guesses(uses: Sequence[Use], shapes: dict[str, tuple[int, ...]], sizes: Sizes) -> list[Guess]:
    """An entry for every parameter in its order of use; layers' ones for layer 0 alone, with `{i}`."""
    found: list[Guess] = []
    inside: dict[str, list[Use]] = {}
    norms_after = []
    for use in uses:
        shape = shapes[use.name]
        layer = layer_of(use.name)
        if layer is not None:
            if layer[1] == 0:
                inside.setdefault(layer[0], []).append(use)
        elif use.operation == "embedding" and shape[0] == sizes.vocab:
            found.append(Guess(use.name, "embed"))
        elif sizes.positions in shape[:-1]:
            found.append(
                Guess(use.name, "position_embed", "" if len(shape) == 2 else "its shape is not [P, D]")
            )
        elif len(shape) == 2 and sizes.vocab in shape:
            found.append(Guess(use.name, turned("lm_head", use)))
        elif len(shape) == 1 and shape[0] == sizes.width:
            norms_after.append(use)
        else:
            found.append(Guess(use.name, "?", f"{list(shape)}, used by {use.operation}: not recognised"))
    for use in norms_after:
        part = part_of(use.name)
        found.append(Guess(use.name, f"final_norm.{part}"))
    for container, mine in inside.items():
        found += [*_layer(container, mine, shapes, sizes)]
    return found


def layer_of(name: str) -> tuple[str, int] | None:
    """The list of layers that a parameter is in, and its number there: ('transformer.h', 0)."""
    match = re.match(r"(.*?)\.(\d+)\.", name)
    return (match[1], int(match[2])) if match else None


def turned(canonical: str, use: Use) -> str:
    """With its transpose where the module keeps [out, in]."""
    return f"transpose({canonical})" if use.transposed else canonical


def _layer(
    container: str, uses: Sequence[Use], shapes: dict[str, tuple[int, ...]], sizes: Sizes
) -> Iterator[Guess]:
    """Roles inside layer 0."""
    head = f"{container}.0."
    matrices = [use for use in uses if len(shapes[use.name]) == 2]
    vectors = [use for use in uses if len(shapes[use.name]) == 1]
    roles: dict[str, tuple[tuple[str, ...], str]] = {}
    order = iter("qkvo")
    wide = [use for use in matrices if {sizes.hidden, 2 * sizes.hidden} & set(shapes[use.name])]
    done = False  # with attention: what comes after its output projection is the feed-forward network
    for use in matrices:
        if use in wide:
            continue
        shape = shapes[use.name]
        letter = next((key for key, names in PROJECTIONS.items() if word(use.name) in names), None)
        if done or any(names == (f"w_{letter}",) for names, _ in roles.values()):
            letter = None
        if done and not letter:
            wide.append(use)
        elif sizes.width * 3 in shape:
            roles[use.name] = ("w_q", "w_k", "w_v"), "the order q, k, v within it is a guess"
            order = iter("o")
        elif letter:
            roles[use.name] = (f"w_{letter}",), ""
        elif max(shape) > sizes.width and min(shape) == sizes.width:
            roles[use.name] = (
                ("w_q", "w_k", "w_v"),
                "q, k and v in one: by_head(…), by_group(…) or this order?",
            )
            order = iter("o")
        else:
            roles[use.name] = (f"w_{next(order, 'o')}",), "by its order of use"
        done = done or roles.get(use.name, ((), ""))[0] == ("w_o",)
    roles |= _feed_forward(wide, shapes, sizes)
    for use in matrices:
        names, why = roles[use.name]
        prefix = "ffn." if use in wide else "attention."
        whole = [f"layers.{{i}}.{prefix}{name}" for name in names]
        joined = whole[0] if len(whole) == 1 else f"concat({', '.join(whole)})"
        yield Guess(general(use.name, head), turned(joined, use), why)
        bias = use.name.removesuffix("weight") + "bias"
        if use.name.endswith("weight") and bias in shapes:
            biases = [name.replace(".w_", ".b_") for name in whole]
            yield Guess(
                general(bias, head), biases[0] if len(biases) == 1 else f"concat({', '.join(biases)})"
            )
    mine = {use.name.removesuffix("weight") + "bias" for use in matrices}
    gains = [use for use in vectors if use.name not in mine]
    yield from _norms(gains, head)


def _feed_forward(
    wide: Sequence[Use], shapes: dict[str, tuple[int, ...]], sizes: Sizes
) -> dict[str, tuple[tuple[str, ...], str]]:
    into = [use for use in wide if _output(use, shapes) != sizes.width]
    fused = [use for use in into if 2 * sizes.hidden in shapes[use.name]]
    gated = len(into) > 1 or bool(fused)
    roles: dict[str, tuple[tuple[str, ...], str]] = {}
    for use, name in zip(into, ("gate", "up") if gated else ("1",), strict=False):
        said = next((part for part, words in GATES.items() if gated and word(use.name) in words), None)
        if use in fused:
            roles[use.name] = ("w_gate", "w_up"), "gate before up is a guess"
        else:
            roles[use.name] = (f"w_{said or name}",), "" if said or not gated else "gate before up is a guess"
    for use in wide:
        roles.setdefault(use.name, (("w_down" if gated else "w_2",), ""))
    return roles


def _output(use: Use, shapes: dict[str, tuple[int, ...]]) -> int:
    return shapes[use.name][0 if use.transposed else 1]


def _norms(gains: Sequence[Use], head: str) -> Iterator[Guess]:
    modules = list(dict.fromkeys(use.name.rpartition(".")[0] for use in gains))
    for use in gains:
        number = modules.index(use.name.rpartition(".")[0]) + 1
        part = part_of(use.name)
        why = "" if number <= 2 and len(modules) == 2 else "which norm this is, is a guess"
        yield Guess(general(use.name, head), f"layers.{{i}}.norm{number}.{part}", why)


def part_of(name: str) -> str:
    """Whether a vector of a norm is its gain (`weight`) or its shift (`bias`), by its name."""
    return "bias" if name.rpartition(".")[2].lower() in SHIFTS else "weight"


def word(name: str) -> str:
    """The module's own name in a parameter's: `layers.0.attn.q_proj.weight` is q_proj."""
    parts = [part for part in name.split(".") if part not in ("weight", "bias") and not part.isdigit()]
    return parts[-1].lower() if parts else ""


def general(name: str, head: str) -> str:
    """A name of layer 0 for every layer."""
    return name.replace(head, head[:-2] + "{i}.", 1)


def kind_of_norm(norms: Sequence[Any]) -> str:
    """`rms_norm` or `layer_norm`, by the names of the modules and by whether they have a bias."""
    names = " ".join(type(norm).__name__.lower() for norm in norms)
    if "layernorm" in names and "rms" not in names:
        return "layer_norm"
    shifted = (part_of(name) == "bias" for norm in norms for name, _ in norm.named_parameters(recurse=False))
    return "layer_norm" if any(shifted) else "rms_norm"
