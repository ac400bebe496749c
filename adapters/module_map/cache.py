"""The protocols by which a module remembers what it has read.

none       it has no cache
returned   it returns its cache, which is passed back
object     one object for each sequence, changed in place
inside     buffers of the module, begun anew by a method; `start` names the argument that says where
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .call import picked
from .errors import Lines, MapError
from .expressions import imported, value_of


class Past(NamedTuple):
    """What is handed out as the contract's cache: the module's own, how many tokens it holds, whose it is."""

    held: Any
    length: int
    sequence: int = 0


class Cache:
    """Speaks a protocol with one module."""

    def __init__(self, plan: Mapping[str, Any], module: Any, names: Mapping[str, Any], lines: Lines) -> None:
        self.plan = plan
        self.module = module
        self.names = names
        self.lines = lines
        self.protocol = plan.get("protocol", "none")
        self.sequences = 0

    def begun(self, past: Past | None, batch: int, length: int) -> tuple[Past, dict[str, Any]]:
        """Before a call: the past, and the arguments that carry it.

        Raises NotImplementedError where two sequences share buffers inside the module.
        """
        if past is None:
            self.sequences += 1
            past = Past(self._first(batch, length), 0, self.sequences)
        arguments: dict[str, Any] = {}
        if self.protocol == "inside":
            if past.sequence != self.sequences:
                raise NotImplementedError("its buffers hold one sequence at a time")
            if self.plan.get("start"):
                arguments[self.plan["start"]] = past.length
        elif self.protocol in ("returned", "object") and (past.held is not None or self.protocol == "object"):
            arguments[self.plan["argument"]] = past.held
        return past, arguments

    def ended(self, past: Past, result: Any, length: int) -> Past:
        """After a call: the cache to hand out."""
        held = past.held
        if self.protocol == "returned":
            held = picked(result, self.plan["result"], self.lines, "cache")
        return Past(held, past.length + length, past.sequence)

    def _first(self, batch: int, length: int) -> Any:
        names = {**self.names, "batch": batch, "length": length}
        at = self.lines.at("cache")
        make = self.plan.get("make")
        try:
            arguments = value_of(self.plan.get("arguments", {}), names)
            if self.protocol == "inside" and self.plan.get("reset"):
                getattr(self.module, self.plan["reset"])(**arguments)
                return None
            if make is None:
                return None
            made = imported(make) if ":" in make else getattr(self.module, make)
            return made(**arguments)
        except AttributeError as error:
            raise MapError(f"{at}the module has no '{self.plan.get('reset') or make}': {error}") from None
        except ValueError as error:
            raise MapError(f"{at}{error}") from None
