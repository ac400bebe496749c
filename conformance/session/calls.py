"""What a submission can be asked to compute, as data."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Value: TypeAlias = (
    "npt.NDArray[Any] | int | float | bool | str | Mapping[str, Value] | Sequence[Value] | None"
)

Request: TypeAlias = "tuple[Mapping[str, Any], Sequence[Any]]"
"""JSON and buffers of what a worker is asked."""

# The operations of the contract that may return several tensors, as a tuple in this order.
RETURNS: Mapping[str, tuple[str, ...]] = {"attention": ("output", "weights")}


@dataclass(frozen=True, eq=False)
class Step:
    """One `forward` of a model.

    Attributes:
        inputs: `tokens` and any of `attention_mask`, `positions`, `source`; only these are passed.
        sequence: steps of the same name share a cache, which starts as None.
        use_cache: pass `cache` and expect `(logits, cache)`.
        expect: shape of `logits` where it is known; decides how much of another shape is read.
    """

    inputs: Mapping[str, Value]
    sequence: str = "main"
    use_cache: bool = False
    expect: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Gradient:
    """Asks for a gradient by autograd instead of the result: of Σ weights · result, by an argument.

    Attributes:
        by: name of the argument, a float array.
        weights: one for each element of the result.
    """

    by: str
    weights: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class OperationCall:
    """One call of a function, arguments by keyword.

    Attributes:
        function: its name.
        arguments: their values; float arrays arrive in the dtype of the call, integers as int64.
        optional: names that a function need not take; without one of them it is NotOffered, unless
            the value is None or False.
        expect: shape of each tensor that may come back, by name.
        tap: pass `tap` to a function that takes it.
        config: passed as `config`, an object with attributes, unless None.
        returns: names of the tensors returned; several come as a tuple, of which the first alone
            is enough. Default: `RETURNS`, else the names of `expect`, else 'output'.
        repetition: makes a call differ from an equal one, which would not be made again.
        gradient: what comes back is a gradient, as 'gradient'; NotOffered where there is no autograd.
    """

    function: str
    arguments: Mapping[str, Value]
    optional: frozenset[str] = frozenset()
    expect: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    tap: bool = False
    config: Mapping[str, Value] | None = None
    returns: tuple[str, ...] | None = None
    repetition: int = 0
    gradient: Gradient | None = None
    requests: "dict[tuple[str, bool], Request]" = field(default_factory=dict, init=False, repr=False)
    """Made ready for a worker, see `requests.ready`."""

    @property
    def entry(self) -> str:
        """The function called."""
        return self.function

    @property
    def counted_as(self) -> str:
        """What its crashes are counted under: a gradient that fails says nothing of the operation."""
        return self.function if self.gradient is None else f"{self.function}, for its gradient"

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the tensors that may come back, in the order of the tuple."""
        if self.gradient is not None:
            return ("gradient",)
        return self.returns or RETURNS.get(self.function) or tuple(self.expect) or ("output",)

    def digest(self) -> str:
        """Hash of all that decides the result (hexadecimal). Raises TypeError for a wrong value."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        content = (self.function, self.arguments, self.optional, self.expect, self.tap, self.config)
        gradient = None if self.gradient is None else [self.gradient.by, self.gradient.weights]
        return digest_of("operation", *content, self.outputs, self.repetition, gradient)


@dataclass(frozen=True, eq=False)
class ModelCall:
    """A model made from `config` and `params`, then one or more steps.

    Attributes:
        config: attributes of the object passed as `config`.
        params: parameters by full name, float arrays.
        steps: made in order; sequences may be interleaved.
        tap: pass `tap` to a `forward` that takes it.
        repetition: makes a call differ from an equal one, which would not be made again.
    """

    config: Mapping[str, Value]
    params: Mapping[str, npt.NDArray[Any]]
    steps: tuple[Step, ...]
    tap: bool = False
    repetition: int = 0
    requests: "dict[tuple[str, bool], Request]" = field(default_factory=dict, init=False, repr=False)
    """Made ready for a worker, see `requests.ready`."""

    @property
    def entry(self) -> str:
        """The class called."""
        return "Model"

    @property
    def counted_as(self) -> str:
        """What its crashes are counted under."""
        return self.entry

    def digest(self) -> str:
        """Hash of all that decides the result (hexadecimal). Raises TypeError for a wrong value."""
        return self._digest

    @property
    def model_digest(self) -> str:
        """Hash of config and parameters: calls that share it may share an instance."""
        return self._model_digest

    @cached_property
    def _digest(self) -> str:
        steps = [(step.inputs, step.sequence, step.use_cache, step.expect) for step in self.steps]
        return digest_of("model", self.model_digest, steps, self.tap, self.repetition)

    @cached_property
    def _model_digest(self) -> str:
        return digest_of(self.config, self.params)


Call: TypeAlias = OperationCall | ModelCall


def digest_of(*values: Any) -> str:
    """Hash of values (hexadecimal): equal contents give equal hashes, whatever their order in a mapping.

    Raises:
        TypeError: one of them is not a `Value`.
    """
    state = hashlib.blake2b(digest_size=20)
    for value in values:
        _feed(state, value)
    return state.hexdigest()


def _feed(state: "hashlib.blake2b", value: Any) -> None:
    """Adds `value` so that no two different values add the same bytes: each with its kind and length."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":
            raise TypeError(f"an array of dtype {value.dtype} cannot be an argument of a call")
        state.update(f"a{value.dtype.str}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif isinstance(value, np.generic):
        _feed(state, value.item())
    elif value is None or isinstance(value, bool | int | float):
        state.update(f"{type(value).__name__}{value!r};".encode())
    elif isinstance(value, str):
        raw = value.encode()
        state.update(b"s%d:" % len(raw))
        state.update(raw)
    elif isinstance(value, Mapping):
        state.update(b"m%d:" % len(value))
        for name in sorted(value):
            _feed(state, name)
            _feed(state, value[name])
    elif isinstance(value, frozenset):
        _feed(state, sorted(value))
    elif isinstance(value, Sequence):
        state.update(b"l%d:" % len(value))
        for item in value:
            _feed(state, item)
    else:
        raise TypeError(f"a {type(value).__name__} cannot be an argument of a call")
