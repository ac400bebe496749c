"""From a target's name to what a session opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.session import Limits
from conformance.session.session import BYTES_REMEMBERED
from conformance.targets import Target

if TYPE_CHECKING:
    from conformance.onnx.serving import Graph

REMEMBERED = 32 << 20
"""Bytes of a large target's answers that are kept."""
NUMBERS_OF_A_TIMEOUT = 100_000_000
"""Weights for which a call has its time once more."""


@dataclass(frozen=True)
class Served:
    """A target that can be opened: the file that the worker imports, its arguments, and its graph if it is one."""

    path: Path
    arguments: tuple[str, ...]
    graph: Graph | None = None


@contextmanager
def serving(target: Target) -> Iterator[Served]:
    """What the session of a target opens, as long as the context lasts. Raises `TargetError`."""
    if target.model is None:
        yield Served(target.path, target.arguments)
        return
    from conformance.onnx.serving import serving_onnx

    with serving_onnx(target.model, target.names, target.ahead) as served:
        yield served


def is_large(graph: Graph | None) -> bool:
    """Whether the target brings very many weights along."""
    return graph is not None and graph.own.large


def limits_of(limits: Limits, graph: Graph | None) -> Limits:
    """The limits of a run: a call may first have to put the weights of a large graph into the runtime."""
    if graph is None or not graph.own.large:
        return limits
    more = 1 + graph.own.numbers / NUMBERS_OF_A_TIMEOUT
    return replace(limits, timeout=round(limits.timeout * more, 1))


def bytes_of(graph: Graph | None) -> int:
    """How much of a target's answers a session keeps."""
    return REMEMBERED if is_large(graph) else BYTES_REMEMBERED
