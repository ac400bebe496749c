"""Whether lines are lines of `results.jsonl`: the schema of `spec/schema/`, with faults that say where.

For tests and for tools that read results; grading and reports do without it, since a report shows what
it can of any file.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from conformance.locations import bundled

KINDS = ("run", "claim", "verdict", "end")


def schema_file() -> Path:
    """The schema, in a checkout as in an installed copy. Raises `MissingDataError`."""
    return bundled("spec") / "schema" / "results.schema.json"


def faults(line: Any) -> list[str]:
    """What is wrong with a line, one sentence each; nothing for a line that fits.

    Raises:
        MissingDataError: this copy of the tool has no schema.
    """
    kind = line.get("kind") if isinstance(line, Mapping) else None
    if kind not in KINDS:
        return [f"kind is {kind!r}, expected one of {', '.join(KINDS)}"]
    found = sorted(_validator(kind).iter_errors(line), key=lambda error: list(map(str, error.path)))
    return [f"{kind}.{'.'.join(map(str, error.path))}: {error.message}"[:500] for error in found]


def faults_of_file(text: str) -> Iterator[str]:
    """What is wrong with a whole file, with the number of the line."""
    for number, row in enumerate(text.split("\n"), 1):
        if not row:
            continue
        try:
            line = json.loads(row)
        except ValueError as error:
            yield f"line {number}: {error}"
            continue
        yield from (f"line {number}: {fault}" for fault in faults(line))


@functools.cache
def _validator(kind: str) -> Draft202012Validator:
    """Of one kind of line alone: `oneOf` would only say that none of the four fits."""
    schema = json.loads(schema_file().read_text(encoding="utf-8"))
    return Draft202012Validator({"$defs": schema["$defs"], "$ref": f"#/$defs/{kind}"})
