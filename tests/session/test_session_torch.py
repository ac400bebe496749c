import numpy as np
import pytest
from session_helpers import EMBED, X, model, softmax, tokens

from conformance.session import (
    Crashed,
    Limits,
    NotOffered,
    OperationCall,
    Returned,
    TargetError,
    Unusable,
)

SOFTMAX = """
import torch
framework = "torch"
def softmax(x, axis):
    print(x.dtype, x.is_contiguous(), torch.is_inference_mode_enabled(), torch.get_num_threads())
    return torch.softmax(x, axis)
"""
LIMITS = Limits(timeout=20.0, import_timeout=120.0)


@pytest.fixture
def torch_session(submit):
    return lambda source, **more: submit(source, **{"limits": LIMITS, **more})


def test_tensors_come_and_go_in_every_dtype(torch_session):
    session = torch_session(SOFTMAX)
    assert session.offer.framework == "torch"
    assert session.offer.versions["torch"].startswith("2.")
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        outcome = session.call(softmax(), dtype)
        assert isinstance(outcome, Returned), outcome
        assert outcome.printed == f"torch.{dtype} True True 1\n"
        output = outcome.outputs[0]
        assert output.dtypes == {"output": dtype}
        np.testing.assert_allclose(output.tensors["output"].astype(float).sum(-1), 1, rtol=0.02)
        assert output.modified == ()
    assert session.starts == 1


def test_bfloat16_values_come_back_exactly(torch_session):
    session = torch_session("framework = 'torch'\ndef softmax(x, axis):\n    return x.mT")
    x = np.array([[1.0, 2.0**100, np.nan], [-0.0, np.inf, 1 + 2.0**-7]])
    output = session.call(OperationCall("softmax", {"x": x, "axis": 0}), "bfloat16").outputs[0]
    np.testing.assert_array_equal(output.tensors["output"], x.T)
    assert np.signbit(output.tensors["output"][0, 1])
    assert output.modified == ()


def test_a_module_is_a_model(torch_session):
    session = torch_session(
        """
        import torch
        framework = "torch"
        class Model(torch.nn.Module):
            def __init__(self, config, params):
                super().__init__()
                self.embed = torch.nn.Parameter(params["embed"])
            def forward(self, tokens, attention_mask=None, tap=None):
                assert tokens.dtype == torch.int64
                x = self.embed[tokens]
                if tap:
                    tap("x", x)
                    x += 1
                    tap("ids", tokens)
                    tap("numpy", x.numpy())
                return x
        """
    )
    assert session.offer.functions["Model.forward"].parameters == ("tokens", "attention_mask", "tap")
    outcome = session.call(model(tokens(1, 2), tap=True), "float32")
    output = outcome.outputs[0]
    np.testing.assert_array_equal(output.tensors["logits"], EMBED[None, 1:3] + 1)
    np.testing.assert_array_equal(output.taps["x"], EMBED[None, 1:3])
    np.testing.assert_array_equal(output.taps["ids"], [[1, 2]])
    assert output.tap_dtypes["ids"] == "int64"
    assert output.modified == ()


def test_changed_tensors_are_named(torch_session):
    session = torch_session(
        """
        framework = "torch"
        def attention(q, k, v):
            q.add_(1)
            k.resize_(1)
            return v, q
        """
    )
    for dtype in ("float32", "bfloat16"):
        outcome = session.call(OperationCall("attention", {"q": X, "k": X, "v": X}), dtype)
        assert outcome.outputs[0].modified == ("q", "k")


def test_unusable_tensors(torch_session):
    """In one process, because each start of PyTorch takes a second or two."""
    session = torch_session(
        """
        framework = "torch"
        def softmax(x, axis):
            if axis == "expanded":
                return x[:1, :1, :1].expand(10**5, 10**5, 10)
            return eval(axis)
        """
    )
    for value, got in {
        "x.int()": "a tensor of dtype int32",
        "x + 1j": "a tensor of dtype complex64",
        "[x]": "a list",
        "x.to_sparse()": "an object of class Tensor that raised",
        "x.to('meta')": "an object of class Tensor that raised",
    }.items():
        outcome = session.call(OperationCall("softmax", {"x": X, "axis": value}), "float32")
        assert isinstance(outcome, Unusable), outcome
        assert outcome.got.startswith(got)
        assert outcome.expected == "output, a torch tensor of floats"

    output = session.call(OperationCall("softmax", {"x": X, "axis": "expanded"}), "bfloat16").outputs[0]
    assert (output.tensors, output.shapes) == ({}, {"output": (10**5, 10**5, 10)})
    numpy = session.call(OperationCall("softmax", {"x": X, "axis": "x.numpy()"}), "float16").outputs[0]
    assert numpy.dtypes == {"output": "float16"}
    assert session.starts == 1


def test_a_tensor_from_a_numpy_submission_gets_the_advice(torch_session):
    session = torch_session("import torch\ndef softmax(x, axis):\n    return torch.tensor(x)")
    outcome = session.call(softmax(), "float32")
    assert outcome.got == 'an object of class Tensor (for PyTorch declare framework = "torch")'


def test_memory_that_pytorch_asks_for_in_vain(torch_session):
    session = torch_session(
        "import torch\nframework = 'torch'\ndef softmax(x, axis):\n    return torch.ones(1 << 30)",
        limits=Limits(timeout=20, import_timeout=120, memory_mb=1024),
    )
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Crashed), outcome
    assert outcome.how.startswith("out of memory (limit 1024 MB)")


def test_without_pytorch_the_declaration_is_at_fault(submit):
    session = submit(
        "import sys\nsys.modules['torch'] = None\nframework = 'torch'\ndef softmax(x, axis): pass",
        opened=False,
    )
    with pytest.raises(TargetError) as caught:
        session.open()
    assert 'declares framework = "torch", but' in caught.value.message
    assert "--python" in caught.value.hint


def test_numpy_bfloat16_without_ml_dtypes_is_not_offered(submit):
    session = submit("import sys\nsys.modules['ml_dtypes'] = None\ndef softmax(x, axis): return x")
    outcome = session.call(softmax(), "bfloat16")
    assert isinstance(outcome, NotOffered)
    assert "ml_dtypes" in outcome.reason
    assert isinstance(session.call(softmax(), "float32"), Returned)


def test_a_device_that_is_not_there_is_said(torch_session):
    import torch

    if torch.cuda.is_available():
        assert torch_session(SOFTMAX + 'device = "cuda"\n').offer.framework == "torch"
        return
    with pytest.raises(TargetError, match="sees no CUDA device"):
        torch_session(SOFTMAX + 'device = "cuda"\n')


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (SOFTMAX + 'device = "tpu"\n', 'one of "cpu", "cuda"'),
        ('device = "cuda"\ndef softmax(x, axis): return x\n', "only PyTorch has devices"),
    ],
)
def test_a_device_that_does_not_exist_is_refused(torch_session, source, said):
    with pytest.raises(TargetError, match=said):
        torch_session(source)


def test_the_cpu_may_be_declared(torch_session):
    assert isinstance(torch_session(SOFTMAX + 'device = "cpu"\n').call(softmax(), "float32"), Returned)
