"""Every result that PyTorch computes during a trace, with the line of the submission that asked for it.

The trace of names (`watch.py`) sees what a statement binds; this sees what lies between: the middle of
an expression, the inside of `torch.nn.Linear`, and, by a probe, the weights inside a fused attention
kernel. A result of a library is told of the innermost line of the submission's own that led to it.

Nothing here changes a result: an operation runs as it would, is looked at afterwards, and whatever
cannot be looked at is passed over. What `torch.compile` has compiled runs unseen.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .fused import given_to, inside

if TYPE_CHECKING:
    from types import FrameType

    from .tracer import Tracer

CALLERS = 200  # frames between an operation and the submission's line
NOTHING, VIEW, NEW = range(3)  # what an operation returns: no result, memory that was there, or values
_NO_RESULTS = (
    *("empty", "new_empty", "uniform_", "normal_", "random_", "bernoulli_", "exponential_"),
    *("zero", "new_zeros", "one", "new_ones", "full", "new_full", "fill_", "copy_", "clone"),
)
"""Beginnings of the names of operations that compute nothing: they make old memory, noise, one number, a copy.

A module's parameters are made and filled by these.
"""

_getframe = sys._getframe


class Line(NamedTuple):
    """A statement of the submission, as the recorder wants it."""

    file: str
    first: int
    function: str


class Results(TorchDispatchMode):  # type: ignore[misc] # PyTorch is not read by the type checker
    """While it is entered, each result is recorded."""

    supports_higher_order_operators = True  # without it they would raise under a mode

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer
        self._kinds: dict[Any, int] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Keeping the compiler out of our own code takes two seconds, its import. Where it has not
        # been imported, nothing is compiled.
        return "torch._dynamo" in sys.modules

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Otherwise PyTorch would not run what the submission has compiled, but the original of it."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation, then records what it made."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        try:
            self._see(func, args, kwargs, result)
        except BaseException as error:
            self._tracer.failed(error)
        return result

    def _see(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        tracer, recorder = self._tracer, self._tracer.recorder
        if recorder.looking or not tracer.running or not recorder.in_time():
            return
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = kind_of(func)
        if kind == NOTHING or (kind == VIEW and not is_part(args, result)):
            return
        line = self._line(_getframe(2))
        if line is None:
            return
        name = name_of(func)
        for argument, value in given_to(func, args, kwargs):
            content = recorder.content(value, argument)
            if content is not None and not recorder.knows(content):
                recorder.add(*line, f"{name}({argument})", content)
        for part, value in inside(func, args, kwargs):
            self._record(line, f"{name}.{part}", value)
        several = list(result) if type(result) in (tuple, list) else [result]
        for position, value in enumerate(several):
            self._record(line, f"{name}[{position}]" if len(several) > 1 else name, value)

    def _record(self, line: Line, variable: str, value: Any) -> None:
        recorder = self._tracer.recorder
        if recorder.framework.is_array(type(value)):
            content = recorder.content(value, variable)
            if content is not None:
                recorder.add(*line, variable, content, unnamed=True)

    def _line(self, frame: FrameType | None) -> Line | None:
        """The innermost statement of the submission's files that is running, None for none.

        Code that was generated has lines that nobody can look up: the statement that called it counts.
        """
        for _ in range(CALLERS):
            if frame is None:
                return None
            if not frame.f_code.co_filename.startswith("<") and self._tracer.owns(frame):
                code, number = frame.f_code, frame.f_lineno
                statement = self._tracer.recorder.table(code.co_filename).get(number)
                first = number if statement is None else statement.first
                return Line(code.co_filename, first, getattr(code, "co_qualname", code.co_name))
            frame = frame.f_back
        return None


def results(tracer: Tracer) -> Results:
    """The mode that records results."""
    if "torch._dynamo" not in sys.modules:
        return Results(tracer)

    class Guarded(Results):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_dispatch__(func, types, args, kwargs)

    return Guarded(tracer)


def name_of(func: Any) -> str:
    """An operation as it would be called: `torch.softmax`."""
    return "torch." + str(getattr(func, "__name__", "")).partition(".")[0]


def kind_of(func: Any) -> int:
    """Whether an operation returns a view of its argument, or something new: its argument edited, too."""
    if name_of(func).partition(".")[2].startswith(_NO_RESULTS):
        return NOTHING
    returns = getattr(getattr(func, "_schema", None), "returns", ())
    aliases = [value.alias_info for value in returns if value.alias_info is not None]
    return VIEW if aliases and not any(alias.is_write for alias in aliases) else NEW


def is_part(args: Any, result: Any) -> bool:
    """Whether a view shows a part of a tensor, as of a fused projection; others show what was recorded."""
    whole = args[0] if type(args) is tuple and args else None
    parts = result if type(result) in (tuple, list) else [result]
    return isinstance(whole, Tensor) and any(part.numel() < whole.numel() for part in parts)
