"""From a target's name to what a session opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from conformance.targets import Target

if TYPE_CHECKING:
    from conformance.onnx.serving import Served


@contextmanager
def serving(target: Target) -> Iterator[Served]:
    """What the session of a target opens, as long as the context lasts. Raises `TargetError`."""
    from conformance.onnx.serving import Served, serving_onnx

    if target.model is None:
        yield Served(target.path, target.arguments)
        return
    with serving_onnx(target.model, target.names, target.ahead) as served:
        yield served
