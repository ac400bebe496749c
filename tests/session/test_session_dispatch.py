"""A trace of PyTorch: each result with the line that asked for it, and what is inside fused kernels."""

import textwrap

import numpy as np
import pytest
from session_helpers import X, model, softmax

from conformance.session import Limits, OperationCall, Returned
from conformance.session.tracing import BUDGET

pytest.importorskip("torch")
HEAD = 'import torch\nfrom torch.nn import functional as F\nframework = "torch"\n'
LIMITS = Limits(timeout=20.0, import_timeout=120.0)
RANDOM = np.random.default_rng(5)
Q, K, V = (
    RANDOM.normal(size=(2, 4, 3, 8)),
    RANDOM.normal(size=(2, 2, 11, 8)),
    RANDOM.normal(size=(2, 2, 11, 4)),
)


@pytest.fixture
def traced(submit):
    """The trace of a call; without it the call gave the same, bit by bit."""

    def trace(source, call, dtype="float32", **more):
        source = HEAD + textwrap.dedent(source)
        session = submit(source, limits=LIMITS, **more)
        plain = session.call(call, dtype)
        assert isinstance(plain, Returned), plain
        trace = session.trace(call, dtype)
        assert isinstance(trace.outcome, Returned), trace.outcome
        for one, other in zip(plain.outputs, trace.outcome.outputs, strict=True):
            for name, array in one.tensors.items():
                np.testing.assert_array_equal(array, other.tensors[name])
        return trace

    return trace


def named(trace, variable):
    return [record.array for record in trace.records if record.variable == variable]


def expected_weights(q, k, visible):
    """Attention's weights in float64."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(visible, scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def attend(arguments):
    return f"def attention(q, k, v, mask=None, is_causal=False):\n    return F.scaled_dot_product_attention({arguments})\n"


def test_the_middle_of_an_expression_is_seen_at_its_statement(traced):
    trace = traced(
        """
        def softmax(x, axis):
            return torch.exp(
                x - x.amax(axis, keepdim=True)
            ) / 2
        """,
        softmax(),
    )
    x = X.astype(np.float32)
    assert [r.variable for r in trace.records] == ["torch.amax", "torch.sub", "torch.exp", "return"]
    assert {r.line for r in trace.records} == {6 + 1}
    np.testing.assert_array_equal(trace.records[1].array, x - x.max(-1, keepdims=True))


def test_a_result_and_the_name_that_it_gets_are_one_record(traced):
    trace = traced("def softmax(x, axis):\n    s = x * 2\n    s += x\n    return s\n", softmax())
    x = X.astype(np.float32)
    assert [(r.variable, r.line) for r in trace.records] == [("s", 6), ("s", 7), ("return", 8)]
    np.testing.assert_array_equal(trace.records[1].array, 3 * x)


def test_views_of_all_are_not_recorded_but_parts_and_edits_are(traced):
    trace = traced(
        """
        def softmax(x, axis):
            return change(x.clone())
        def change(y):
            y.transpose(-1, -2).reshape(-1)
            y[..., 0].mul_(2)
            return y.exp()
        """,
        softmax(),
    )
    names = [r.variable for r in trace.records]
    assert names.count("torch.mul_") == 1
    assert not {"torch.transpose", "torch.reshape"} & set(names)
    assert names.index("torch.select") < names.index("torch.mul_")
    np.testing.assert_array_equal(named(trace, "torch.mul_")[0], 2 * X[..., 0].astype(np.float32))


def test_results_inside_a_library_are_told_of_the_line_that_called_it(traced):
    trace = traced(
        """
        def softmax(x, axis):
            torch.manual_seed(0)
            layer = torch.nn.MultiheadAttention(x.shape[-1], 1, batch_first=True).train()
            y = layer(x, x, x)[0]  # HERE
            return y
        """,
        softmax(),
    )
    inside = [r for r in trace.records if r.line == 9]
    assert all(r.text.endswith("# HERE") for r in inside)
    assert {"torch.linear", "torch.softmax", "torch.bmm", "y"} <= {r.variable for r in inside}
    assert {r.function for r in inside} == {"softmax"}


def test_a_module_beside_the_adapter_is_the_submission_s(traced, tmp_path):
    (tmp_path / "part.py").write_text(
        "import torch\nclass Part(torch.nn.Module):\n    def forward(self, x):\n        return x.exp() * 2\n"
    )
    trace = traced("from part import Part\ndef softmax(x, axis):\n    return Part()(x)\n", softmax())
    assert ("part.py", 4, "torch.exp") in {
        (r.file.rpartition("/")[2], r.line, r.variable) for r in trace.records
    }


def test_a_library_that_is_graded_is_shown_instead_of_the_adapter(traced, tmp_path, monkeypatch):
    folder = tmp_path / "site" / "graded_library"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("def twice(x):\n    return x.exp() * 2\n")
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    trace = traced(
        "import graded_library\nfrom graded_library import twice\ngraded_files = [graded_library.__file__]\n"
        "def softmax(x, axis):\n    y = x + 1\n    return twice(y)\n",
        softmax(),
    )
    assert {r.file for r in trace.records} == {str(folder / "__init__.py")}
    assert {"torch.exp", "return"} <= {r.variable for r in trace.records}


@pytest.mark.parametrize("gradients", [False, True])
def test_weights_and_mask_of_a_fused_kernel_are_recovered(submit, gradients):
    """In inference mode the whole operation is dispatched, otherwise the kernel that it chooses."""
    body = "return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)"
    if gradients:
        body = f"with torch.inference_mode(False):\n        {body.replace('q, k, v', 'q.clone(), k.clone(), v.clone()')}"
    session = submit(
        f"{HEAD}def attention(q, k, v, mask=None, is_causal=False):\n    {body}\n", limits=LIMITS
    )
    k = np.repeat(K, 2, axis=1)
    for causal in (False, True):
        visible = np.tril(np.ones((3, 11), bool)) if causal else np.ones((3, 11), bool)
        for dtype, allowed in (("float32", 1e-6), ("bfloat16", 2e-2)):
            call = OperationCall("attention", {"q": Q, "k": k, "v": k, "is_causal": causal})
            trace = session.trace(call, dtype)
            weights, mask = (
                next(r.array for r in trace.records if r.variable.endswith(part))
                for part in (".weights", ".mask")
            )
            np.testing.assert_allclose(weights, expected_weights(Q, k, visible), atol=allowed)
            np.testing.assert_array_equal(mask, np.broadcast_to(visible, mask.shape))
            kernel = "_flash_attention_for_cpu" if gradients else ""
            assert any(r.variable.endswith(f"{kernel}.weights") for r in trace.records)


def test_what_a_fused_kernel_is_given_is_recorded_unless_it_is_known(traced):
    trace = traced(
        attend("q * 1.5, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), mask, scale=1.0"),
        OperationCall("attention", {"q": Q, "k": K, "v": V, "mask": RANDOM.random((2, 1, 3, 11)) < 0.7}),
    )
    names = [r.variable for r in trace.records]
    assert names[:3] == ["torch.mul", "torch.repeat_interleave", "torch.repeat_interleave"]
    assert "torch.scaled_dot_product_attention(query)" not in names
    trace = traced(
        attend(
            "q.mT.contiguous().mT, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), torch.zeros(3, 11).exp().expand(2, 1, 3, 11)"
        ),
        OperationCall("attention", {"q": Q, "k": K, "v": V}),
    )
    names = [r.variable for r in trace.records]
    assert "torch.scaled_dot_product_attention(attn_mask)" in names


def test_slots_of_a_cache_that_nobody_reads_are_left_out_as_well(traced):
    trace = traced(
        "def attention(q, k, v):\n    mask = torch.arange(11) < torch.tensor([5, 7, 6])[:, None]\n"
        "    return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)\n",
        OperationCall("attention", {"q": Q, "k": K, "v": V}),
    )
    _, weights = [r.array for r in trace.records if r.variable.endswith(".weights")]
    visible = np.arange(7) < np.array([5, 7, 6])[:, None]
    k = np.repeat(K, 2, axis=1)[:, :, :7]
    np.testing.assert_allclose(weights, expected_weights(Q, k, visible), atol=1e-6)


def test_a_probe_draws_no_random_numbers(traced):
    trace = traced(
        "def attention(q, k, v):\n    torch.manual_seed(3)\n"
        "    z = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, enable_gqa=True)\n    return z + torch.rand(1)\n",
        OperationCall("attention", {"q": Q, "k": K, "v": V}),
    )
    (weights,) = [r.array for r in trace.records if r.variable.endswith(".weights")]
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_weights_of_the_fast_path_of_multi_head_attention(traced):
    trace = traced(
        """
        def softmax(x, axis):
            torch.manual_seed(0)
            layer = torch.nn.MultiheadAttention(x.shape[-1], 2, batch_first=True).eval()
            return layer(x, x, x, need_weights=False)[0]
        """,
        softmax(),
    )
    (weights,) = [
        r.array for r in trace.records if r.variable == "torch._native_multi_head_attention.weights"
    ]
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


STRANGE = [
    "torch.jit.script(g)(x)",
    "torch.jit.trace(g, (x,))(x)",
    'torch.compile(g, backend="eager")(x)',
    "torch.vmap(g)(x)",
    "flex(x)",
    "torch.fx.symbolic_trace(g)(x)",
    "torch.func.grad(lambda y: g(y).sum())(x)",
    "torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * 1j)",
    "other(x)",
    "x.to(torch.float8_e5m2).float()",
    "x.to_sparse().to_dense()",
    "(x.as_subclass(Sub) * 2).as_subclass(torch.Tensor)",
    "torch.utils.checkpoint.checkpoint(g, x, use_reentrant=False)",
    "torch.nested.nested_tensor([x[0], x[1]]).to_padded_tensor(0.0)",
]


@pytest.mark.parametrize("gradients", [False, True])
def test_what_cannot_be_watched_is_passed_over_in_silence(submit, gradients):
    session = submit(
        HEAD
        + textwrap.dedent(
            f"""
            import warnings
            import torch.utils.checkpoint
            from torch.nn.attention.flex_attention import flex_attention
            from torch.utils.flop_counter import FlopCounterMode
            warnings.simplefilter("ignore")
            class Sub(torch.Tensor):
                pass
            def g(x):
                return torch.softmax(x * 2, -1)
            def other(x):
                with FlopCounterMode(display=False):
                    return x @ x.mT
            def flex(x):
                return flex_attention(x[None], x[None], x[None])
            def softmax(x, axis):
                with torch.inference_mode({not gradients}):
                    x = x.clone()
                    y = x * 3
                    return [{", ".join("lambda: " + text for text in STRANGE)}][axis]()
            """
        ),
        limits=LIMITS,
    )
    x = RANDOM.normal(size=(2, 16, 8))
    for i, text in enumerate(STRANGE):
        call = OperationCall("softmax", {"x": x, "axis": i})
        plain = session.call(call, "float32")
        trace = session.trace(call, "float32")
        assert isinstance(plain, Returned), (text, plain)
        assert trace.notes == (), (text, trace.notes)  # among them: that it gave something else
        np.testing.assert_array_equal(
            plain.outputs[0].tensors["output"], trace.outcome.outputs[0].tensors["output"], text
        )
        assert named(trace, "y"), text


def test_a_trace_that_raises_where_the_call_does_not_is_made_without_results(traced):
    trace = traced(
        """
        import torch.utils._python_dispatch as modes
        def softmax(x, axis):
            y = x * 2 + 1
            if modes._get_current_dispatch_mode() is not None:
                raise RuntimeError("not under a mode")
            return y
        """,
        softmax(),
    )
    assert trace.notes == ()
    assert [r.variable for r in trace.records] == ["y", "return"]


def test_buffers_of_a_module_and_edits_of_them_have_their_names(traced):
    trace = traced(
        """
        class Model(torch.nn.Module):
            def __init__(self, config, params):
                super().__init__()
                self.register_buffer("table", torch.arange(12.0).reshape(3, 4))
                self.embed = torch.nn.Parameter(params["embed"].clone())
            def forward(self, tokens):
                self.table[:, 0] = 7
                self.table.mul_(2)
                return self.embed[tokens]
        """,
        model(),
    )
    tables = named(trace, "self.table")
    assert len(tables) >= 2
    np.testing.assert_array_equal(tables[-1][:, 0], [14, 14, 14])


def test_making_and_filling_parameters_gives_no_results(traced):
    trace = traced(
        """
        def softmax(x, axis):
            norm = torch.nn.LayerNorm(x.shape[-1])
            linear = torch.nn.Linear(4, 5)
            norm.load_state_dict({"weight": torch.ones(4), "bias": torch.ones(4)})
            return norm(x).exp()
        """,
        softmax(),
    )
    assert {r.line for r in trace.records} == {10}


def test_uninitialised_memory_and_noise_are_no_results(traced):
    trace = traced(
        "def softmax(x, axis):\n    return fill(torch.empty(3, 4))\ndef fill(y):\n    return y.copy_(torch.ones(3, 4))\n",
        softmax(),
    )
    assert not [r for r in trace.records if r.variable.startswith("torch.empty")]


def test_the_budget_of_arrays_holds(traced):
    trace = traced(
        "def softmax(x, axis):\n    for i in range(21_000):\n        x + i\n    return x\n", softmax()
    )
    # One line has a budget of its own, so that a loop leaves room for what comes after it.
    assert len(trace.records) <= BUDGET["per_place"] + 10
    assert any(record.variable == "return" for record in trace.records) or trace.notes
