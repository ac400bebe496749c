"""The functions that the language itself has: what each is called with, and what it does.

Axes are looked up before tensors, so that a check finds a wrong axis also where a tensor is unknown.

Their forms, as `BUILT_IN` lists them, are what messages and documentation show.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.language.errors import Location, PackError, suggestion
from conformance.language.sizes import Dimension, Size
from conformance.language.tensors import AxisError, Named

if TYPE_CHECKING:
    from conformance.language.evaluate import Scope
    from conformance.language.names import Value

    Do = Callable[[Scope[Any], "Arguments"], Value]

AXIS = "axis"
"""In a form, the keyword that stands for the name of any axis."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, not yet evaluated."""

    positional: list[ast.expr]
    keywords: dict[str, ast.expr]
    at: Location


@dataclass(frozen=True)
class BuiltIn:
    """A function of the language. `count` is None where it takes any number of tensors."""

    form: str
    do: Do
    count: int | None
    keywords: tuple[str, ...]

    def call(self, scope: Scope[Any], node: ast.Call, at: Location) -> Value:
        """Evaluate a call in `scope`. Raises `PackError` where it is not of this form."""
        given = {str(keyword.arg): keyword.value for keyword in node.keywords}
        if len(node.args) != self.count and (self.count is not None or not node.args):
            raise PackError(f"'{ast.unparse(node)}' is not of the form {self.form}", at)
        if self.keywords == (AXIS,):
            for name in given:
                scope.axis(name, at)
            fits = bool(given)
        else:
            for name in given:
                if name not in self.keywords:
                    hint = suggestion(name, self.keywords) or f"its form is {self.form}"
                    raise PackError(f"'{ast.unparse(node)}' has an unknown argument '{name}'", at, hint)
            fits = len(given) == len(self.keywords)
        if not fits or len(given) != len(node.keywords):
            raise PackError(f"'{ast.unparse(node)}' is not of the form {self.form}", at)
        return self.do(scope, Arguments(node.args, given, at))


BUILT_IN: dict[str, BuiltIn] = {}
"""Every function of the language by name, except `repeat`, which calls the program's own."""


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
    return [scope.tensor(scope.value(node, given.at)) for node in given.positional]


def _one(scope: Scope[Any], node: ast.expr, at: Location) -> str:
    axes = scope.axes_of(node, at)
    if len(axes) != 1:
        raise PackError(f"one axis is needed, not {len(axes)}: '{ast.unparse(node)}'", at)
    return axes[0]


def _axes(scope: Scope[Any], given: Arguments, keyword: str) -> tuple[str, ...]:
    return scope.axes_of(given.keywords[keyword], given.at)


def _over(scope: Scope[Any], given: Arguments) -> tuple[Named[Any], tuple[str, ...]]:
    """A tensor and the axes to reduce it over; `over=everything` means all that it has."""
    match given.keywords["over"]:
        case ast.Name(id="everything"):
            (x,) = _tensors(scope, given)
            return x, x.axes
    over = _axes(scope, given, "over")
    (x,) = _tensors(scope, given)
    return x, over


def _axis(scope: Scope[Any], given: Arguments, keyword: str) -> str:
    return _one(scope, given.keywords[keyword], given.at)


def _named_axis(scope: Scope[Any], given: Arguments) -> tuple[str, ast.expr]:
    """The one `axis=value` of a form that has it."""
    if len(given.keywords) != 1:
        raise PackError(f"one axis is needed, not {', '.join(given.keywords)}", given.at)
    ((name, node),) = given.keywords.items()
    return scope.axis(name, given.at), node


def _count(scope: Scope[Any], node: ast.expr, at: Location) -> Dimension:
    """An exact whole number, known without looking at any data."""
    value = scope.value(node, at)
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
    return scope.operations.index(over, _count(scope, given.positional[0], given.at))


@_form("take(x, axis=indices)")
def _take(scope: Scope[Any], given: Arguments) -> Value:
    axis, indices = _named_axis(scope, given)
    (x,) = _tensors(scope, given)
    return scope.operations.take(x, axis, scope.tensor(scope.value(indices, given.at)))


@_form("last(x, count=number, over=axis)")
def _last(scope: Scope[Any], given: Arguments) -> Value:
    over = _axis(scope, given, "over")
    (x,) = _tensors(scope, given)
    return scope.operations.last(x, _count(scope, given.keywords["count"], given.at), over)


@_form("split(x, axis=axes)")
def _split(scope: Scope[Any], given: Arguments) -> Value:
    axis, node = _named_axis(scope, given)
    into = scope.axes_of(node, given.at)
    (x,) = _tensors(scope, given)
    return scope.operations.split(x, axis, into, scope.known_size)


@_form("merge(x, axes, into=axis)")
def _merge(scope: Scope[Any], given: Arguments) -> Value:
    axes, into = scope.axes_of(given.positional[1], given.at), _axis(scope, given, "into")
    return scope.operations.merge(scope.tensor(scope.value(given.positional[0], given.at)), axes, into)


@_form("stack(*x, over=axis)")
def _stack(scope: Scope[Any], given: Arguments) -> Value:
    over = _axis(scope, given, "over")
    return scope.operations.stack(_tensors(scope, given), over)


@_form("join(past, x, into=axis)")
def _join(scope: Scope[Any], given: Arguments) -> Value:
    """`x` grows along the axis that the past does not have; the past may not exist yet."""
    before, new = given.positional
    into = _axis(scope, given, "into")
    past = scope.value(before, given.at)
    x = scope.tensor(scope.value(new, given.at))
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
    names = {old: _one(scope, new, given.at) for old, new in given.keywords.items()}
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
