"""Each function of the language on arrays small enough to work out by hand."""

from __future__ import annotations

from math import erf, pi, sqrt
from pathlib import Path

import numpy as np
import pytest

from conformance.language.built_in import FUNCTIONS
from conformance.language.errors import PackError
from language.small import same, tensor, value

X = tensor("query dh", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
Y = tensor("key dh", [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
ROW = tensor("dh", [10.0, 20.0, 30.0])
TRUE = tensor("query", [True, False])


def test_axes_are_matched_by_name_not_by_place() -> None:
    same(value("x + row", x=X, row=ROW), "query dh", [[11, 22, 33], [14, 25, 36]])
    same(value("row - x", x=X, row=ROW), "query dh", [[9, 18, 27], [6, 15, 24]])


def test_what_has_no_axis_in_common_spans_both() -> None:
    same(
        value("a * b", a=tensor("query", [1, 2]), b=tensor("key", [3, 4, 5])),
        "query key",
        [[3, 4, 5], [6, 8, 10]],
    )


def test_operators_have_the_precedence_of_python() -> None:
    same(value("-2 ** 2 + 7 // 2 * 3 % 4"), "", -(2**2) + 7 // 2 * 3 % 4)
    same(value("a | b & ~a", a=tensor("", True), b=tensor("", False)), "", True)


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons(sign: str) -> None:
    a, b = np.array([1, 2, 3]), np.array([2, 2, 2])
    expected = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[sign]
    same(value(f"a {sign} b", a=tensor("key", a), b=tensor("key", b)), "key", expected)


def test_whole_numbers_stay_whole_until_they_meet_a_real_one() -> None:
    assert value("a + 1", a=tensor("key", [1, 2])).array.dtype == np.int64
    assert value("a / 2", a=tensor("key", [1, 2])).array.dtype == np.float64
    assert value("a * 0.5", a=tensor("key", [1, 2])).array.dtype == np.float64


def test_a_whole_number_to_a_negative_power_is_a_fraction() -> None:
    same(value("2 ** (-a)", a=tensor("key", [0, 1, 2])), "key", [1.0, 0.5, 0.25])


def test_dot_sums_over_what_it_is_told_and_keeps_the_rest() -> None:
    same(value("dot(x, y, over=dh)", x=X, y=Y), "query key", [[1, 5], [4, 11]])


def test_dot_keeps_a_shared_axis_once() -> None:
    a, b = tensor("batch dh", [[1.0, 2.0], [3.0, 4.0]]), tensor("batch dh", [[1.0, 1.0], [10.0, 1.0]])
    same(value("dot(a, b, over=dh)", a=a, b=b), "batch", [3, 34])


def test_dot_over_two_axes() -> None:
    same(value("dot(x, x, over=(query, dh))", x=X), "", 91)


@pytest.mark.parametrize(("name", "expected"), [("sum", [6, 15]), ("max", [3, 6]), ("mean", [2, 5])])
def test_reductions(name: str, expected: list[int]) -> None:
    same(value(f"{name}(x, over=dh)", x=X), "query", expected)


def test_reductions_over_several_axes() -> None:
    same(value("mean(x, over=(query, dh))", x=X), "", 3.5)


def test_over_everything() -> None:
    same(value("sum(x, over=everything)", x=X), "", 21)
    same(value("mean(x, over=everything)", x=X), "", 3.5)


def test_any_and_all() -> None:
    m = tensor("query key", [[True, False], [True, True]])
    same(value("any(m, over=key)", m=m), "query", [True, True])
    same(value("all(m, over=key)", m=m), "query", [False, True])


def test_any_of_what_does_not_vary_along_an_axis_is_itself() -> None:
    same(value("any(m, over=key)", m=TRUE), "query", [True, False])


def test_sum_needs_its_axis() -> None:
    with pytest.raises(PackError, match=r"there is no axis 'key' in \[query dh\], in 'sum\(x, over=key\)'"):
        value("sum(x, over=key)", x=X)


def test_cumsum_counts_a_mask() -> None:
    same(value("cumsum(m, over=key)", m=tensor("key", [False, True, True])), "key", [0, 1, 2])
    same(value("cumsum(x, over=dh)", x=X), "query dh", [[1, 3, 6], [4, 9, 15]])


def test_where_chooses_element_by_element() -> None:
    same(value("where(m, x, -inf)", m=TRUE, x=X), "query dh", [[1, 2, 3], [-np.inf] * 3])


def test_index_size_and_range() -> None:
    same(value("index(dh)", x=X), "dh", [0, 1, 2])
    same(value("size(dh) + Dh", x=X), "", 6)
    same(value("range(Tq + 2, over=key)", x=X), "key", [0, 1, 2, 3])


def test_take_with_a_number_drops_the_axis() -> None:
    same(value("take(x, query=1)", x=X), "dh", [4, 5, 6])


def test_take_puts_the_axes_of_the_indices_in_place_of_its_own() -> None:
    table = tensor("vocab model", [[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]])
    tokens = tensor("batch query", [[2, 0], [1, 1]])
    same(value("take(t, vocab=i)", t=table, i=tokens), "batch query model", table.array[tokens.array])


def test_take_refuses_indices_along_an_axis_of_the_tensor() -> None:
    with pytest.raises(PackError, match="'query' is an axis of the tensor and of its indices"):
        value("take(x, dh=i)", x=X, i=tensor("query", [0, 1]))


def test_last() -> None:
    same(value("last(x, count=2, over=dh)", x=X), "query dh", [[2, 3], [5, 6]])


def test_split_takes_the_slowest_part_first() -> None:
    x = tensor("head_dh", [0, 1, 2, 3, 4, 5])
    same(value("split(x, head_dh=(head, dh))", {"dh": 2}, x=x), "head dh", [[0, 1], [2, 3], [4, 5]])
    same(value("split(x, head_dh=(side, dh))", x=x), "side dh", [[0, 1, 2], [3, 4, 5]])


def test_split_needs_all_sizes_but_one() -> None:
    with pytest.raises(PackError, match="the sizes of head and dh are unknown"):
        value("split(x, head_dh=(head, dh))", x=tensor("head_dh", [0, 1]))


def test_split_must_come_out_even() -> None:
    with pytest.raises(PackError, match="axis 'head_dh' of size 3 is not 1 head × 2 dh"):
        value("split(x, head_dh=(head, dh))", {"dh": 2}, x=tensor("head_dh", [0, 1, 2]))


def test_merge_undoes_split_whatever_the_order_of_axes() -> None:
    x = tensor("dh head", [[0, 2, 4], [1, 3, 5]])
    same(value("merge(x, (head, dh), into=head_dh)", x=x), "head_dh", [0, 1, 2, 3, 4, 5])


def test_stack_makes_a_new_axis() -> None:
    a, b = tensor("query", [1, 2]), tensor("query", [3, 4])
    same(value("stack(a, b, over=side)", a=a, b=b), "query side", [[1, 3], [2, 4]])


def test_relabel_moves_nothing() -> None:
    same(value("relabel(x, query=key)", x=X), "key dh", X.array)
    same(value("relabel(x, query=dh, dh=query)", x=X), "dh query", X.array)


def test_relabel_cannot_make_an_axis_twice() -> None:
    with pytest.raises(PackError, match=r"an axis stands twice in \[dh dh\]"):
        value("relabel(x, query=dh)", x=X)


def test_reinterpret_is_a_reshape_without_its_transpose() -> None:
    x = tensor("head query", [[0, 1, 2], [3, 4, 5]])
    same(
        value("reinterpret(x, order=(head, query), into=(query, head))", x=x),
        "query head",
        [[0, 1], [2, 3], [4, 5]],
    )


def test_reinterpret_must_keep_the_number_of_elements() -> None:
    with pytest.raises(PackError, match="of size 6 is not 2 side × 2 dh"):
        value(
            "reinterpret(x, order=(query, dh), into=(side, dh))",
            x=tensor("query dh", [[1, 2], [3, 4], [5, 6]]),
        )


def test_elementary_functions() -> None:
    a = np.array([0.25, 1.0, 2.0])
    for name, expected in {
        "exp": np.exp(a), "log": np.log(a), "sqrt": np.sqrt(a), "sin": np.sin(a), "cos": np.cos(a),
        "tanh": np.tanh(a), "erf": [erf(x) for x in a], "abs": a,
    }.items():  # fmt: skip
        same(value(f"{name}(a)", a=tensor("key", a)), "key", expected)


def test_maximum_minimum_and_finite() -> None:
    a = tensor("key", [-1.0, np.inf, np.nan])
    same(value("maximum(a, 0)", a=a), "key", [0, np.inf, np.nan])
    same(value("minimum(a, 0)", a=a), "key", [-1, 0, np.nan])
    same(value("finite(a)", a=a), "key", [True, False, False])


def test_the_words() -> None:
    same(value("pi"), "", pi)
    same(value("-inf"), "", -np.inf)


def test_a_symbol_is_the_size_of_its_axis() -> None:
    same(value("x / sqrt(Dh)", x=X), "query dh", X.array / sqrt(3))


def test_squares_are_products() -> None:
    x = tensor("key", [1.1, -2.7])
    same(value("x ** 2", x=x), "key", x.array * x.array)
    same(value("x ** 3", x=x), "key", x.array * x.array * x.array)


def test_adding_nothing_does_not_make_a_tensor() -> None:
    assert value("0 + x - 0", x=X) is X
    assert value("1 * x", x=X) is X


def test_sizes_that_differ_do_not_meet() -> None:
    with pytest.raises(PackError, match=r"axis 'dh' has size 3 here and 2 there, in 'x \+ y'"):
        value("x + y", x=X, y=tensor("dh", [1.0, 2.0]))
    with pytest.raises(PackError, match="axis 'query' has size 2 here and 1 there"):
        value("dot(x, y, over=dh)", x=X, y=tensor("query dh", [[1.0, 2.0, 3.0]]))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("dot(x, x)", r"'dot\(x, x\)' is not of the form dot\(x, y, over=axes\)"),
        ("exp(x, x)", r"is not of the form exp\(x\)"),
        ("range(over=key)", r"is not of the form range\(count, over=axis\)"),
        ("merge(x, into=key)", r"is not of the form merge\(x, axes, into=axis\)"),
        ("stack(over=side)", r"is not of the form stack\(x, …, over=axis\)"),
        ("take(x)", r"is not of the form take\(x, axis=indices\)"),
        ("take(x, dh=0, query=0)", "one axis is needed, not dh, query"),
        ("sum(x, ovr=dh)", r"has an unknown argument 'ovr' \(did you mean 'over'\?\)"),
        ("sum(x, over=batc)", r"unknown axis 'batc' \(did you mean 'batch'\?\)"),
        ("take(x, qery=0)", r"unknown axis 'qery' \(did you mean 'query'\?\)"),
        ("sum(x, over=3)", "an axis, or several in parentheses, is needed, not '3'"),
        ("index((query, dh))", r"one axis is needed, not 2"),
        ("last(x, count=0.5, over=dh)", "'0.5' must be a whole number made of sizes"),
        ("maximun(x, 0)", r"unknown function 'maximun' \(did you mean 'maximum'\?\)"),
        ("y + 1", r"unknown tensor 'y'"),
        ("exp('x')", "the text 'x' stands where a tensor is needed"),
        ("(x, x) + 1", "stands where a tensor is needed"),
        ("Tq // (Tq - Tq)", "2 is divided by 0"),
        ("index(head)", "the size of axis 'head' is not known here"),
        ("join(x, x, into=key)", "does not continue"),
    ],
)
def test_wrong_calls_say_what_is_right(expression: str, message: str) -> None:
    with pytest.raises(PackError, match=message):
        value(expression, x=X)


def test_every_function_is_tested_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [
        name for name in FUNCTIONS - {"repeat", "join"} if f"{name}(" not in text and f'"{name}"' not in text
    ] == []
