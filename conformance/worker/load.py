"""Importing the submission, and what it offers: functions, signatures, declarations."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import FunctionType
from typing import Any, Callable, NamedTuple

from .failures import Sources, describe_error, message_of, read_text
from .frameworks import DTYPES, NoDevice, NumPy, describe, framework
from .signatures import MAX_STRING, Signature, signature_of

FRAMEWORKS = ("numpy", "torch")
DEVICES = ("cpu", "cuda")
FULLY_MASKED = ("zero", "mean", "unmasked", "error", "avoids")
NO_TORCH = (
    "`pip install torch` gets it (pytorch.org says how to get the smaller build without CUDA); "
    "or name an interpreter that has it with --python"
)
MAX_ENTRIES = 64  # of a list of variants or dtypes


class Target(NamedTuple):
    """A submission that was imported."""

    sources: Sources
    functions: dict[str, Callable[..., Any]]
    signatures: dict[str, Signature]
    framework: NumPy


class Refused(Exception):
    """The submission cannot be graded; `answer` is the JSON that says why."""

    def __init__(self, message: str, hint: str, **more: Any) -> None:
        super().__init__(message)
        self.answer = {"ok": False, "message": message, "hint": hint, **more}


def load(
    path: str, names: Sequence[str], arguments: Sequence[str], among: bool = False
) -> tuple[Target, dict[str, Any]]:
    """Imports the file `path` and reads what it offers of `names`.

    Args:
        path: absolute path of the adapter. Its folder becomes `sys.path[0]`.
        among: it lies among files of others, whose names must not hide a library: its folder is searched last.
        names: functions to look for; for 'Model' its method 'Model.forward' is read as well.
        arguments: become `sys.argv[1:]`; the files that they name are what is graded, and `path`
            only makes them gradable.

    Returns:
        the target, and the offer as JSON.

    Raises:
        Refused: it raised, or declares something that does not exist.
    """
    text = read_text(path)
    sources = Sources(path, text, named_files(arguments))
    module = _import(path, arguments, sources, among)
    space = vars(module)
    found = space.get("graded_files")  # an adapter finds them where only it can, in an installed library
    if type(found) is list and all(type(name) is str and os.path.isabs(name) for name in found):
        sources.grade(found)
    sources.keep(sys.modules)
    read = _Declarations(space, path, text)
    framework_name = read.one_of("framework", FRAMEWORKS) or "numpy"
    dtypes = read.dtypes()
    variants = read.variants()
    fully_masked = read.one_of("fully_masked", FULLY_MASKED)
    device = read.one_of("device", DEVICES) or "cpu"
    if device != "cpu" and framework_name != "torch":
        raise Refused(
            f'it declares device = "{device}"; only PyTorch has devices',
            'declare framework = "torch"',
            file=path,
        )
    try:
        arrays = framework(framework_name, device)
    except NoDevice as error:
        raise Refused(
            f'it declares device = "{device}", and {error}',
            'grade it where there is one, or declare device = "cpu"',
            file=path,
            line=read.line("device"),
        ) from None
    except ImportError as error:
        raise Refused(
            f'it declares framework = "{framework_name}", but {sys.executable} has none: {error}',
            "name the interpreter that has it with --python",
            file=path,
            line=read.line("framework"),
        ) from None
    functions: dict[str, Callable[..., Any]] = {}
    signatures: dict[str, Signature] = {}
    not_callable: dict[str, str] = {}
    for name in names:
        value = space.get(name)
        if value is None:
            continue
        if not callable(value):
            not_callable[name] = describe(value)
            continue
        functions[name] = value
        signatures[name] = signature_of(value)
        if name == "Model" and issubclass(type(value), type):
            method = _method(value)
            if method is not None:
                signatures["Model.forward"] = signature_of(method, bound=True)
    known = set(names)
    others = [
        name
        for name, value in list(space.items())
        if name not in known
        and not name.startswith("_")
        and type(value) in (FunctionType, type)
        and value.__module__ == module.__name__
    ]
    offer = {
        "ok": True,
        "framework": framework_name,
        "dtypes": dtypes or ["float32"],
        "dtype_declared": dtypes is not None,
        "variants": variants,
        "fully_masked": fully_masked,
        "functions": {name: signature.bounded() for name, signature in signatures.items()},
        "not_callable": not_callable,
        "others": [name[:MAX_STRING] for name in others[:MAX_ENTRIES]],
        "parameter_shapes": callable(space.get("parameter_shapes")),
    }
    return Target(sources, functions, signatures, arrays), offer


def named_files(arguments: Sequence[str]) -> list[str]:
    """The files and folders among an adapter's arguments; `model.py:GPT` names one as well."""
    candidates = (name for word in arguments for name in (word, word.rpartition(":")[0]))
    return [name for name in candidates if os.path.isabs(name) and os.path.exists(name)]


def _method(model: Any) -> Any:
    """What a call of an instance of `model` would call; None when the class does not say."""
    try:
        method = getattr(model, "forward", None) or vars(model).get("__call__")
    except Exception:  # a metaclass may raise anything
        return None
    return method if callable(method) else None


def _import(path: str, arguments: Sequence[str], sources: Sources, among: bool) -> Any:
    folder, file_name = os.path.split(path)
    name = os.path.splitext(file_name)[0]
    if name in sys.modules or name in getattr(sys, "stdlib_module_names", ()):
        name = "submission_" + name  # a file called json.py must not become everybody's json
    # The reference program must not be imported by accident, be it installed beside the submission.
    sys.modules["conformance"] = None  # type: ignore[assignment]
    sys.path.insert(len(sys.path) if among else 0, folder)
    sys.argv[:] = [path, *arguments]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused(f"{path} is not a Python file", "give a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # SystemExit too: sys.exit() on import is the submission's
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise Refused(
                f"it needs PyTorch, which {sys.executable} does not have", NO_TORCH, file=path
            ) from None
        advice = vars(type(error)).get("refusal")
        if type(advice) is str:  # a bundled adapter says itself what is wrong
            raise Refused(message_of(error), advice, file=path) from None
        told = describe_error(error, sources)
        where = f" ({told['file']}, line {told['line']})" if told["file"] else ""
        raise Refused(
            f"it raised {told['type']} while it was imported{where}: {told['message']}",
            _import_hint(error),
            file=told["file"],
            line=told["line"],
            text=told["text"],
            traceback=told["traceback"],
        ) from None
    return module


def _import_hint(error: BaseException) -> str:
    if isinstance(error, ImportError) and error.name:
        if error.name.partition(".")[0] == "conformance":
            return "an adapter may not use the package `conformance`: it would grade itself"
        return (
            f"{sys.executable} cannot import {error.name}: install it there, "
            "or name another interpreter with --python"
        )
    if isinstance(error, MemoryError):
        return "it needs more memory than --memory allows, or asks for too much"
    if isinstance(error, SystemExit):
        return 'put what the file does as a program under `if __name__ == "__main__":`'
    return "run the file with Python by itself: it has to import without an error"


class _Declarations:
    """Reads the declarations of a module; anything unexpected is Refused with its line."""

    def __init__(self, space: dict[str, Any], path: str, text: str) -> None:
        self._space = space
        self._path = path
        self._text = text

    def line(self, name: str) -> int | None:
        """Line of the last assignment to `name` at the top of the file."""
        try:
            body = ast.parse(self._text).body
        except (SyntaxError, ValueError, RecursionError):
            return None
        found = None
        for node in body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                found = node.lineno
        return found

    def one_of(self, name: str, allowed: Sequence[str]) -> str | None:
        """The declared string, None when undeclared."""
        value = self._space.get(name)
        if value is None:
            return None
        if type(value) is str and value in allowed:
            return value
        raise self._refuse(name, value, "one of " + ", ".join(f'"{word}"' for word in allowed))

    def dtypes(self) -> list[str] | None:
        """The declared dtypes without repetitions, None when undeclared."""
        value = self._space.get("dtype")
        if value is None:
            return None
        several = list(value) if type(value) in (list, tuple) else [value]
        if 0 < len(several) <= MAX_ENTRIES and all(type(d) is str and d in DTYPES for d in several):
            return list(dict.fromkeys(several))
        wanted = "a name or a list of names out of " + ", ".join(f'"{word}"' for word in DTYPES)
        raise self._refuse("dtype", value, wanted)

    def variants(self) -> list[Any]:
        """The declared variants, names or dicts, [] when undeclared. Whether they exist is the pack's."""
        value = self._space.get("variant")
        if value is None:
            return []
        several = list(value) if type(value) in (list, tuple) else [value]
        if 0 < len(several) <= MAX_ENTRIES and all(_is_variant(variant) for variant in several):
            return several
        raise self._refuse(
            "variant",
            value,
            'a name, a dict such as {"base": "llama", "rope_theta": 500000.0}, or a list of them',
        )

    def _refuse(self, name: str, value: Any, wanted: str) -> Refused:
        line = self.line(name)
        shown = f'"{value[:80]}"' if type(value) is str else describe(value)
        if type(value) in (list, tuple):
            kinds = [f'"{v[:80]}"' if type(v) is str else describe(v) for v in value[:8]]
            shown = f"[{', '.join(kinds)}]"
        where = f" (line {line})" if line else ""
        return Refused(
            f"`{name}` is {shown}{where}; it has to be {wanted}",
            f"correct `{name}` in {self._path}",
            file=self._path,
            line=line,
        )


def _is_variant(value: Any) -> bool:
    if type(value) is str:
        return len(value) <= MAX_STRING
    if type(value) is not dict or len(value) > MAX_ENTRIES:
        return False
    scalars = (str, int, float, bool, type(None))
    return all(
        type(key) is str and type(item) in scalars and len(key) <= MAX_STRING and len(str(item)) <= MAX_STRING
        for key, item in value.items()
    )
