"""Configs and parameter shapes on which a map is tried before anything is graded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.judging.observe import config
from conformance.pack.model import Pack, Variant
from conformance.plan.scenarios import Scenarios


def probes(
    pack: Pack, variants: Sequence[Variant], operation: str, *, context: bool = False
) -> list[Mapping[str, Any]]:
    """For each variant the config, and the shape of each parameter, of the first case of an operation.

    `context` asks for a case that has one. Operations that take no config (a norm) have none.
    """
    found: list[Mapping[str, Any]] = []
    entry = pack.operations[operation]
    if operation != "model" and not any(a.everything == "config" for a in entry.arguments.values()):
        return []
    cases = [c for c in pack.cases.values() if c.operation == operation]
    if context:
        cases = [c for c in cases if c.given.get("context") is not None]
    for variant in variants:
        scenarios = Scenarios(pack, 0)
        scenario = next(filter(None, (scenarios.of(case, variant) for case in cases)), None)
        if scenario is not None:
            shapes = {name: list(t.array.shape) for name, t in scenario.parameters.items()}
            found.append({"config": config(scenario), "params": shapes})
    return found
