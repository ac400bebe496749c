"""A `torch.nn.Module` behind the contract, by a map: built, filled, called, its results picked.

`adapters/pytorch.py` uses it. What a map's tables cannot say, a subclass of `ModuleMap` says in
Python; the map names it: `python: my_map.py:MyMap`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from .build import Source, build
from .cache import Cache, Past
from .call import Inputs, arguments_of, main_of, picked
from .errors import Lines, MapError, Misfit
from .hub import hub_variant
from .parameters import fill, shapes_of
from .taps import Hooks

__all__ = ["Held", "Inputs", "Lines", "MapError", "Misfit", "ModuleMap", "Source", "hub_variant", "shapes_of"]


EMBEDDINGS = ("embed", "position_embed")
"""Parameters that make the vectors of tokens: of a module that takes vectors, the call's and not its own."""


class Held:
    """A module with its parameters set, and what speaks with it."""

    def __init__(self, module: Any, hooks: Hooks, cache: Cache, params: Mapping[str, Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.cache = cache
        self.params = params


class ModuleMap:
    """What a map says, as methods: each can be overridden.

    Attributes:
        plan: the map: `build`, `parameters`, `call`, `returns`, `cache`, `taps`.
        source: the module's class, or the function that builds it.
    """

    def __init__(self, source: Source, plan: Mapping[str, Any], lines: Lines) -> None:
        self.source = source
        self.plan = plan
        self.lines = lines
        self.elsewhere = plan.get("device", "cpu") != "cpu"

    def build(self, config: Mapping[str, Any], dtype: Any) -> Any:
        """The module, for inference, its parameters yet unset; `config` has the contract's fields."""
        return build(self.source, self.plan.get("build", {}), config, dtype, self.lines)

    def fill(self, module: Any, params: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Gives every parameter its value. Raises MapError where something is left over."""
        taken = EMBEDDINGS if "embeddings" in self.plan["call"] else ()
        fill(module, self.plan.get("parameters", {}), params, config, self.lines, taken)

    def held(self, config: Mapping[str, Any], params: Mapping[str, Any], dtype: Any) -> Held:
        """The module, ready to be called."""
        module = self.build(config, dtype)
        if self.elsewhere:
            module = module.to(self.plan["device"])
        self.fill(module, params, config)
        layers = int(config.get("n_layers", 1))
        hooks = Hooks(module, self.plan.get("taps", {}), config, layers, self.lines)
        return Held(module, hooks, Cache(self.plan.get("cache", {}), module, config, self.lines), params)

    def call(
        self,
        held: Held,
        given: Mapping[str, Any],
        config: Mapping[str, Any],
        dtype: Any,
        past: Past | None,
        tap: Any,
    ) -> tuple[Any, Past]:
        """One call: the output, and the past for the next."""
        main = main_of(given)
        before, carried = held.cache.begun(past, main.shape[0], main.shape[1])
        inputs = Inputs(self.moved(given), before.length, bool(config.get("causal", True)), dtype)
        arguments = self.arguments(held, inputs, config)
        held.hooks.tap = tap
        try:
            method = self.plan.get("call", {}).get("method")
            result = (getattr(held.module, method) if method else held.module)(**arguments, **carried)
        finally:
            held.hooks.tap = None
        return self.output(result, inputs), held.cache.ended(before, result, main.shape[1])

    def check(self, held: Held, given: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Whether the module takes the arguments that the map gives it. Raises MapError."""
        main = main_of(given)
        _, carried = held.cache.begun(None, main.shape[0], main.shape[1])
        arguments = self.arguments(held, Inputs(self.moved(given), 0, True, torch.float32), config)
        method = self.plan["call"].get("method") or "forward"
        called = getattr(held.module, method, None)
        if called is None:
            raise MapError(f"{self.lines.at('call', 'method')}the module has no method '{method}'")
        try:
            inspect.signature(called).bind(**arguments, **carried)
        except TypeError as error:
            written = inspect.signature(called)
            raise MapError(
                f"{self.lines.at('call')}{method}{written} does not take what the map gives it: {error}"
            ) from None

    def moved(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs on the module's device."""
        if not self.elsewhere:
            return given
        device = self.plan["device"]
        return {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in given.items()
        }

    def arguments(self, held: Held, inputs: Inputs, config: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a call, the cache's apart."""

        def embedded(inputs: Inputs) -> Any:
            return self.embedded(held, inputs, config)

        return arguments_of(self.plan.get("call", {}), inputs, config, self.lines, embedded)

    def embedded(self, held: Held, inputs: Inputs, config: Mapping[str, Any]) -> Any:
        """The vectors of the tokens [B, T, D], for a module that takes these: rows of `embed`, scaled.

        Learned positions are added. Raises NotImplementedError for given positions that nothing would read.
        """
        if (
            config.get("position") != "learned"
            and "positions" not in self.plan["call"]
            and "positions" in inputs.given
        ):
            raise NotImplementedError("it takes vectors, and no positions beside them")
        vectors = held.params["embed"][inputs.given["tokens"]]
        scale = config.get("embed_scale", 1)
        if config.get("position") == "learned":
            return vectors * scale + held.params["position_embed"][inputs.positions(rows=False, always=True)]
        return vectors * scale

    def output(self, result: Any, inputs: Inputs) -> Any:
        """The tensor that is graded, out of what the module returned."""
        plan = self.plan.get("returns", {})
        found = picked(result, plan.get("at"), self.lines)
        if not isinstance(found, torch.Tensor):
            entry = self.lines.at("returns")
            raise MapError(
                f"{entry}the module returned a {type(found).__name__}, not a tensor; say where it is with `returns`"
            )
        if plan.get("positions") == "last" and found.dim() == 2:
            found = found[:, None]
        return found
