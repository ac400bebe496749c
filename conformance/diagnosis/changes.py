"""What a mistake changes: tensors of the patched program that are not the true one's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conformance.language.arithmetic import Array
from conformance.language.tensors import Named
from conformance.plan.scenario import Tensors

Patches = frozenset[tuple[str, str]]
"""The equations that a mistake replaces: function and tensor."""


def changed(true: Sequence[Tensors], patched: Sequence[Tensors]) -> list[Tensors]:
    """The tensors of a patched program that are not the true one's."""
    result = []
    for ours, theirs in zip(patched, true, strict=True):
        groups: list[dict[str, Named[Array]]] = []
        for made, right in (
            (ours.outputs, theirs.outputs),
            (ours.taps, theirs.taps),
            (ours.inner, theirs.inner),
        ):
            bases: dict[str, list[Named[Array]]] = {}
            for name, tensor in right.items():
                bases.setdefault(name.partition("~")[0], []).append(tensor)
            values = {content(t.array) for t in right.values()} if right is theirs.inner else set()
            # Where a mistake calls a function once more, the others count differently.
            groups.append(
                {
                    name: t
                    for name, t in made.items()
                    if all(_differs(t, other) for other in bases.get(name.partition("~")[0], ()))
                    # What is not there without the mistake may be a right tensor under a name of its own.
                    and (name.partition("~")[0] in bases or ":" in name or content(t.array) not in values)
                }
            )
        result.append(Tensors(*groups))
    return result


def _differs(one: Named[Array], other: Named[Array]) -> bool:
    return one.array.shape != other.array.shape or not np.allclose(
        one.array, other.array, rtol=1e-9, atol=0, equal_nan=True
    )


def directly(steps: Sequence[Tensors], patches: Patches) -> tuple[list[Tensors], list[Tensors]]:
    """The tensors of replaced equations: those that they make, and those that a function gave to them."""
    own, given = [], []
    for step in steps:
        makers: dict[int, tuple[str, str]] = {}
        for name, tensor in step.inner.items():
            if "~" in name:
                makers.setdefault(id(tensor.array), equation_of(name))
        replaced = {name: t for name, t in step.inner.items() if equation_of(name) in patches}
        made = {n for n, t in replaced.items() if makers.get(id(t.array), equation_of(n)) in patches}
        # An equation that calls a function is that function's result, whatever it fills in afterwards.
        calls = {n.partition(":")[0].partition("~")[0] for n in replaced.keys() - made}
        made -= {n for n in made if ":" not in n and n.partition("~")[0] in calls}
        own.append(Tensors({}, {}, {name: t for name, t in replaced.items() if name in made}))
        given.append(Tensors({}, {}, {name: t for name, t in replaced.items() if name not in made}))
    return own, given


def equation_of(name: str) -> tuple[str, str]:
    """Function and tensor of `layers.0.rope.turned:a * cos(angle)~1`; no function for a tap."""
    place = name.partition(":")[0].partition("~")[0].split(".")
    return (place[-2], place[-1]) if "~" in name else ("", place[-1])


def content(array: Array) -> bytes:
    """The values of an array, however they are laid out."""
    with np.errstate(all="ignore"):
        return np.sort(array.astype(np.float64), axis=None).tobytes()
