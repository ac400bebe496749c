"""The variant that a `config.json` of `transformers` means, by the map's section `hub`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import Lines, MapError, NoVariant
from .expressions import computed


def hub_variant(plan: Mapping[str, Any], fields: Mapping[str, Any], lines: Lines) -> dict[str, Any]:
    """The map's first variant, its choices taken from the fields.

    Raises:
        NoVariant: the config asks for what no variant of the program is.
        MapError: it lacks a field.
    """
    hub = plan["hub"]
    names = {**hub["defaults"], **fields}
    first = plan["variant"][0] if isinstance(plan["variant"], list) else plan["variant"]
    variant = {"base": first} if isinstance(first, str) else dict(first)
    for i, refusal in enumerate(hub["refuse"]):
        if _value(refusal["when"], names, lines, "refuse", str(i)):
            raise NoVariant(f"this config.json is of no variant of the program: {refusal['because']}")
    for choice, text in hub["choices"].items():
        variant[choice] = _value(text, names, lines, "choices", choice)
    return variant


def _value(text: str, names: Mapping[str, Any], lines: Lines, *path: str) -> Any:
    try:
        return computed(text.lstrip("="), names)
    except ValueError as error:
        raise MapError(
            f"{lines.at('hub', *path)}{error}; the config.json and the map's defaults lack it"
        ) from None
