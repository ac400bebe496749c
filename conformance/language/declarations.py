"""What a call makes, held against what is declared of it; and how to go on after an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.language.axes import ELLIPSIS, fits
from conformance.language.errors import Location, PackError
from conformance.language.evaluate import Reading, Scope
from conformance.language.names import Value
from conformance.language.program import Function, Given
from conformance.language.sizes import Dimension
from conformance.language.symbolic import KINDS, Shape
from conformance.language.tensors import AxisError, Named, SizeError

UNKNOWN = object()
"""The value of what could not be evaluated."""


class UnknownError(PackError):
    """Something depends on what could not be evaluated; that has been reported already."""


class DeclaredScope(Scope[Shape]):
    """A call over symbolic sizes. `errors` are those of its own equations, `here` is the last place read.

    `open` are the axes that `...` stands for, `taps` all that becomes visible and where, `visible` what
    of it are tensors of this call's own, and `own` the size of each axis with the tensor that has shown it.
    """

    lenient = False
    """Whether an axis may have two sizes in a call, where no operation brings them together."""

    def __init__(
        self, reading: Reading[Shape], function: Function, site: str, sizes: dict[str, Dimension]
    ) -> None:
        super().__init__(reading, function, "", "", site, sizes)
        self.errors: list[PackError] = []
        self.here = function.at
        self.open: set[str] = set()
        self.taps: dict[str, Location] = {}
        self.visible: list[str] = []
        self.own: dict[str, tuple[Any, str]] = {}

    def attempt(self, work: Callable[[], Value], at: Location) -> Value:
        """What `work` returns, or UNKNOWN after an error, which is kept."""
        try:
            return work()
        except UnknownError:
            return UNKNOWN
        except AxisError as error:
            self.fault(PackError(str(error), at), error)
        except PackError as error:
            self.fault(error, error.__context__)
        return UNKNOWN

    def fault(self, error: PackError, cause: BaseException | None) -> None:
        """Keep an error, unless it is one of sizes that may pass."""
        if not (isinstance(cause, SizeError) and self.may_pass(cause)):
            self.errors.append(error)

    def may_pass(self, error: SizeError) -> bool:
        """Whether to let sizes pass that do not agree."""
        del error
        return False

    def likely(self, axes: tuple[str, ...]) -> Value:
        """A tensor of declared axes in place of one with an error, where its sizes are known."""
        names = [a for axis in axes for a in (sorted(self.open) if axis == ELLIPSIS else [axis])]
        sizes = [self.known_size(axis) for axis in names]
        if None in sizes or (ELLIPSIS in axes and not self.open):
            return UNKNOWN
        return Named(tuple(names), Shape("any", tuple(size for size in sizes if size is not None)))

    def declared(self, what: str, value: Value, axes: tuple[str, ...]) -> Value:
        """`value`, which must have the declared axes."""
        if value is UNKNOWN:
            return value
        have = value.axes if isinstance(value, Named) else ()
        if not fits(have, axes):
            raise PackError(f"{what} has axes [{' '.join(have)}], declared are [{' '.join(axes)}]", self.here)
        return value

    def fitting(self, what: str, value: Value, given: Given) -> Value:
        """`value`, which must be as the input is declared."""
        self.declared(what, value, given.axes)
        if isinstance(value, Named) and given.kind and value.array.kind not in (given.kind, "any"):
            raise PackError(
                f"{what} holds {KINDS[value.array.kind]}, declared are {KINDS[given.kind]}", self.here
            )
        return value

    def seen(self, name: str, value: Value) -> Value:
        """A tensor that is known outside has its declared axes, and one place in a call."""
        program = self.reading.program
        if not program.tap(self.function.name, name) or value is None:
            return value
        tensor = self.declared(f"'{name}'", self.tensor(value), program.tensors[name].axes)
        self.tap(name)
        self.visible.append(name)
        return tensor

    def tap(self, path: str) -> None:
        """Note that the tensor `path` is made visible here, which only one place of a call may do."""
        if path in self.taps:
            raise PackError(
                f"the tensor '{path}' is made here and at {self.taps[path]}",
                self.here,
                "give one of the calls at='…'",
            )
        self.taps[path] = self.here

    def bind(self, name: str, value: Value) -> None:
        """As in every reading, and an axis has one size in a call."""
        if isinstance(value, Named):
            for axis, size in self.operations.sizes(value).items():
                before, first = self.own.setdefault(axis, (size, name))
                if before != size and not self.lenient:
                    raise AxisError(
                        f"axis '{axis}' has size {size} in '{name}' and {before} in '{first}': "
                        "two lengths need two axes"
                    )
        super().bind(name, value)
