"""Configs and parameter shapes on which a map is tried before anything is graded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.judging.observe import config
from conformance.pack.model import Pack, Variant
from conformance.plan.scenario import Scenarios


def probes(pack: Pack, variants: Sequence[Variant], operation: str) -> list[Mapping[str, Any]]:
    """For each variant the config, and the shape of each parameter, of the first case of an operation.

    Operations that take no config (a norm) have none.
    """
    found = []
    for variant in variants:
        scenarios = Scenarios(pack, 0)
        for case in pack.cases.values():
            entry = pack.operations[case.operation]
            if entry.name != operation or not any(
                a.everything == "config" for a in entry.arguments.values()
            ) and operation != "model":
                continue
            scenario = scenarios.of(case, variant)
            if scenario is not None:
                shapes = {name: list(t.array.shape) for name, t in scenario.parameters.items()}
                found.append({"config": config(scenario), "params": shapes})
                break
    return found
