"""What a callable of the submission takes, and whether a call fits it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

from .failures import MAX_FILE, Ended, Sources

MAX_ENTRIES = 64  # parameters that are told
MAX_STRING = 200
MAX_MESSAGE = 4000
ABSENT = (None, False)  # an optional argument at this value may be left out


class Signature(NamedTuple):
    """What a callable takes by keyword: names, those without default, `**kwargs`, where it stands."""

    parameters: tuple[str, ...]
    required: tuple[str, ...]
    accepts_any: bool
    file: str | None
    line: int | None
    written: str = ""  # the parameters as in source, 'x, /, dim, eps=…, **kwargs'

    def takes(self, name: str) -> bool:
        """Whether an argument `name` may be given by keyword."""
        return self.accepts_any or name in self.parameters

    def bounded(self) -> list[Any]:
        """The fields as JSON of limited size."""
        names = [[name[:MAX_STRING] for name in some[:MAX_ENTRIES]] for some in self[:2]]
        return [*names, self.accepts_any, self.file and self.file[:MAX_FILE], self.line]


def signature_of(function: Any, bound: bool = False) -> Signature:
    """The signature of a callable; one that cannot be read (some builtins) accepts anything.

    `bound` says that the first parameter is `self`, to be left out.
    """
    file, line = _location(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except Exception:  # a builtin, or an object whose __signature__ is anything
        return Signature((), (), True, file, line)
    if bound:
        parameters = parameters[1:]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return Signature(
        tuple(p.name for p in named),
        # One that can only be given by position is required and cannot be met; `fit` says so.
        tuple(
            p.name
            for p in parameters
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ),
        any(p.kind is p.VAR_KEYWORD for p in parameters),
        file,
        line,
        _written(parameters),
    )


def _written(parameters: Sequence[inspect.Parameter]) -> str:
    """Parameters as they would be written, without the values of their defaults."""
    marks: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    words = []
    for position, parameter in enumerate(parameters):
        default = "" if parameter.default is parameter.empty else "=…"
        words.append(marks.get(parameter.kind, "") + parameter.name + default)
        following = parameters[position + 1].kind if position + 1 < len(parameters) else None
        if parameter.kind is parameter.POSITIONAL_ONLY and following is not parameter.POSITIONAL_ONLY:
            words.append("/")
    return ", ".join(words)


def _location(function: Any) -> tuple[str | None, int | None]:
    """File and first line of a function, method or class; (None, None) when there is no code."""
    try:
        plain = inspect.unwrap(function)
        plain = vars(plain).get("__init__") if isinstance(plain, type) else getattr(plain, "__func__", plain)
        code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)
    except Exception:  # an object whose attributes are anything
        return None, None
    return (code.co_filename, code.co_firstlineno) if inspect.iscode(code) else (None, None)


def fit(
    name: str, signature: Signature, arguments: dict[str, Any], optional: Sequence[str], sources: Sources
) -> None:
    """Makes `arguments` fit: drops optional ones that say nothing and are not taken.

    Raises:
        Ended: 'not_offered' for an optional argument that is not taken, 'raised' for any other
            mismatch, with the call and the signature in its message.
    """
    unknown = [word for word in arguments if not signature.takes(word)]
    for word in unknown:
        if word in optional:
            if not any(arguments[word] is value for value in ABSENT):
                raise Ended("not_offered", reason=f"`{name}` takes no `{word}`")
            del arguments[word]
    lacks = [word for word in unknown if word in arguments and word not in signature.required]
    needs = [word for word in signature.required if word not in arguments]
    by_position = [word for word in unknown if word in signature.required]
    if lacks or needs or by_position:
        call = ", ".join(f"{word}=…" for word in arguments)
        problems = [f"it has no `{word}`" for word in lacks] + [f"it requires `{word}`" for word in needs]
        problems += [f"it takes `{word}` by position only" for word in by_position]
        message = (
            f"`{name}` is called as {name}({call}), by keyword; "
            f"this one is {name}({signature.written}): {', '.join(problems)}"
        )
        raise Ended(
            "raised",
            type="TypeError",
            message=message[:MAX_MESSAGE],
            file=signature.file,
            line=signature.line,
            text=sources.line(signature.file, signature.line) if signature.file else "",
            traceback="",
        )
