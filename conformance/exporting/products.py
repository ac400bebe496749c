"""Contractions as matrix products, which is what runtimes are fast at and what tools look for."""

from __future__ import annotations

from conformance.exporting.graph import Graph, Value
from conformance.language.sizes import Dimension


def contracted(graph: Graph, spec: str, a: Value, b: Value) -> Value:
    """`einsum(spec, a, b)`: a `MatMul` with transposes around it, or `Einsum` where no product has the form."""
    operands, out = spec.split("->")
    left, right = operands.split(",")
    sizes: dict[str, Dimension] = dict(zip(left, a.sizes, strict=True)) | dict(
        zip(right, b.sizes, strict=True)
    )
    result = tuple(sizes[letter] for letter in out)
    batch = [x for x in out if x in left and x in right]
    summed = [x for x in left if x in right and x not in out]
    free_left = [x for x in out if x in left and x not in right]
    free_right = [x for x in out if x in right and x not in left]
    complete = len(batch) + len(free_left) + len(summed) == len(left)
    plain = complete and len(summed) == 1 and len(free_right) == 1
    # Without axes in common, all of the left operand's lead; a product broadcasts over them.
    if plain and (len(free_left) == 1 or (free_left and not batch)):
        a = _laid(graph, a, left, [*batch, *free_left, *summed])
        b = _laid(graph, b, right, [*batch, *summed, *free_right])
        made = [*batch, *free_left, *free_right]
        product = graph.node("MatMul", [a, b], a.type, [sizes[x] for x in made])
        return _laid(graph, product, "".join(made), list(out))
    return graph.node("Einsum", [a, b], a.type, result, equation=spec)


def _laid(graph: Graph, value: Value, letters: str, wanted: list[str]) -> Value:
    """A value with its axes in the wanted order."""
    order = [letters.index(letter) for letter in wanted]
    if order == sorted(order):
        return value
    return graph.node("Transpose", [value], value.type, [value.sizes[i] for i in order], perm=order)
