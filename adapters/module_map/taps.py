"""Tensors inside the module made visible: hooks on its submodules, under the contract's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .call import picked
from .errors import Lines, MapError
from .expressions import LAYER, at_layer, value_of


class Hooks:
    """Forward hooks that hand submodules' results (or inputs) to `tap` while one is given."""

    def __init__(
        self, module: Any, plan: Mapping[str, Any], config: Mapping[str, Any], layers: int, lines: Lines
    ) -> None:
        """Raises MapError for a submodule that is not there."""
        self.tap: Callable[[str, Any], None] | None = None
        self.config = config
        self.lines = lines
        for name, entry in plan.items():
            for i in range(layers) if LAYER.search(name) else (None,):
                tap, path = (text if i is None else at_layer(text, i) for text in (name, entry["module"]))
                try:
                    submodule = module.get_submodule(path)
                except AttributeError as error:
                    raise MapError(f"{lines.at('taps', name)}{error}") from None
                submodule.register_forward_hook(self._hook(tap, name, entry))

    def _hook(self, tap: str, name: str, entry: Mapping[str, Any]) -> Callable[..., None]:
        def hook(module: Any, given: Any, result: Any) -> None:
            if self.tap is None:
                return
            value = given if entry.get("of") == "input" else result
            where = entry.get("at")
            if where is None and isinstance(value, tuple):
                where = 0
            value = picked(value, where, self.lines, "taps")
            part = entry.get("part")
            if part is not None:  # [which, of how many, or the sizes of all]
                value = self._part(value, part)
            if entry.get("split"):
                heads = value_of(entry["split"], self.config)
                value = value.unflatten(-1, (int(heads), -1)).transpose(1, 2)
            self.tap(tap, value)

        return hook

    def _part(self, value: Any, part: list[Any]) -> Any:
        which, sizes = part
        sizes = value_of(sizes, self.config)
        if isinstance(sizes, int):
            sizes = [value.shape[-1] // sizes] * sizes
        return torch.split(value, [int(size) for size in sizes], -1)[which]
