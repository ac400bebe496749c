"""A module from its class and the case's config: in the declared dtype, for inference, its parameters unset."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from .errors import Lines, MapError
from .expressions import imported, value_of


class Source:
    """Where the module's class comes from: `my_file.py:GPT` or `my_package.model:build`."""

    def __init__(self, words: str) -> None:
        """Raises MapError for what names no class."""
        self.words = words
        where, _, name = words.rpartition(":")
        if not where or not name:
            raise MapError(f"'{words}' names no module; write my_file.py:GPT or my_package.model:build")
        self.module = _loaded(where) if where.endswith(".py") else _imported(where)
        self.make = self.find(name)

    @property
    def file(self) -> str:
        """The file in which the class or function is written, '' where that cannot be told."""
        module = sys.modules.get(getattr(self.make, "__module__", ""), self.module)
        return str(getattr(module, "__file__", None) or "")

    def find(self, name: str) -> Any:
        """A name of that file, or `package.module:name`. Raises MapError."""
        if ":" in name:
            try:
                return imported(name)
            except ValueError as error:
                raise MapError(str(error)) from None
        found: Any = self.module
        for part in name.split("."):
            found = getattr(found, part, None)
            if found is None:
                there = [n for n, v in vars(self.module).items() if callable(v) and not n.startswith("_")]
                raise MapError(
                    f"{self.words}: there is no '{name}'; there are {', '.join(there[:20]) or 'none'}"
                )
        if not callable(found):
            raise MapError(f"{self.words}: '{name}' is a {type(found).__name__}, nothing to call")
        return found


def _loaded(where: str) -> Any:
    path = Path(where).resolve()
    if not path.is_file():
        raise MapError(f"{path} does not exist")
    sys.path.insert(0, str(path.parent))
    if (path.parent / "__init__.py").is_file():  # a file of a package may import beside it
        sys.path.insert(0, str(path.parent.parent))
        return importlib.import_module(f"{path.parent.name}.{path.stem}")
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names:
        name = "graded_" + name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise MapError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _imported(name: str) -> Any:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name + ".").startswith(error.name + "."):
            raise MapError(
                f"there is no module '{name}' ({error.name} cannot be imported); "
                "install it, or name the interpreter that has it with --python"
            ) from None
        raise


def build(
    source: Source, plan: Mapping[str, Any], config: Mapping[str, Any], dtype: Any, lines: Lines
) -> Any:
    """The module, as `build` of the map says.

    Args:
        source: its class, or a function that returns it.
        plan: the map's `build`: `config` (a class and its arguments), `arguments`, `refuse`.
        config: the fields that expressions may use.
        dtype: torch.dtype of the parameters; buffers keep what the module gives them.
        lines: where each entry of the map stands, for messages.

    Raises:
        NotImplementedError: `refuse` says that the module is not made for such sizes.
        MapError: it takes other arguments than mapped, or is no module.
    """
    for i, refusal in enumerate(plan.get("refuse", ())):
        if _valued(refusal["when"], config, source, lines, f"build/refuse/{i}"):
            raise NotImplementedError(refusal["because"])
    arguments = _valued(plan.get("arguments", {}), config, source, lines, "build/arguments")
    with default_dtype(dtype):
        if plan.get("config"):
            kind = source.find(plan["config"]["class"])
            fields = _valued(
                plan["config"].get("arguments", {}), config, source, lines, "build/config/arguments"
            )
            own = _made(kind, (), fields, lines, "build/config")
            more = plan["config"].get("attributes", {})
            for name, value in _valued(more, config, source, lines, "build/config/attributes").items():
                setattr(own, name, value)
            module = _made(source.make, (own,), arguments, lines, "build")
        else:
            module = _made(source.make, (), arguments, lines, "build")
    if not isinstance(module, torch.nn.Module):
        raise MapError(
            f"{lines.at('build')}{source.words} gave a {type(module).__name__}, not a torch.nn.Module"
        )
    for parameter in module.parameters():
        if parameter.is_floating_point() and not parameter.is_meta and parameter.dtype != dtype:
            parameter.data = parameter.data.to(dtype)
    return module.eval()


def _valued(value: Any, config: Mapping[str, Any], source: Source, lines: Lines, path: str) -> Any:
    if isinstance(value, dict) and not {"import", "by", "make"} & value.keys():
        return {k: _valued(v, config, source, lines, f"{path}/{k}") for k, v in value.items()}
    try:
        return value_of(value, config, source.find)
    except ValueError as error:
        raise MapError(f"{lines.at(*path.split('/'))}{error}") from None


def _made(kind: Any, given: tuple[Any, ...], arguments: Mapping[str, Any], lines: Lines, path: str) -> Any:
    """A call of the user's code; only a call that does not fit its signature is the map's fault."""
    try:
        return kind(*given, **arguments)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # it came from within
        name = getattr(kind, "__name__", str(kind))
        raise MapError(
            f"{lines.at(*path.split('/'))}{name} does not take what the map gives it: {error}"
        ) from None


@contextlib.contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    """Modules are made in this dtype: none is converted afterwards, so no buffer loses its precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(before)
