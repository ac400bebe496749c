"""What can come of a call, and what a submission offers. All text is bounded; arrays are read-only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Output:
    """What one call, or one step of a model, gave.

    Attributes:
        tensors: results by name, float16, float32 or float64 (bfloat16 as float32). One that is too
            large, or larger than expected, is missing here and only in `shapes`.
        shapes: shape of every result, as announced.
        dtypes: dtype of every result, as the submission has it: 'bfloat16', 'float32'.
        taps: tapped tensors by name; float, int64 or bool.
        tap_dtypes: their dtypes, as the submission has them.
        modified: names of the arguments, and of the model's `params.…`, that were changed in place.
        notes: what was wrong with taps, one sentence each.
    """

    tensors: Mapping[str, npt.NDArray[Any]]
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    taps: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    tap_dtypes: Mapping[str, str] = field(default_factory=dict)
    modified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Common:
    """What every outcome has: seconds inside the submission, and what it printed in them."""

    seconds: float = 0.0
    printed: str = ""


@dataclass(frozen=True, eq=False)
class Returned(Common):
    """Usable tensors: one output for each step (an operation has one). Shapes may be wrong."""

    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class NotOffered(Common):
    """The submission does not have what the call needs; `reason` says what."""

    reason: str


@dataclass(frozen=True)
class Raised(Common):
    """It raised an exception, or cannot be called like this.

    `file`, `line` and `text` are those of the innermost frame in its own files, or of the
    definition; None and '' when there is none. `step` counts from 0, None outside of a model's steps.
    """

    type: str
    message: str
    file: str | None = None
    line: int | None = None
    text: str = ""
    traceback: str = ""
    step: int | None = None


@dataclass(frozen=True)
class Unusable(Common):
    """It returned something that is no float tensor: `got`, where `expected` was."""

    expected: str
    got: str
    step: int | None = None


@dataclass(frozen=True)
class Crashed(Common):
    """The process ended, or had to be ended: `how` says it, e.g. 'killed by signal SIGSEGV'."""

    how: str


@dataclass(frozen=True)
class TimedOut(Common):
    """No answer within `after` seconds. `printed` ends with the stack where it was, if it could be had."""

    after: float
    note: str = ""


Outcome: TypeAlias = Returned | NotOffered | Raised | Unusable | Crashed | TimedOut


@dataclass(frozen=True)
class Signature:
    """What a function takes by keyword, and where it is defined.

    `required` are the parameters without a default; `accepts_any` says that it has `**kwargs`, or
    that its signature cannot be read.
    """

    parameters: tuple[str, ...]
    required: tuple[str, ...]
    accepts_any: bool
    file: str | None
    line: int | None

    def takes(self, name: str) -> bool:
        """Whether an argument `name` may be given by keyword."""
        return self.accepts_any or name in self.parameters


@dataclass(frozen=True)
class Offer:
    """What a submission declares and defines.

    Attributes:
        framework: 'numpy' or 'torch'.
        dtypes: declared, or ('float32',) when `dtype_declared` is false.
        variants: names and dicts as declared; () when undeclared.
        fully_masked: the declared convention, None when undeclared.
        functions: by name, of those that were looked for; a model also has 'Model.forward', unless
            it is a factory.
        not_callable: names that were looked for but are no functions, with what they are.
        others: further functions and classes of the file, for "did you mean".
        parameter_shapes: whether it defines `parameter_shapes`.
        versions: 'python', 'numpy', and 'torch' when it was imported.
        printed: while it was imported.
        seconds: that the import took.
    """

    framework: str
    dtypes: tuple[str, ...]
    dtype_declared: bool
    variants: tuple[str | Mapping[str, Any], ...]
    fully_masked: str | None
    functions: Mapping[str, Signature]
    not_callable: Mapping[str, str]
    others: tuple[str, ...]
    parameter_shapes: bool
    versions: Mapping[str, str]
    printed: str = ""
    seconds: float = 0.0
