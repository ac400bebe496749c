"""Which parameters a function has in a variant, itself and in everything that it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from conformance.language.errors import PackError
from conformance.language.expression import Expression
from conformance.language.program import Choices, Function, Parameter, Program, holds


def parameter_axes(program: Program, function: str, choices: Choices, layers: int = 1) -> dict[str, Parameter]:
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
    found: dict[str, Parameter] = {}
    _Walk(program, choices, {"n_layers": layers}, found).function(program.function(function), "", ())
    return found


class _Walk:
    def __init__(
        self, program: Program, choices: Choices, numbers: dict[str, int], found: dict[str, Parameter]
    ) -> None:
        self.program, self.choices, self.numbers, self.found = program, choices, numbers, found

    def function(self, function: Function, prefix: str, above: tuple[str, ...]) -> None:
        if function.name in above:
            raise PackError(f"{function.name} calls itself", function.at)
        for name, parameter in function.parameters.items():
            if holds(parameter.when, self.choices):
                self.found[prefix + name] = parameter
        for expression in expressions_in_force(function, self.choices):
            for call in calls_in(expression):
                self.call(call, expression, prefix, (*above, function.name))

    def call(self, call: ast.Call, expression: Expression, prefix: str, above: tuple[str, ...]) -> None:
        called, repeated = callee(call)
        if called not in self.program.functions:
            return
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        match keywords.get("params"):
            case ast.Constant(value=str() as text):
                prefix += f"{text}."
        if not repeated:
            self.function(self.program.functions[called], prefix, above)
            return
        for i in range(self.number(keywords.get("times"), expression)):
            which = self.number(keywords["same"], expression) if "same" in keywords else i
            self.function(self.program.functions[called], f"{prefix}{which}.", above)

    def number(self, node: ast.expr | None, expression: Expression) -> int:
        match node:
            case ast.Constant(value=int() as number):
                return number
            case ast.Name(id=name) if name in self.numbers:
                return self.numbers[name]
        known = ", ".join(self.numbers)
        raise PackError(f"times and same must be a number or one of {known}, in '{expression}'", expression.at)


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
