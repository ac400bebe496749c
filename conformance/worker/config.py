"""The `config` that a submission gets: attributes to read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any


class Config:
    """Read-only attributes such as `d_model` and `n_heads`; printing it shows them all."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"config is read-only; it cannot get `{name}`")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"config is read-only; `{name}` cannot be deleted")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle ask for these
            raise AttributeError(name)
        close = difflib.get_close_matches(name, list(self.__dict__), n=1)
        hint = f"; did you mean `{close[0]}`?" if close else f"; it has {', '.join(self.__dict__)}"
        raise AttributeError(f"config has no `{name}`{hint}")

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"
