"""Which parameters a function has in a variant, itself and in everything that it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache

from conformance.language.errors import PackError
from conformance.language.expression import BINARY, Expression
from conformance.language.program import Choices, Function, Parameter, Program, holds
from conformance.language.sizes import EXACT, number


def parameter_axes(
    program: Program, function: str, choices: Choices, layers: int = 1
) -> dict[str, Parameter]:
    """The parameters of `function` in a variant, by full name (`layers.0.norm1.weight`).

    Nothing is evaluated: a variant's equations are read for the calls that they make, in the order
    in which an evaluation would come to them. What a reading declares is the same.

    Args:
        program: The program, in which `function` stands.
        function: A function that is called from outside.
        choices: All fields of the variant.
        layers: How often what is repeated stands there; `n_layers` of the program.

    Returns:
        Name and declaration (axes, what random values look like) of each.

    Raises:
        PackError: There is no such function, or a function calls itself.
    """
    return dict(VariantParameters(program, choices, {"n_layers": layers}).of(program.function(function)))


class VariantParameters:
    """The parameters of every function in one variant, each worked out once."""

    def __init__(self, program: Program, choices: Choices, numbers: Mapping[str, int]) -> None:
        """`numbers` are those that `times` may name."""
        self.program, self.choices, self.numbers = program, choices, numbers
        self.known: dict[str, dict[str, Parameter]] = {}
        self.above: list[str] = []

    def of(self, function: Function) -> Mapping[str, Parameter]:
        """All parameters of a function and of what it calls, by names that begin at the function."""
        if function.name in self.above:
            raise PackError(f"{function.name} calls itself", function.at)
        if function.name not in self.known:
            self.above.append(function.name)
            found = {n: p for n, p in function.parameters.items() if holds(p.when, self.choices)}
            for expression in expressions_in_force(function, self.choices):
                for call in calls_in(expression):
                    found.update(self.of_call(call, expression))
            self.above.pop()
            self.known[function.name] = found
        return self.known[function.name]

    def of_call(self, call: ast.Call, expression: Expression) -> dict[str, Parameter]:
        """The parameters that one call needs, by names that begin where it stands."""
        called, repeated = callee(call)
        if called not in self.program.functions:
            return {}
        inner = self.of(self.program.functions[called])
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        prefix = ""
        match keywords.get("params"):
            case ast.Constant(value=str() as text):
                prefix = f"{text}."
        prefixes = [prefix]
        if repeated:
            times = range(self.number(keywords.get("times"), expression))
            which = [self.number(keywords["same"], expression) if "same" in keywords else i for i in times]
            prefixes = [f"{prefix}{i}." for i in which]
        return {start + name: parameter for start in prefixes for name, parameter in inner.items()}

    def number(self, node: ast.expr | None, expression: Expression) -> int:
        """What `times` or `same` says: whole numbers, those with a name, and what they make together."""
        match node:
            case ast.Constant(value=int() as value):
                return value
            case ast.Name(id=name) if name in self.numbers:
                return self.numbers[name]
            case ast.BinOp(left=left, op=op, right=right) if BINARY[type(op)] in EXACT:
                sides = self.number(left, expression), self.number(right, expression)
                return number(EXACT[BINARY[type(op)]](*sides))
        known = ", ".join(self.numbers)
        raise PackError(
            f"times and same must be numbers, or made of {known}, in '{expression}'", expression.at
        )


def expressions_in_force(function: Function, choices: Choices) -> Iterator[Expression]:
    """Every expression that a variant evaluates in a function, in order, defaults of inputs included."""
    for given in function.given.values():
        if given.otherwise is not None:
            yield given.otherwise
    for remembered in function.remember.values():
        if remembered.first is not None:
            yield remembered.first
    for equation in (*function.let, function.result):
        expression = equation.pick(choices)
        if expression is not None:
            yield expression
    for remembered in function.remember.values():
        yield remembered.value


def calls_in(expression: Expression) -> tuple[ast.Call, ...]:
    """Every call in an expression, arguments before what they are given to."""
    return _calls(expression.tree)


@lru_cache(maxsize=4096)
def _calls(tree: ast.expr) -> tuple[ast.Call, ...]:
    return tuple(_post_order(tree))


def _post_order(node: ast.AST) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(node):
        yield from _post_order(child)
    if isinstance(node, ast.Call):
        yield node


def callee(call: ast.Call) -> tuple[str, bool]:
    """The name of the function that is called, and whether `repeat` calls it."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name == "repeat" and call.args and isinstance(call.args[0], ast.Name):
        return call.args[0].id, True
    return name, False
