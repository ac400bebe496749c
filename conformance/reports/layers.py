"""The layers of a model one by one: what was found in each, and where to read on.

A claim about a model names the layer in which it is worst. Where the target shows its tensors, a verdict
also tells how the error runs from layer to layer (`profiles`); where its source was followed, which
tensor was the last right one and which the first wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from conformance.reports.model import Report

MOST = 64
"""Layers of a stack that are drawn."""

NAME = re.compile(r"^((?:\w+\.)*)layers\.(\d{1,3})\.")


@dataclass
class Layer:
    """One layer.

    Attributes:
        state: 'good'; 'bad', it is wrong itself; 'silent', what it is given is wrong already; 'unseen'.
        claims: claims that are broken in it, else one that speaks of it.
        first: whether it is the first that is wrong.
    """

    number: int
    state: str = "unseen"
    claims: list[str] = field(default_factory=list)
    first: bool = False


@dataclass(frozen=True)
class Stack:
    """Layers one after the other; `name` tells an encoder's from a decoder's and is '' where there is one stack."""

    name: str
    layers: tuple[Layer, ...]


def stacks(report: Report) -> tuple[Stack, ...]:
    """The stacks of which any layer was spoken of; () where none was."""
    found: dict[str, dict[int, Layer]] = {}

    def layer(name: str) -> Layer | None:
        match = NAME.match(name)
        if match is None or int(match[2]) >= MOST:
            return None
        number = int(match[2])
        return found.setdefault(match[1].rstrip("."), {}).setdefault(number, Layer(number))

    handed_on = []
    for claim, tensor, margin, local in _margins(report):
        own = layer(tensor)
        if own is None or margin is None:
            continue
        if margin <= 1:
            if own.state in ("unseen", "silent"):
                own.state = "good"
            own.claims.append(claim)
        elif local:
            _break(own, claim)
        else:
            handed_on.append((own, claim))
    for claim, tensor in _broken(report):
        own = layer(tensor)
        if own is not None:
            _break(own, claim)
    for own, claim in handed_on:
        if own.state != "bad":
            own.state = "silent"
            own.claims.insert(0, claim)
    where = report.where
    if where is not None:
        first, right = layer(where.expected), layer(where.last_right.expected if where.last_right else "")
        if right is not None and right.state == "unseen":
            right.state = "good"
        if first is not None:
            _break(first, next((item.claim.id for item in report.problems), ""))
    made: list[Stack] = []
    for name, known in found.items():  # in the order in which the model has them: a profile tells it first
        made.append(
            _finished(name, known, before=any(layer.first for stack in made for layer in stack.layers))
        )
    return tuple(made)


def _break(layer: Layer, claim: str) -> None:
    if layer.state != "bad":
        layer.state, layer.claims = "bad", []
    if claim and claim not in layer.claims:
        layer.claims.append(claim)


def _finished(name: str, own: dict[int, Layer], *, before: bool) -> Stack:
    """All layers up to the last, with the first wrong one marked; `before`: a stack before this one is wrong already."""
    layers = [own.get(i) or Layer(i) for i in range(max(own) + 1)]
    bad = next((layer for layer in layers if layer.state == "bad"), None)
    off = next((layer for layer in layers if layer.state == "silent"), None)
    if off is not None and not before and (bad is None or off.number < bad.number):
        # What goes into the first layer that is off was right: it is wrong itself.
        off.state, bad = "bad", off
    if bad is not None:
        bad.first = not before
    return Stack(name, tuple(layers))


def _margins(report: Report) -> Iterator[tuple[str, str, float | None, bool]]:
    """Claim, tensor, margin and whether it is the layer's own, as the profiles tell."""
    for graded in report.graded:
        for verdict in graded.verdicts:
            for profile in verdict.profiles:
                if profile.over == "layer":
                    for tensor, margin in zip(profile.tensors, profile.margins, strict=False):
                        yield graded.claim.id, tensor, margin, profile.local


def _broken(report: Report) -> Iterator[tuple[str, str]]:
    """Broken claims and the tensor in which they are worst."""
    for graded in report.problems:
        for verdict in graded.broken:
            if verdict.evidence is not None:
                yield graded.claim.id, verdict.evidence.tensor
