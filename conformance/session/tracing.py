"""What a traced call recorded: every array that the submission's own files bound to a name."""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from conformance.session.outcomes import Outcome


@dataclass(frozen=True, eq=False)
class Record:
    """An array as it was when a line had bound it to a variable, or a function had returned it.

    Attributes:
        file: the source file.
        line: first line of the statement that made it.
        text: that line's text.
        function: in which it was made.
        variable: its name; 'return' for what a function returned.
        array: float, integer or bool, read-only.
        step: of a model's steps, counting from 0; None elsewhere.
    """

    file: str
    line: int
    text: str
    function: str
    variable: str
    array: npt.NDArray[Any]
    step: int | None = None


@dataclass(frozen=True, eq=False)
class Trace:
    """Records in the order of execution, what was left out (`notes`), and what came of the call."""

    records: tuple[Record, ...]
    notes: tuple[str, ...]
    outcome: Outcome
