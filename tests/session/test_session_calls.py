import numpy as np
import pytest
from session_helpers import SOFTMAX, X, rms_norm, softmax, softmax_of

from conformance.session import NotOffered, OperationCall, Raised, Returned, Unusable


def test_an_operation_gets_arrays_by_keyword_and_returns_its_own(submit):
    session = submit(SOFTMAX)
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Returned)
    (output,) = outcome.outputs
    assert output.dtypes == {"output": "float32"}
    assert output.shapes == {"output": (2, 3, 4)}
    assert output.tensors["output"].dtype == np.float32
    np.testing.assert_allclose(output.tensors["output"], softmax_of(X), rtol=1e-6)
    assert output.modified == ()
    assert outcome.printed == ""
    assert 0 < outcome.seconds < 5
    assert session.seconds_inside > outcome.seconds


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_float_arrays_arrive_in_the_dtype_of_the_call_and_nothing_else_does(submit, dtype):
    session = submit(
        """
        def attention(q, k, v, mask=None, is_causal=False):
            print(q.dtype, mask.dtype, type(is_causal).__name__)
            print(q.flags.writeable, q.flags.c_contiguous, q.flags.owndata)
            return q
        """
    )
    arguments = {"q": X, "k": X, "v": X, "mask": np.ones((1, 1, 3, 3), bool), "is_causal": True}
    outcome = session.call(OperationCall("attention", arguments, frozenset({"mask", "is_causal"})), dtype)
    assert isinstance(outcome, Returned)
    assert outcome.printed == f"{dtype} bool bool\nTrue True True\n"
    assert outcome.outputs[0].dtypes == {"output": dtype}
    np.testing.assert_array_equal(outcome.outputs[0].tensors["output"].astype(float), X)


def test_float64_keeps_every_bit_and_not_only_float32(submit):
    session = submit("def rms_norm(x, weight, eps):\n    return x")
    x = np.array([1 + 2.0**-52, np.inf, -0.0, 5e-324])
    outcome = session.call(OperationCall("rms_norm", {"x": x, "weight": x, "eps": 0.1}), "float64")
    assert outcome.outputs[0].tensors["output"].tobytes() == x.tobytes()


def test_integers_strings_and_nesting_arrive_as_they_are(submit):
    session = submit(
        """
        def block(x, params, config, positions, more):
            print(type(x), x.shape, positions.dtype, sorted(params), params["attention.w_q"].dtype)
            print(config, config.n_heads, more)
            return x
        """
    )
    call = OperationCall(
        "block",
        {
            "x": np.float64(2) * np.ones((0, 3)),
            "params": {"attention.w_q": X, "norm1.weight": X},
            "positions": np.arange(3, dtype=np.uint8),
            "more": ["a", None, True, 1.5, {"b": (1, 2)}],
        },
        config={"n_heads": 2, "position": "rope"},
    )
    outcome = session.call(call, "float32")
    assert isinstance(outcome, Returned), outcome
    assert outcome.printed.splitlines() == [
        "<class 'numpy.ndarray'> (0, 3) int64 ['attention.w_q', 'norm1.weight'] float32",
        "Config(n_heads=2, position='rope') 2 ['a', None, True, 1.5, {'b': [1, 2]}]",
    ]
    assert outcome.outputs[0].tensors["output"].shape == (0, 3)


def test_config_is_read_only_and_suggests_the_name_that_was_meant(submit):
    session = submit(
        """
        def block(x, params, config):
            try:
                config.n_heads = 3
            except AttributeError as error:
                print(error)
            return config.n_head
        """
    )
    outcome = session.call(OperationCall("block", {"x": X, "params": {}}, config={"n_heads": 2}), "float32")
    assert isinstance(outcome, Raised)
    assert "did you mean `n_heads`?" in outcome.message
    assert "read-only" in outcome.printed


def test_attention_may_return_its_weights_too(submit):
    session = submit("def attention(q, k, v):\n    return q, k.astype(np.float64)")
    outcome = session.call(OperationCall("attention", {"q": X, "k": X, "v": X}), "float32")
    assert outcome.outputs[0].dtypes == {"output": "float32", "weights": "float64"}
    assert set(outcome.outputs[0].tensors) == {"output", "weights"}


def test_another_operation_may_not_return_a_pair(submit):
    session = submit("def softmax(x, axis):\n    return x, x")
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Unusable)
    assert outcome.got == "a tuple of 2"
    assert "output, a numpy array of floats" in outcome.expected


def test_an_equal_call_is_not_made_again_and_a_repetition_is(submit):
    session = submit(
        """
        count = 0
        def softmax(x, axis):
            global count
            count += 1
            return x + count
        """
    )
    first, again = session.call(softmax(), "float32"), session.call(softmax(), "float32")
    assert again is first
    other = session.call(softmax(repetition=1), "float32")
    np.testing.assert_array_equal(other.outputs[0].tensors["output"], X + 2)
    assert session.call(softmax(), "float64").outputs[0].tensors["output"][0, 0, 0] == 3  # another dtype
    assert not first.outputs[0].tensors["output"].flags.writeable


def test_a_call_differs_by_any_of_its_contents():
    base = {"x": X, "axis": -1}
    digests = {
        OperationCall("softmax", base).digest(),
        OperationCall("softmax", {"x": X, "axis": 1}).digest(),
        OperationCall("softmax", {"x": X, "axis": -1.0}).digest(),
        OperationCall("softmax", {"x": X, "axis": True}).digest(),
        OperationCall("softmax", {"x": X, "axis": "1"}).digest(),
        OperationCall("softmax", {"x": X.reshape(3, 2, 4), "axis": -1}).digest(),
        OperationCall("softmax", {"x": X.astype(np.float32), "axis": -1}).digest(),
        OperationCall("softmax", base, tap=True).digest(),
        OperationCall("softmax", base, config={}).digest(),
        OperationCall("rms_norm", base).digest(),
    }
    assert len(digests) == 10
    assert OperationCall("softmax", {"axis": -1, "x": X.copy()}).digest() in digests


def test_a_value_that_cannot_travel_is_our_mistake(submit):
    session = submit(SOFTMAX)
    for value in (np.array([1j]), np.array(["a"]), object()):
        with pytest.raises(TypeError, match="cannot be an argument"):
            session.call(OperationCall("softmax", {"x": value, "axis": 0}), "float32")
    assert isinstance(session.call(softmax(), "float32"), Returned)


def test_a_function_that_is_missing_is_not_offered(submit):
    session = submit(SOFTMAX.replace("softmax", "softmaks") + "\nblock = 3\nrms_norm = None")
    missing = session.call(softmax(), "float32")
    assert isinstance(missing, NotOffered)
    assert missing.reason == "it defines no `softmax`; is `softmaks` meant to be it?"
    assert "`block` is an int" in session.call(OperationCall("block", {}), "float32").reason
    assert session.call(rms_norm(), "float32").reason == "it defines no `rms_norm`"


def test_without_an_optional_argument_a_call_that_needs_it_is_not_offered(submit):
    session = submit("def attention(q, k, v):\n    return q")

    def call(**more):
        optional = frozenset({"mask", "is_causal"})
        return session.call(OperationCall("attention", {"q": X, "k": X, "v": X, **more}, optional), "float32")

    assert call(is_causal=True) == NotOffered("`attention` takes no `is_causal`")
    assert call(mask=np.ones((1, 1, 3, 3), bool)) == NotOffered("`attention` takes no `mask`")
    # None and False say nothing: a function without the argument does just that
    assert isinstance(call(mask=None, is_causal=False), Returned)


def test_not_implemented_error_is_not_offered(submit):
    session = submit('def softmax(x, axis):\n    raise NotImplementedError("only the last axis")')
    assert session.call(softmax(), "float32").reason == "it raised NotImplementedError: only the last axis"


def test_any_other_mismatch_prints_the_signature_that_is_expected(submit):
    session = submit("\ndef softmax(x, dim):\n    return x\n\ndef rms_norm(x, /, weight, eps=1): return x")
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Raised)
    assert outcome.type == "TypeError"
    assert "called as softmax(x=…, axis=…), by keyword; this one is softmax(x, dim)" in outcome.message
    assert "it has no `axis`, it requires `dim`" in outcome.message
    assert (outcome.line, outcome.text) == (3, "def softmax(x, dim):")
    message = session.call(rms_norm(), "float32").message
    assert message.endswith("this one is rms_norm(x, /, weight, eps=…): it takes `x` by position only")


def test_keyword_dictionaries_and_callable_objects_are_functions_too(submit):
    session = submit(
        """
        def softmax(**given):
            return given["x"]
        class Norm:
            def __call__(self, x, weight, eps):
                return x
        rms_norm = Norm()
        """
    )
    assert isinstance(session.call(softmax(), "float32"), Returned)
    assert isinstance(session.call(rms_norm(), "float32"), Returned)
    assert session.offer.functions["softmax"].accepts_any
    assert session.offer.functions["rms_norm"].parameters == ("x", "weight", "eps")


def test_a_type_error_from_inside_is_not_taken_for_a_mismatch(submit):
    session = submit("def softmax(x, axis):\n    return helper(x)\n\ndef helper():\n    pass")
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Raised)
    assert outcome.message == "helper() takes 0 positional arguments but 1 was given"
    assert (outcome.line, outcome.text) == (3, "return helper(x)")


def test_inputs_that_were_changed_are_named(submit):
    session = submit(
        """
        def block(x, params, config):
            x += 1
            params["w"][0, 0, 0] = np.nan
            params["b"].sort()
            return x
        """
    )
    for dtype in ("float16", "float32", "float64"):
        call = OperationCall("block", {"x": X, "params": {"w": X, "b": X}}, config={})
        assert session.call(call, dtype).outputs[0].modified == ("x", "params.w")
    fresh = session.call(
        OperationCall("block", {"x": X, "params": {"w": X, "b": X}}, config={"a": 1}), "float32"
    )
    np.testing.assert_array_equal(fresh.outputs[0].tensors["output"], X + 1)


def test_nan_inputs_that_stay_are_not_reported_as_changed(submit):
    session = submit("def softmax(x, axis):\n    return x")
    x = np.array([np.nan, -np.inf])
    for dtype in ("float16", "bfloat16", "float32"):
        assert session.call(OperationCall("softmax", {"x": x, "axis": 0}), dtype).outputs[0].modified == ()


def test_taps_are_copied_when_called_and_the_last_call_counts(submit):
    session = submit(
        """
        def multi_head_attention(x, params, config, tap=None):
            scores = x * 2
            tap("scores", x)
            tap("scores", scores)
            scores[:] = 0
            tap("mask", x > 1)
            tap("count", np.int32(7))
            tap("half", x.astype(np.float16))
            tap(3, x)
            tap("list", [1, 2])
            tap("", x)
            return x
        """
    )
    call = OperationCall("multi_head_attention", {"x": X, "params": {}}, config={}, tap=True)
    output = session.call(call, "float32").outputs[0]
    assert set(output.taps) == {"scores", "mask", "count", "half"}
    np.testing.assert_array_equal(output.taps["scores"], X * 2)
    np.testing.assert_array_equal(output.taps["mask"], X > 1)
    assert output.taps["count"] == 7
    assert output.taps["count"].shape == ()
    assert output.tap_dtypes == {"scores": "float32", "mask": "bool", "count": "int32", "half": "float16"}
    assert output.notes == (
        "a tap's name has to be a string of 1 to 100 characters; an int came",
        "tap list: a list came; give an array",
        "a tap's name has to be a string of 1 to 100 characters; one of 0 came",
    )


def test_tap_is_passed_only_when_asked_for_and_taken(submit):
    session = submit(
        """
        def block(x, params, config, tap=None):
            print(tap is None)
            return x
        def multi_head_attention(x, params, config):
            return x
        """
    )
    call = OperationCall("block", {"x": X, "params": {}}, config={})
    assert session.call(call, "float32").printed == "True\n"
    call = OperationCall("multi_head_attention", {"x": X, "params": {}}, config={}, tap=True)
    assert session.call(call, "float32").outputs[0].taps == {}


def test_what_is_printed_belongs_to_its_call(submit):
    session = submit(
        """
        import sys, os, warnings
        print("at import")
        def softmax(x, axis):
            print("out"); print("err", file=sys.stderr); os.write(1, b"raw \\xff\\n")
            warnings.warn("careful")
            return x
        def rms_norm(x, weight, eps):
            return x
        """
    )
    assert session.offer.printed == "at import\n"
    printed = session.call(softmax(), "float32").printed
    assert printed.startswith("out\nerr\nraw \ufffd\n")
    assert "UserWarning: careful" in printed
    assert session.call(rms_norm(), "float32").printed == ""


def test_calling_before_opening_is_our_mistake(submit):
    session = submit(SOFTMAX, opened=False)
    with pytest.raises(RuntimeError, match="before"):
        session.call(softmax(), "float32")
    session.open()
    with pytest.raises(ValueError, match="not among the names"):
        session.call(OperationCall("sofmax", {}), "float32")


def test_float64_results_and_odd_layouts_come_back_exactly(submit):
    session = submit(
        """
        def softmax(x, axis):
            return x.astype(">f8").T[::-1]
        def rms_norm(x, weight, eps):
            return np.longdouble(x)
        """
    )
    output = session.call(softmax(), "float32").outputs[0]
    np.testing.assert_array_equal(output.tensors["output"], X.T[::-1])
    assert output.shapes["output"] == (4, 3, 2)
    assert session.call(rms_norm(), "float32").outputs[0].tensors["output"].dtype == np.float64
