"""The functions that the language itself has: what each is called with, and what it does.

Axes are looked up before tensors, so that a check finds a wrong axis also where a tensor is unknown.

Their forms, as `BUILT_IN` lists them, are what messages and documentation show.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from conformance.language.errors import Location, PackError
from conformance.language.pieces import Arguments, BuiltIn
from conformance.language.sizes import Dimension, Size
from conformance.language.tensors import AxisError, Named

if TYPE_CHECKING:
    from conformance.language.evaluate import Scope
    from conformance.language.names import Value
    from conformance.language.pieces import Do, Piece


BUILT_IN: dict[str, BuiltIn] = {}
"""Every function of the language by name, except `repeat`, which calls the program's own."""
MISTAKES_ONLY = frozenset({"reinterpret"})
"""Functions of the language that the true program may not call."""


def _form(form: str) -> Callable[[Do], Do]:
    call = ast.parse(form, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    count = None if any(isinstance(a, ast.Starred) for a in call.args) else len(call.args)
    name, keywords = call.func.id, tuple(str(k.arg) for k in call.keywords)

    def register(do: Do) -> Do:
        BUILT_IN[name] = BuiltIn(form.replace("*x", "x, …"), do, count, keywords)
        return do

    return register


def _tensors(scope: Scope[Any], given: Arguments) -> list[Named[Any]]:
    return [scope.tensor(value(scope)) for value in given.values]


def _one(scope: Scope[Any], node: ast.expr, at: Location) -> str:
    axes = scope.axes_of(node, at)
    if len(axes) != 1:
        raise PackError(f"one axis is needed, not {len(axes)}: '{ast.unparse(node)}'", at)
    return axes[0]


def _axes(scope: Scope[Any], given: Arguments, keyword: str) -> tuple[str, ...]:
    return scope.axes_of(given.by_name[keyword], given.at)


def _over(scope: Scope[Any], given: Arguments) -> tuple[Named[Any], tuple[str, ...]]:
    """A tensor and the axes to reduce it over; `over=everything` means all that it has."""
    match given.by_name["over"]:
        case ast.Name(id="everything"):
            (x,) = _tensors(scope, given)
            return x, x.axes
    over = _axes(scope, given, "over")
    (x,) = _tensors(scope, given)
    return x, over


def _axis(scope: Scope[Any], given: Arguments, keyword: str) -> str:
    return _one(scope, given.by_name[keyword], given.at)


def _named_axis(scope: Scope[Any], given: Arguments) -> str:
    """The axis of the one `axis=value` of a form that has it."""
    if len(given.keyed) != 1:
        raise PackError(f"one axis is needed, not {', '.join(given.keyed)}", given.at)
    (name,) = given.keyed
    return scope.axis(name, given.at)


def _count(scope: Scope[Any], node: ast.expr, written: Piece, at: Location) -> Dimension:
    """An exact whole number, known without looking at any data."""
    value = written(scope)
    if isinstance(value, bool) or not isinstance(value, int | Size):
        raise PackError(f"'{ast.unparse(node)}' must be a whole number made of sizes", at)
    return value


@_form("dot(x, y, over=axes)")
def _dot(scope: Scope[Any], given: Arguments) -> Value:
    over = _axes(scope, given, "over")
    x, y = _tensors(scope, given)
    return scope.operations.dot(x, y, over)


def _reduction(name: str) -> Do:
    def do(scope: Scope[Any], given: Arguments) -> Value:
        return scope.operations.reduce(name, *_over(scope, given))

    return do


for _name in ("sum", "max", "any", "all"):
    _form(f"{_name}(x, over=axes)")(_reduction(_name))


@_form("mean(x, over=axes)")
def _mean(scope: Scope[Any], given: Arguments) -> Value:
    x, axes = _over(scope, given)
    total = scope.operations.reduce("sum", x, axes)
    count = scope.operations.constant(scope.operations.count(x, axes))
    return scope.operations.elementwise("divide", total, count)


@_form("cumsum(x, over=axis)")
def _cumsum(scope: Scope[Any], given: Arguments) -> Value:
    over = _axis(scope, given, "over")
    (x,) = _tensors(scope, given)
    return scope.operations.cumulative_sum(x, over)


def _elementwise(name: str) -> Do:
    def do(scope: Scope[Any], given: Arguments) -> Value:
        return scope.operations.elementwise(name, *_tensors(scope, given))

    return do


for _name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "erf", "abs", "finite"):
    _form(f"{_name}(x)")(_elementwise(_name))
for _name in ("maximum", "minimum"):
    _form(f"{_name}(x, y)")(_elementwise(_name))
_form("where(condition, x, y)")(_elementwise("where"))


@_form("index(axis)")
def _index(scope: Scope[Any], given: Arguments) -> Value:
    axis = _one(scope, given.positional[0], given.at)
    return scope.operations.index(axis, scope.size(axis, given.at))


@_form("size(axis)")
def _size(scope: Scope[Any], given: Arguments) -> Value:
    return scope.size(_one(scope, given.positional[0], given.at), given.at)


@_form("range(count, over=axis)")
def _range(scope: Scope[Any], given: Arguments) -> Value:
    over = _axis(scope, given, "over")
    return scope.operations.index(over, _count(scope, given.positional[0], given.values[0], given.at))


@_form("take(x, axis=indices)")
def _take(scope: Scope[Any], given: Arguments) -> Value:
    axis = _named_axis(scope, given)
    (x,) = _tensors(scope, given)
    return scope.operations.take(x, axis, scope.tensor(given.keyed[axis](scope)))


@_form("last(x, count=number, over=axis)")
def _last(scope: Scope[Any], given: Arguments) -> Value:
    over = _axis(scope, given, "over")
    (x,) = _tensors(scope, given)
    return scope.operations.last(
        x, _count(scope, given.by_name["count"], given.keyed["count"], given.at), over
    )


@_form("split(x, axis=axes)")
def _split(scope: Scope[Any], given: Arguments) -> Value:
    axis = _named_axis(scope, given)
    into = _axes(scope, given, axis)
    (x,) = _tensors(scope, given)
    return scope.operations.split(x, axis, into, scope.known_size)


@_form("merge(x, axes, into=axis)")
def _merge(scope: Scope[Any], given: Arguments) -> Value:
    axes, into = scope.axes_of(given.positional[1], given.at), _axis(scope, given, "into")
    return scope.operations.merge(scope.tensor(given.values[0](scope)), axes, into)


@_form("stack(*x, over=axis)")
def _stack(scope: Scope[Any], given: Arguments) -> Value:
    over = _axis(scope, given, "over")
    return scope.operations.stack(_tensors(scope, given), over)


@_form("join(past, x, into=axis)")
def _join(scope: Scope[Any], given: Arguments) -> Value:
    """`x` grows along the axis that the past does not have; the past may not exist yet."""
    before = given.positional[0]
    into = _axis(scope, given, "into")
    past, new = (value(scope) for value in given.values)
    x = scope.tensor(new)
    if isinstance(before, ast.Name) and before.id in scope.function.remember:
        axes = scope.function.remember[before.id].axes
    elif isinstance(past, Named):
        axes = past.axes
    else:
        raise PackError(f"'{ast.unparse(before)}' is not remembered: join needs what was before", given.at)
    extra = [axis for axis in x.axes if axis not in axes]
    if into in x.axes:
        extra = [into, *extra]
    if len(extra) != 1:
        raise AxisError(f"[{' '.join(x.axes)}] does not continue [{' '.join(axes)}] along '{into}'")
    return scope.operations.join(past, x, extra[0], into)


@_form("relabel(x, axis=axis)")
def _relabel(scope: Scope[Any], given: Arguments) -> Value:
    names = {old: _one(scope, new, given.at) for old, new in given.by_name.items()}
    (x,) = _tensors(scope, given)
    return scope.operations.relabel(x, names)


@_form("reinterpret(x, order=axes, into=axes)")
def _reinterpret(scope: Scope[Any], given: Arguments) -> Value:
    order, into = _axes(scope, given, "order"), _axes(scope, given, "into")
    (x,) = _tensors(scope, given)
    # Where a tensor's own axis reappears its size is the tensor's; of the others one may be unknown.
    own = scope.operations.sizes(x)
    known = [own[axis] if axis in own else scope.known_size(axis) for axis in into]
    sizes = scope.operations.filled(scope.operations.count(x, order), known, into)
    return scope.operations.reinterpret(x, order, into, sizes)


FUNCTIONS = frozenset({*BUILT_IN, "repeat"})
"""Names of the functions that the language itself has."""
