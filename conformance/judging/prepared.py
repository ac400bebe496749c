"""What is asked of a target on a scenario, and where it is looked at: no target changes it, so it is made once.

Kept by the scenario itself, not by its key: scenarios of one key may differ in what a target is told of
its variant. What is kept of a scenario goes when the scenario does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from conformance.plan.scenario import Scenario

T = TypeVar("T")


class Prepared:
    """Values by scenario and name; of a large target nothing is kept."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Scenario, dict[Hashable, Any]] = WeakKeyDictionary()

    def of(self, scenario: Scenario, what: Hashable, make: Callable[[], T]) -> T:
        """What `make` makes of a scenario, made once for each `what`; it must not hold the scenario."""
        if scenario.large:
            return make()
        kept = self._kept.get(scenario)
        if kept is None:
            kept = self._kept[scenario] = {}
        if what not in kept:
            kept[what] = make()
        found: T = kept[what]
        return found
