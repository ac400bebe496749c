"""The arithmetic of kinds and sizes says yes and no where arrays of numbers would."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from conformance.language.arithmetic import ELEMENTWISE, Float64
from conformance.language.sizes import Size
from conformance.language.symbolic import Shape, Symbolic
from conformance.language.tensors import AxisError, SizeError
from language.small import arity

T, K, D = map(Size.symbol, ("Tq", "Tk", "D"))
S = Symbolic()
BOOL, INT, REAL = Shape("bool", (T,)), Shape("int", (T,)), Shape("real", (T,))


@pytest.mark.parametrize(("value", "kind"), [(True, "bool"), (2, "int"), (2.0, "real"), (T, "int")])
def test_constants(value: object, kind: str) -> None:
    assert S.constant(value) == Shape(kind)


def test_sizes_broadcast_from_one_and_from_nothing() -> None:
    one = Shape("real", (1, D))
    assert S.elementwise("add", Shape("real", (T, 1)), one) == Shape("real", (T, D))
    assert S.elementwise("add", REAL, Shape("int")) == REAL


def test_sizes_that_differ_do_not() -> None:
    with pytest.raises(SizeError, match=r"\[Tq\] and \[Tk\] do not go together"):
        S.elementwise("add", REAL, Shape("real", (K,)))


def test_a_contraction_drops_letters_and_needs_equal_sizes() -> None:
    assert S.contract("ab,cb->ac", Shape("real", (T, D)), Shape("int", (K, D))) == Shape("real", (T, K))
    with pytest.raises(SizeError, match="sizes D and Tk meet in one axis"):
        S.contract("ab,cb->ac", Shape("real", (T, D)), Shape("real", (T, K)))


def test_reshape_keeps_the_number_of_elements() -> None:
    assert S.reshape(Shape("int", (T, D)), (1, D, T)).sizes == (1, D, T)
    assert S.reshape(Shape("int", (D,)), (2, D // 2)).sizes == (2, D // 2)
    with pytest.raises(SizeError, match=r"\[Tq, D\] does not have as many elements as \[Tk, D\]"):
        S.reshape(Shape("int", (T, D)), (K, D))


def test_take_needs_whole_numbers() -> None:
    assert S.take(Shape("real", (K, D)), INT, 0) == Shape("real", (T, D))
    with pytest.raises(AxisError, match="the indices of take must be whole numbers, not real numbers"):
        S.take(Shape("real", (K, D)), REAL, 0)


def test_concatenation_adds_sizes_of_one_axis() -> None:
    assert S.concatenate([Shape("real", (T, D)), Shape("real", (K, D))], 0).sizes == (T + K, D)
    with pytest.raises(SizeError, match=r"\[Tq, D\] and \[Tq, Tk\] cannot stand one after the other"):
        S.concatenate([Shape("real", (T, D)), Shape("real", (T, K))], 0)
    with pytest.raises(AxisError, match="must be of one kind"):
        S.concatenate([BOOL, INT], 0)


def test_the_rest_of_the_structure() -> None:
    a = Shape("real", (T, K, D))
    assert S.transpose(a, (2, 0, 1)).sizes == (D, T, K)
    assert S.last(a, 3, 1).sizes == (T, 3, D)
    assert S.iota(T + 1) == Shape("int", (T + 1,))
    assert S.reduce("max", a, 1) == Shape("real", (T, D))
    assert S.cumulative_sum(BOOL, 0) == INT
    assert S.widened() is S


@pytest.mark.parametrize(
    ("name", "arrays", "kind"),
    [
        ("add", (INT, INT), "int"),
        ("add", (INT, REAL), "real"),
        ("divide", (INT, INT), "real"),
        ("power", (INT, INT), "real"),
        ("floor_divide", (INT, INT), "int"),
        ("exp", (INT,), "real"),
        ("less", (INT, REAL), "bool"),
        ("equal", (BOOL, BOOL), "bool"),
        ("and", (BOOL, BOOL), "bool"),
        ("not", (BOOL,), "bool"),
        ("where", (BOOL, REAL, INT), "real"),
        ("where", (BOOL, BOOL, BOOL), "bool"),
        ("finite", (REAL,), "bool"),
        ("add", (Shape("any"), INT), "any"),
        ("where", (Shape("any"), INT, INT), "int"),
    ],
)
def test_kinds_of_results(name: str, arrays: tuple[Shape, ...], kind: str) -> None:
    assert S.elementwise(name, *arrays).kind == kind


@pytest.mark.parametrize(
    ("name", "arrays", "message"),
    [
        ("add", (BOOL, INT), r"'\+' needs numbers, not true or false; write where\(…, 1, 0\)"),
        ("multiply", (REAL, BOOL), r"'\*' needs numbers"),
        ("exp", (BOOL,), "'exp' needs numbers"),
        ("less", (BOOL, BOOL), "'<' needs numbers"),
        ("and", (BOOL, INT), "'&' must be true or false, not whole numbers; write a comparison"),
        ("not", (INT,), "'~' must be true or false, not whole numbers"),
        ("where", (REAL, INT, INT), "the condition of where must be true or false, not real numbers"),
        ("where", (BOOL, BOOL, INT), "the two sides of where must be of one kind"),
    ],
)
def test_kinds_that_do_not_fit(name: str, arrays: tuple[Shape, ...], message: str) -> None:
    with pytest.raises(AxisError, match=message):
        S.elementwise(name, *arrays)


def test_sums_of_masks_and_alternatives_of_numbers() -> None:
    with pytest.raises(
        AxisError, match="'sum' needs numbers, not true or false; write any, or count it with cumsum"
    ):
        S.reduce("sum", BOOL, 0)
    with pytest.raises(AxisError, match="'max' needs numbers, not true or false; write any"):
        S.reduce("max", BOOL, 0)
    with pytest.raises(AxisError, match="'all' must be true or false, not real numbers"):
        S.reduce("all", REAL, 0)


_ARRAYS = {"bool": np.array([True, False]), "int": np.array([1, 2]), "real": np.array([1.5, 2.5])}
_KINDS = {"b": "bool", "i": "int", "f": "real"}


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_what_it_allows_is_what_arrays_of_numbers_give(name: str) -> None:
    allowed = 0
    for kinds in product(_ARRAYS, repeat=arity(name)):
        try:
            expected = S.elementwise(name, *(Shape(kind, (2,)) for kind in kinds))
        except AxisError:
            continue
        allowed += 1
        result = Float64().elementwise(name, *(_ARRAYS[kind] for kind in kinds))
        assert (result.shape, _KINDS[result.dtype.kind]) == ((2,), expected.kind), kinds
    assert allowed
