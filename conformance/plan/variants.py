"""Which variants and dtypes of a target are graded: what it declares, or what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.language.entries import explored
from conformance.language.errors import NOWHERE, PackError, suggestion
from conformance.pack.claim_files import choices_of
from conformance.pack.model import Pack, Variant

UNDECLARED = "minimal"
"""Whose choices stand in where an operation has choices that its claims do not depend on."""


ASKED = "--variant"


class VariantError(ValueError):
    """A variant that the pack does not know; the message says which it does, and where it came from.

    `asked` is whether the command line named it; otherwise the target's own file did.
    """

    def __init__(self, message: str) -> None:
        """The message begins with where the variant came from."""
        super().__init__(message)
        self.asked = message.startswith(ASKED)


@dataclass(frozen=True)
class Graded:
    """The variants of one run. `declared` are those of the file, whatever is graded of them."""

    variants: tuple[Variant, ...]
    declared: tuple[Variant, ...]

    @property
    def undeclared(self) -> bool:
        """Whether nothing says which variant the target is."""
        return not self.declared


def resolve(pack: Pack, declared: Sequence[str | Mapping[str, Any]], asked: Sequence[str]) -> Graded:
    """The variants to grade. Raises `VariantError`.

    What is asked for selects among the declared ones; where it is none of them, it takes their
    place, as it does where nothing is declared.
    """
    own = tuple(variant_of(pack, entry, "the file's `variant`") for entry in declared)
    if not asked:
        return Graded(own or (pack.variants[UNDECLARED],), own)
    wanted = tuple(
        next((v for v in own if v.name == name), None) or variant_of(pack, name, ASKED) for name in asked
    )
    return Graded(wanted, own if all(w in own for w in wanted) and own else wanted)


def further_variants(pack: Pack) -> Iterator[Variant]:
    """The named variants with one choice changed, for what is about none of them as it is."""
    named = [variant.choices for variant in pack.variants.values()]
    values = {name: field.values for name, field in pack.choices.items()}
    for i, choices in enumerate(explored(named, values)[len(named) :]):
        yield Variant(f"further {i + 1}", choices)


def variant_of(pack: Pack, entry: str | Mapping[str, Any], origin: str) -> Variant:
    """A variant by its name, or by a base and what differs. Raises `VariantError`."""
    if isinstance(entry, str):
        if entry not in pack.variants:
            near = suggestion(entry, pack.variants)
            raise VariantError(
                f"{origin} is '{entry}'; the pack knows {', '.join(pack.variants)}"
                + (f"; {near}" if near else "")
            )
        return pack.variants[entry]
    fields = dict(entry)
    base = fields.pop("base", None)
    name = fields.pop("name", None)
    if base is not None and base not in pack.variants:
        raise VariantError(f"{origin} has base '{base}'; the pack knows {', '.join(pack.variants)}")
    start = pack.variants[base].choices if base else {}
    try:
        choices = choices_of(fields, pack.choices, start, NOWHERE)
    except PackError as error:
        raise VariantError(f"{origin}: {error.message}" + (f"; {error.hint}" if error.hint else "")) from None
    differs = {key: value for key, value in fields.items() if not base or choices[key] != start[key]}
    differences = ",".join(f"{key}={value}" for key, value in differs.items())
    called = str(name) if name else f"{base or 'custom'}+{differences}" if differences else str(base)
    return Variant(called, choices)
