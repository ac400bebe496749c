"""Expressions as functions of a scope: a syntax tree is looked at once, and evaluated many times.

The program is read thousands of times with different inputs. What depends on its text alone (which operation a piece
is, what it is called with) is worked out here, once for each expression; what depends on the reading (what a name
means, which axes there are, which functions the program has) is asked of the scope, each time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from conformance.language.errors import Location, PackError, suggestion
from conformance.language.expression import BINARY, COMPARE, UNARY
from conformance.language.sizes import Size
from conformance.language.tensors import Named

if TYPE_CHECKING:
    from conformance.language.evaluate import Scope
    from conformance.language.names import Value
    from conformance.language.program import Function

    Piece = Callable[[Scope[Any]], Value]
    """The value of a piece of an expression in a scope."""
    Do = Callable[[Scope[Any], "Arguments"], Value]

OF_CALLS = frozenset({"params", "at", "state"})
"""Keywords of a call of the program that are no inputs."""
OF_REPEAT = frozenset({"times", "same"})
"""Those that `repeat` has for itself."""
AXIS = "axis"
"""In a form of a function of the language, the keyword that stands for the name of any axis."""


@dataclass(frozen=True, eq=False)
class Arguments:
    """The arguments of one call, not yet evaluated: as they are written, and as functions of a scope."""

    node: ast.Call
    at: Location
    positional: list[ast.expr]
    values: tuple[Piece, ...]
    keywords: tuple[ast.keyword, ...]
    by_name: dict[str, ast.expr]
    keyed: dict[str, Piece]

    @staticmethod
    def of(node: ast.Call, at: Location, noted: bool, own: Collection[str] = (), first: int = 0) -> Arguments:
        """The arguments of a call from the position `first` on, without the keywords `own`."""
        keywords = tuple(keyword for keyword in node.keywords if keyword.arg not in own)
        by_name = {str(keyword.arg): keyword.value for keyword in keywords}
        return Arguments(
            node,
            at,
            node.args[first:],
            tuple(piece(argument, at, noted) for argument in node.args[first:]),
            keywords,
            by_name,
            {name: piece(value, at, noted) for name, value in by_name.items()},
        )


@dataclass(frozen=True, eq=False)
class BuiltIn:
    """A function of the language. `count` is None where it takes any number of tensors."""

    form: str
    do: Do
    count: int | None
    keywords: tuple[str, ...]

    def call(self, scope: Scope[Any], given: Arguments) -> Value:
        """Evaluate a call in `scope`. Raises `PackError` where it is not of this form."""
        node, names, at = given.node, given.by_name, given.at
        if len(node.args) != self.count and (self.count is not None or not node.args):
            raise PackError(f"'{ast.unparse(node)}' is not of the form {self.form}", at)
        if self.keywords == (AXIS,):
            for name in names:
                scope.axis(name, at)
            fits = bool(names)
        else:
            for name in names:
                if name not in self.keywords:
                    hint = suggestion(name, self.keywords) or f"its form is {self.form}"
                    raise PackError(f"'{ast.unparse(node)}' has an unknown argument '{name}'", at, hint)
            fits = len(names) == len(self.keywords)
        if not fits or len(names) != len(node.keywords):
            raise PackError(f"'{ast.unparse(node)}' is not of the form {self.form}", at)
        return self.do(scope, given)


@dataclass
class Invocation:
    """One call of a function of the program, its arguments evaluated."""

    function: Function
    inputs: dict[str, Value]
    bound: dict[str, str] = field(default_factory=dict)
    params: str = ""
    at: str = ""
    stateless: bool = False


@lru_cache(maxsize=1 << 15)
def piece(node: ast.expr, at: Location, noted: bool) -> Piece:
    """A syntax tree as a function of a scope; with `noted`, one that tells the reading what each piece comes to."""
    made = _piece(node, at, noted)
    if not noted or isinstance(node, ast.Name | ast.Constant):
        return made
    text = ast.unparse(node)

    def told(scope: Scope[Any]) -> Value:
        value = made(scope)
        if scope.about and node is not scope.whole:
            scope.reading.noted(f"{scope.about}:{text}", value)
        return value

    return told


def _piece(node: ast.expr, at: Location, noted: bool) -> Piece:
    match node:
        case ast.Name(id=name):
            return lambda scope: scope.name(name, at)
        case ast.Constant(value=constant):
            return _constant(constant)
        case ast.Call(func=ast.Name(id=name)):
            return _call(name, node, at, noted)
        case ast.BinOp(left=left, op=operator, right=right):
            return _binary(BINARY[type(operator)], piece(left, at, noted), piece(right, at, noted))
        case ast.UnaryOp(op=sign, operand=operand):
            return _unary(UNARY[type(sign)], piece(operand, at, noted))
        case ast.Compare(left=left, ops=[comparison], comparators=[right]):
            return _compared(COMPARE[type(comparison)], piece(left, at, noted), piece(right, at, noted))

    def none(_: Scope[Any]) -> Value:
        raise PackError(f"'{ast.unparse(node)}' stands where a tensor is needed", at)

    return none


def _constant(value: object) -> Piece:
    """A whole number is exact, a name in quotes a choice; any other number is a tensor without axes."""
    if isinstance(value, bool | float):
        return lambda scope: scope.operations.constant(value)
    return lambda scope: value


def _binary(name: str, left: Piece, right: Piece) -> Piece:
    return lambda scope: scope.binary(name, left(scope), right(scope))


def _unary(name: str, operand: Piece) -> Piece:
    def do(scope: Scope[Any]) -> Value:
        value = operand(scope)
        if name == "negative" and isinstance(value, int | Size):
            return -value
        return scope.operations.elementwise(name, scope.tensor(value))

    return do


def _compared(name: str, left: Piece, right: Piece) -> Piece:
    def do(scope: Scope[Any]) -> Value:
        one = scope.tensor(left(scope))
        return scope.operations.elementwise(name, one, scope.tensor(right(scope)))

    return do


# -- calls --------------------------------------------------------------------------------------


def _call(name: str, node: ast.Call, at: Location, noted: bool) -> Piece:
    """A call of the program's function or of the language's, whichever the reading has."""
    given = Arguments.of(node, at, noted)
    repeating = Arguments.of(node, at, noted, OF_REPEAT, 1) if name == "repeat" else given

    def do(scope: Scope[Any]) -> Value:
        function = scope.reading.program.functions.get(name)
        if function is not None:
            return called(scope, function, given)
        if name in scope.built_in:
            return scope.built_in[name].call(scope, given)
        if name == "repeat":
            return repeated(scope, given, repeating)
        known = [*scope.reading.program.functions, *scope.built_in, "repeat"]
        raise PackError(f"unknown function '{name}'", at, suggestion(name, known))

    return do


def called(scope: Scope[Any], function: Function, given: Arguments) -> Named[Any]:
    """What a function of the program makes of its arguments."""
    call = invocation(scope, function, given)
    return scope.enter(
        call, call.params, call.at, scope.site_of(f"{function.name}.{call.params}{call.at}", call)
    )


def invocation(scope: Scope[Any], function: Function, given: Arguments) -> Invocation:
    """The arguments of a call: inputs, `params`, `at` and `state`, and inner axis = outer axis."""
    inputs, at = function.given, given.at
    if len(given.values) > len(inputs):
        raise PackError(f"{function.name} takes {len(inputs)} inputs, not {len(given.values)}", at)
    call = Invocation(
        function, {name: value(scope) for name, value in zip(inputs, given.values, strict=False)}
    )
    for keyword in given.keywords:
        key, node = str(keyword.arg), keyword.value
        if key in OF_CALLS:
            _place(call, key, node, at)
        elif key in inputs:
            if key in call.inputs:
                raise PackError(f"'{key}' is given twice to {function.name}", at)
            call.inputs[key] = given.keyed[key](scope)
        elif isinstance(node, ast.Name) and key in scope.reading.program.axes.by_name:
            call.bound[key] = scope.axis(node.id, at)
        else:
            known = [*inputs, *OF_CALLS, *scope.reading.program.axes.by_name]
            raise PackError(f"{function.name} has no input '{key}'", at, suggestion(key, known))
    for name, entry in inputs.items():
        if name not in call.inputs and entry.otherwise is None:
            raise PackError(f"'{name}' is not given to {function.name}", at)
    return call


def _place(call: Invocation, key: str, node: ast.expr, at: Location) -> None:
    """Where the parameters, tensors and state of a call live."""
    match key, node:
        case "params", ast.Constant(value=str() as text):
            call.params = f"{text}."
        case "at", ast.Constant(value=str() as text):
            call.at = f"{text}."
        case "state", ast.Constant(value="none"):
            call.stateless = True
        case _:
            wanted = "'none'" if key == "state" else "a quoted name"
            raise PackError(f"{key} must be {wanted}, not {ast.unparse(node)}", at)


REPEAT = "repeat(function, x, …, params='…', times=number)"


def repeated(scope: Scope[Any], given: Arguments, of_function: Arguments) -> Named[Any]:
    """`repeat(layer, x, …, params="layers", times=n_layers)`: the output is the next input."""
    node, at = given.node, given.at
    match node.args:
        case [ast.Name(id=name), _, *_] if "times" in given.keyed:
            function = scope.reading.program.function(name, at)
        case _:
            raise PackError(f"'{ast.unparse(node)}' is not of the form {REPEAT}", at)
    times = given.keyed["times"](scope)
    if not isinstance(times, int):
        raise PackError(f"times must be a whole number, in '{ast.unparse(node)}'", at)
    call = invocation(scope, function, of_function)
    head = next(iter(function.given))
    for i in range(times):
        weights = given.keyed["same"](scope) if "same" in given.keyed else i
        site = scope.site_of(f"{name}.{call.params}{i}", call)
        call.inputs[head] = scope.enter(
            call, f"{call.params}{weights}.", f"{call.at or call.params}{i}.", site
        )
    return scope.tensor(call.inputs[head])
