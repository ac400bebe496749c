"""`--map FILE` for an ONNX file: which input and output is what, where names do not tell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from conformance.targets import TargetUsageError

ROLES = ("tokens", "attention_mask", "positions", "logits", "past", "present", "variant", "scale")
EXAMPLE = (
    "tokens: ids\nlogits: out\npast: [[k0, v0], [k1, v1]]\npresent: [[k0_out, v0_out], [k1_out, v1_out]]"
)


FOLDED = "folded"
"""Of `scale`: the factor 1/√Dh is in the weights of the queries, so the graph has none."""


def read_map(path: Path) -> Mapping[str, Any]:
    """The names in a map. Raises `TargetUsageError`."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TargetUsageError(f"--map {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise TargetUsageError(f"--map {path} is no YAML: {first}") from None
    if not isinstance(content, dict):
        raise TargetUsageError(f"--map {path} holds no names; it should read like\n{EXAMPLE}")
    for role, name in content.items():
        if role not in ROLES:
            raise TargetUsageError(f"--map {path}: '{role}' is none of {', '.join(ROLES)}")
        pairs = role in ("past", "present")
        fits = isinstance(name, str)
        if role == "scale":
            fits = name == FOLDED
        elif role == "variant":
            fits = isinstance(name, str | dict)
        elif pairs:
            fits = isinstance(name, list) and all(
                isinstance(pair, list) and len(pair) == 2 and all(isinstance(n, str) for n in pair)
                for pair in name
            )
        if not fits:
            wanted = "a list of [key, value] names, layer by layer" if pairs else "a name"
            wanted = "a variant's name, or its fields" if role == "variant" else wanted
            wanted = f"'{FOLDED}', where the weights of the queries hold it" if role == "scale" else wanted
            raise TargetUsageError(f"--map {path}: '{role}' should be {wanted}")
    return content
