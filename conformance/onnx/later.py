"""Modules that are imported once something asks for what is in them, or never.

onnx-ir imports SymPy for sums of symbolic sizes. Nothing here adds any, and SymPy takes more time and memory to
import than a usual graph takes to read.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

SYMBOLIC = ("sympy", "onnx_ir._symbolic_shapes")
"""What onnx-ir computes with symbolic sizes by; the second has a table of functions of the first."""


class Later(ModuleType):
    """Stands in the place of a module until an attribute of it is asked for."""

    def __getattr__(self, attribute: str) -> Any:
        """That of the module itself, which is imported now, and takes its place for those who import it later."""
        if (
            attribute.startswith("__") and attribute != "__path__"
        ):  # whoever looks through all modules asks for these
            raise AttributeError(attribute)
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)


def later(*names: str) -> None:
    """Put off importing modules that nobody has imported yet; for a process of one's own, since all others see it too."""
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = Later(name)
