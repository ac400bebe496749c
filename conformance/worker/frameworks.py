"""Arrays in and out: how a framework's arrays are made, compared, and looked at.

Values travel as float32 or float64, int64 and bool. `NumPy` and `Torch` turn them into what the
submission works with and back. What comes back was made by the submission, so nothing is believed:
types are read with `type()`, attributes through base classes, every failure is an answer.

NumPy's functions are taken by name at import: a submission may replace them in the module.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy import (
    array,
    array_equal,
    asarray,
    dtype,
    float16,
    float32,
    float64,
    generic,
    longdouble,
    ndarray,
    uint8,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .tracer import Tracer

    Array = NDArray[Any]

DTYPES = ("float16", "bfloat16", "float32", "float64")
_FLOATS: dict[str, Any] = {"float16": float16, "float32": float32, "float64": float64}
_WIRE = {"f2": "<f2", "f4": "<f4", "f8": "<f8", "i8": "<i8", "b1": "|b1"}
_AS_THEY_ARE = frozenset(("<f2", "<f4", "<f8", "<i8", "|b1"))
_KNOWN = {dtype(wire): (dtype(wire).name, wire, dtype(wire).kind == "f") for wire in sorted(_AS_THEY_ARE)}
"""dtypes that travel as they are: NumPy makes up their names anew each time they are asked for."""
COPIED = 1 << 20
"""Bytes that are copied to be compared: faster than to compare element by element."""
_BYTES = {"<f2": 2, "<f4": 4, "<f8": 8, "<i8": 8, "|b1": 1}


class Seen(NamedTuple):
    """A usable tensor: dtype as the submission has it, dtype it would travel in, shape, values.

    `data` is None when it has more bytes than `limit`: then only its shape is told.
    """

    declared: str
    wire: str
    shape: tuple[int, ...]
    data: Array | None


class NotATensor(Exception):
    """The value cannot be used; its text says what came, e.g. 'a list'."""


class Impossible(Exception):
    """This interpreter cannot make arrays of the dtype; the text says why."""


class NoDevice(Exception):
    """The machine does not have the device; the text says what PyTorch sees."""


def name_of(value: Any) -> str:
    """Name of the type of `value`; a metaclass is not asked."""
    return str(type.__getattribute__(type(value), "__name__"))[:100]


def module_of(value: Any) -> str:
    """Name of the module that the type of `value` says it is from, '' when it says nonsense."""
    module = type.__getattribute__(type(value), "__module__")
    return module[:100] if type(module) is str else ""


def describe(value: Any) -> str:
    """What `value` is, for a message: 'None', 'a list', 'an int', 'an object of class X'."""
    if value is None:
        return "None"
    name = name_of(value)
    if type(value) in (list, tuple, dict, set, str, bytes, bool, int, float, complex):
        return "{} {}".format("an" if name == "int" else "a", name)
    return f"an object of class {name}"


class NumPy:
    """NumPy arrays in, NumPy arrays out."""

    name = "numpy"
    spaces: tuple[str, ...] = ()
    """Attributes of an object in which it keeps others of its attributes."""

    def float_type(self, name: str) -> Any:
        """The array type's own dtype object called `name`. Raises Impossible."""
        if name == "bfloat16":
            try:
                return importlib.import_module("ml_dtypes").bfloat16
            except ImportError:
                raise Impossible(
                    "NumPy has bfloat16 only with the package ml_dtypes, which this interpreter lacks"
                ) from None
        return _FLOATS[name]

    def make(self, raw: Array, name: str) -> Any:
        """A fresh, writable, contiguous array of the values `raw`, floats as dtype `name`."""
        return array(raw, dtype=self.float_type(name) if raw.dtype.kind == "f" else raw.dtype)

    def unchanged(self, given: Any, raw: Array, name: str) -> bool:
        """Whether `given`, made by `make(raw, name)`, still has its values (bit by bit)."""
        fresh = raw if raw.dtype == given.dtype else self.make(raw, name)
        if given.dtype != fresh.dtype or given.shape != fresh.shape:
            return False
        if fresh.nbytes <= COPIED:
            return bool(given.tobytes() == fresh.tobytes())
        # bytes, so that NaN equals NaN and −0 is not 0
        return bool(
            array_equal(asarray(given, order="C").reshape(-1).view(uint8), fresh.reshape(-1).view(uint8))
        )

    def inference(self) -> contextlib.AbstractContextManager[Any]:
        """The context in which the submission's code runs."""
        return contextlib.nullcontext()

    def differentiable(self) -> contextlib.AbstractContextManager[Autograd]:
        """The context in which gradients are recorded. Raises Impossible where there are none."""
        raise Impossible("NumPy has no autograd")

    def results(self, tracer: Tracer) -> contextlib.AbstractContextManager[Any]:
        """The context in which a trace sees each single result, where the framework can show it."""
        return contextlib.nullcontext()

    def look(self, value: Any, limit: int, floats_only: bool = True) -> Seen:
        """What `value` is as a tensor. Raises NotATensor; never runs code of the submission."""
        if issubclass(type(value), generic):
            value = asarray(value)
        if not issubclass(type(value), ndarray):
            raise NotATensor(describe(value) + self._hint(value))
        plain = ndarray.view(value, ndarray)  # a subclass may have redefined anything
        kind = plain.dtype
        known = _KNOWN.get(kind)
        if known is not None and (known[2] or not floats_only) and plain.nbytes <= limit:
            return Seen(known[0], known[1], plain.shape, plain)
        declared = kind.name
        floating = kind.kind == "f" or declared == "bfloat16"
        if floats_only and not floating:
            raise NotATensor(f"an array of dtype {declared}")
        if floating:
            wire = "<f8" if kind == dtype(longdouble) else _WIRE.get(kind.str[1:], "<f4")
        elif kind.kind in "iu":
            wire = "<i8"
        elif kind.kind == "b":
            wire = "|b1"
        else:
            raise NotATensor(f"an array of dtype {declared}")
        shape = tuple(int(length) for length in plain.shape)
        if plain.size * _BYTES[wire] > limit:
            return Seen(declared, wire, shape, None)
        return Seen(declared, wire, shape, plain.astype(wire, copy=False))

    def is_array(self, kind: type) -> bool:
        """Whether objects of this class are arrays; numbers are not."""
        return issubclass(kind, ndarray)

    def bytes_of(self, value: Any, least: int, most: int) -> tuple[str, tuple[int, ...], bytes | None] | None:
        """(dtype, shape, bytes in C order) of an array; None for fewer than `least` elements.

        The bytes are None when they are more than `most`. Raises NotATensor for arrays of anything
        but numbers.
        """
        if issubclass(type(value), ndarray):
            plain = ndarray.view(value, ndarray)
            if plain.size < least:
                return None
            wire = plain.dtype.str
            if wire in _AS_THEY_ARE:
                return wire, plain.shape, plain.tobytes() if plain.nbytes <= most else None
        seen = self.look(value, most, floats_only=False)
        if seen.data is None:
            return seen.wire, seen.shape, None
        return (seen.wire, seen.shape, seen.data.tobytes()) if seen.data.size >= least else None

    def memory(self, value: Any) -> Any:
        """What tells whether two arrays share memory: equal for views of the same array."""
        while issubclass(type(value), ndarray):
            base = ndarray.base.__get__(value)
            if base is None:
                break
            value = base
        return id(value)

    def _hint(self, value: Any) -> str:
        is_torch = module_of(value).partition(".")[0] == "torch"
        return ' (for PyTorch declare framework = "torch")' if is_torch else ""


class Autograd(NamedTuple):
    """PyTorch's gradients; what it needs was taken before a submission could replace it."""

    tensor: type
    grad: Any

    def leaf(self, value: Any) -> tuple[Any, Any]:
        """A tensor whose gradient can be asked for, and a copy, which unlike it may be changed in place."""
        return value.requires_grad_(), value.clone()

    def gradient(self, result: Any, leaf: Any, weights: Any) -> Any:
        """The gradient of Σ weights · result by `leaf`.

        Raises Impossible where none was recorded; what a submission's own backward raises is none either.
        """
        if not (issubclass(type(result), self.tensor) and result.requires_grad):
            raise Impossible("its result records no gradient")
        try:
            (found,) = self.grad((result * weights.to(result.dtype)).sum(), leaf)
        except RuntimeError as error:
            raise Impossible(f"autograd raised {error}"[:500]) from None
        return found


class Torch(NumPy):
    """PyTorch tensors on a device; results may be tensors of any device, or NumPy arrays."""

    name = "torch"
    spaces = ("_buffers", "_parameters")

    def __init__(self, device: str = "cpu") -> None:
        """Raises ImportError when the interpreter has no PyTorch, NoDevice when it sees no such device."""
        torch = importlib.import_module("torch")
        if device == "cuda" and not torch.cuda.is_available():
            raise NoDevice("this PyTorch sees no CUDA device")
        self._device = device
        torch.set_num_threads(1)  # two sessions side by side must not fight over the cores
        self._torch = torch
        self._tensor = torch.Tensor
        self._inference = torch.inference_mode
        self._enable_grad, self._grad = torch.enable_grad, torch.autograd.grad
        self._from_numpy = torch.from_numpy
        self._equal = torch.equal
        self._types = {name: getattr(torch, name) for name in DTYPES}

    def float_type(self, name: str) -> Any:
        """The torch.dtype called `name`."""
        return self._types[name]

    def make(self, raw: Array, name: str) -> Any:
        """A fresh, contiguous tensor of the values `raw`, floats as dtype `name`."""
        tensor = self._from_numpy(array(raw)).to(self._device)
        return tensor.to(self._types[name]) if raw.dtype.kind == "f" else tensor

    def unchanged(self, given: Any, raw: Array, name: str) -> bool:
        """Whether the tensor `given`, made by `make(raw, name)`, still has its values."""
        fresh = self.make(raw, name)
        if given.dtype != fresh.dtype or given.shape != fresh.shape:
            return False
        if self._equal(given, fresh):
            return True
        both_nan = given.isnan() & fresh.isnan()  # equal() holds that NaN differs from NaN
        return bool(((given == fresh) | both_nan).all())

    def inference(self) -> contextlib.AbstractContextManager[Any]:
        """torch.inference_mode(): no gradients are recorded."""
        return self._inference()  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def differentiable(self) -> Iterator[Autograd]:
        """Gradients are recorded, whatever context is around."""
        with self._inference(False), self._enable_grad():
            yield Autograd(self._tensor, self._grad)

    def results(self, tracer: Tracer) -> contextlib.AbstractContextManager[Any]:
        """Every result that is dispatched; see `dispatch.py`."""
        from .dispatch import results

        return results(tracer)

    def look(self, value: Any, limit: int, floats_only: bool = True) -> Seen:
        """As NumPy.look, for tensors too."""
        if not issubclass(type(value), self._tensor):
            return super().look(value, limit, floats_only)
        declared = str(value.dtype).partition(".")[2]
        shape = tuple(int(length) for length in value.shape)
        floating = declared in DTYPES
        if not floating and (floats_only or value.is_complex() or value.is_floating_point()):
            raise NotATensor(f"a tensor of dtype {declared}")
        wire = {"float16": "<f2", "float64": "<f8", "bool": "|b1"}.get(declared, "<f4" if floating else "<i8")
        if value.numel() * _BYTES[wire] > limit:
            return Seen(declared, wire, shape, None)
        dense = value.detach().cpu()
        if declared == "bfloat16":
            dense = dense.float()
        return Seen(declared, wire, shape, dense.numpy().astype(wire, copy=False))

    def is_array(self, kind: type) -> bool:
        """As NumPy.is_array, for tensors too."""
        return issubclass(kind, (self._tensor, ndarray))

    def memory(self, value: Any) -> Any:
        """As NumPy.memory, for tensors too."""
        if issubclass(type(value), self._tensor):
            return value.untyped_storage().data_ptr()
        return super().memory(value)


def framework(name: str, device: str = "cpu") -> NumPy:
    """The framework called `name` ('numpy' or 'torch'), with arrays on `device`.

    Raises ImportError when it is missing, NoDevice when it sees no such device.
    """
    return Torch(device) if name == "torch" else NumPy()
