"""Which parameter each operation of a module uses, and in what order: the module run once and watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Use(NamedTuple):
    """The first operation that takes a parameter."""

    name: str
    operation: str
    transposed: bool
    """Whether a matrix is kept [out, in]: it was transposed before the product, or F.linear did it."""


class Watch(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is seen as Any
    """Records the first use of every parameter, and the name of every operation."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.names = {id_of(parameter): name for name, parameter in reversed(list(module.named_parameters()))}
        self.uses: dict[str, Use] = {}
        self.operations: list[str] = []
        self.pairs = False
        """Whether neighbouring features were taken apart: an axis of two cut in two, or every second one taken."""
        self._turned: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        operation = func.overloadpacket.__name__
        tanh = operation == "gelu" and (kwargs or {}).get("approximate") == "tanh"
        self.operations.append("tanh" if tanh else operation)
        self.pairs = self.pairs or _cuts_pairs(operation, args)
        views = operation in ("t", "transpose", "numpy_T", "permute")
        for value in tree_leaves((args, kwargs or {})):
            name = self.names.get(id_of(value)) if isinstance(value, torch.Tensor) else None
            if name is None:
                continue
            if views:
                self._turned.add(name)
            elif operation not in (
                "detach",
                "alias",
                "view",
                "to",
                "_to_copy",
                "expand",
                "unsqueeze",
                "slice",
                "select",
            ):
                self.uses.setdefault(
                    name, Use(name, operation, operation == "linear" or name in self._turned)
                )
        return result


def _cuts_pairs(operation: str, args: Any) -> bool:
    x = args[0] if args else None
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.dim() < 3:
        return False
    given = list(args[1:])
    last = (given[0] if given and isinstance(given[0], int) else 0) in (-1, x.dim() - 1)
    if operation in ("unbind", "select"):
        return last and x.shape[-1] == 2
    return operation == "slice" and last and len(given) > 3 and given[3] == 2


def id_of(tensor: Any) -> int:
    """What a parameter and all of its views share."""
    return int(tensor.untyped_storage().data_ptr())


def watched(module: Any, arguments: Mapping[str, Any]) -> tuple[Watch, Any]:
    """The module called once: what was seen, and what it returned."""
    watch = Watch(module)
    with torch.inference_mode(), watch:
        result = module(**arguments)
    return watch, result
