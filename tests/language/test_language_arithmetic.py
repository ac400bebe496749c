"""The plain arithmetics: float64, and native dtypes with every result rounded to them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.language.arithmetic import ELEMENTWISE, Float64, Native, to_bfloat16
from conformance.language.sizes import Size, number
from language.small import arity, reading, tensor

F32 = st.floats(width=32, allow_nan=False)


def reference_bfloat16(a: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(a, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


@given(st.lists(F32, min_size=1, max_size=20))
def test_bfloat16_rounds_as_ml_dtypes_does(values: list[float]) -> None:
    a = np.array(values, np.float32)
    np.testing.assert_array_equal(to_bfloat16(a), reference_bfloat16(a))


def test_bfloat16_rounds_ties_to_even() -> None:
    # 1 + 2^-8 lies halfway between 1 and 1 + 2^-7, 1 + 3·2^-8 halfway between 1 + 2^-7 and 1 + 2^-6.
    np.testing.assert_array_equal(to_bfloat16(np.float32([1 + 2**-8, 1 + 3 * 2**-8])), [1, 1 + 2**-6])


def test_bfloat16_at_the_ends_of_its_range() -> None:
    a = np.float32(
        [np.finfo(np.float32).max, -np.finfo(np.float32).max, np.inf, -np.inf, np.nan, 1e-45, -0.0]
    )
    np.testing.assert_array_equal(to_bfloat16(a), reference_bfloat16(a))
    assert np.isposinf(to_bfloat16(a)[0])
    assert np.signbit(to_bfloat16(a)[-1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_result_is_a_value_of_the_dtype(dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    native, random = Native(dtype), np.random.default_rng(0)
    a, b = (np.asarray(random.normal(size=(3, 4)), kind).astype(np.float32) for _ in range(2))
    results = [native.elementwise(name, a, b) for name in ("add", "subtract", "multiply", "divide")]
    results += [native.elementwise(name, np.abs(a)) for name in ("exp", "sqrt", "tanh", "sin", "erf", "log")]
    results += [native.contract("ab,cb->ac", a, b), native.reduce("sum", a, 1), native.cumulative_sum(a, 1)]
    for result in results:
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, result.astype(kind).astype(np.float32))


def test_float16_overflows_where_float32_does_not() -> None:
    large = np.float32([300.0])
    assert np.isinf(Native("float16").elementwise("multiply", large, large))
    assert Native("float32").elementwise("multiply", large, large) == 90000


def test_native_float64_is_float64() -> None:
    a = np.array([0.1, 0.2])
    assert Native("float64").elementwise("add", a, a).dtype == np.float64
    np.testing.assert_array_equal(Native("float64").elementwise("exp", a), Float64().elementwise("exp", a))


def test_sixteen_bit_sums_are_accumulated_in_float32() -> None:
    # 2048 ones and a half: in float16 itself the sum would stop at 2048.
    ones = np.ones((1, 4096), np.float32)
    assert Native("float16").contract("ab,cb->ac", ones, ones) == 4096


def test_whole_numbers_and_masks_are_not_rounded() -> None:
    native = Native("float16")
    assert native.elementwise("add", np.array([2049]), np.array([0])) == 2049
    assert native.cumulative_sum(np.ones(4097, bool), 0)[-1] == 4097
    assert native.elementwise("where", np.array([True]), np.array([4097]), np.array([1])) == 4097


def test_choosing_does_not_round() -> None:
    fine = np.float32([1 + 2**-20])
    for name in ("maximum", "minimum"):
        assert Native("float16").elementwise(name, fine, fine) == fine
    assert Native("bfloat16").elementwise("negative", fine) == -fine


def test_angles_are_widened() -> None:
    assert Native("float16").widened().dtype == "float32"
    assert Native("bfloat16").widened().dtype == "float32"
    assert Native("float32").widened().dtype == "float32"
    assert isinstance(Float64().widened(), Float64)


WIDE = """
functions:
  inner:
    given: {x: query}
    is: x * 1.0
    gives: query
  f:
    given: {x: query}
    let:
      wide: {is: inner(x) * 1.0, at_least: float32}
      narrow: x * 1.0
    is: stack(wide, narrow, over=side)
    gives: query side
"""


def test_at_least_float32_holds_for_one_equation_and_for_what_it_calls() -> None:
    x = tensor("query", np.float32([2049.0]))
    found = reading(WIDE, arithmetic=Native("float16")).call("f", {"x": x})
    np.testing.assert_array_equal(found.array, [[2049, 2048]])


def test_an_equation_inside_a_widened_one_does_not_narrow_the_rest() -> None:
    program = WIDE.replace(
        "    is: x * 1.0\n", "    let: {y: {is: x * 1.0, at_least: float32}}\n    is: y * 1.0\n", 1
    )
    found = reading(program, arithmetic=Native("float16")).call(
        "f", {"x": tensor("query", np.float32([2049.0]))}
    )
    np.testing.assert_array_equal(found.array, [[2049, 2048]])


def test_an_overflow_is_a_value_and_no_warning() -> None:
    a = np.array([1e308, 0.0, -1.0])
    np.testing.assert_array_equal(Float64().elementwise("multiply", a, np.array(10.0)), [np.inf, 0, -10])
    np.testing.assert_array_equal(Float64().elementwise("log", a[1:]), [-np.inf, np.nan])
    assert np.isnan(Float64().elementwise("divide", np.array(0), np.array(0)))


def test_a_symbol_is_no_number() -> None:
    with pytest.raises(TypeError, match="the size Tq is a symbol and has no value"):
        number(Size.symbol("Tq"))
    with pytest.raises(TypeError, match="is a symbol"):
        Float64().constant(Size.symbol("Tq"))


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_every_elementwise_function_works_in_every_dtype(name: str) -> None:
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        arithmetic = Native(dtype)
        args = [arithmetic.constant(True if name in ("and", "or", "not") else 0.5)] * arity(name)
        if name == "where":
            args[0] = arithmetic.constant(True)
        result = arithmetic.elementwise(name, *args)
        assert result.shape == ()
        assert result.dtype.kind == "b" or result.dtype == arithmetic.real
