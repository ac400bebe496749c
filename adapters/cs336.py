"""Stanford CS336, assignment 1: the course's `tests/adapters.py` as it is, in the contract's words.

conformance run cs336 tests/adapters.py

Each operation calls the `run_…` function of the course that computes it, with the arguments that the
course documents and its tests use: matrices as [out, in], rotary pairs side by side, a mask that is
True where a key may be read. What the course has no word for (a cache, padding, a second sequence,
fewer key heads) is not offered; `run_linear`, `run_embedding` and `run_silu` are no operations of
the contract, and what they call is graded inside of the others.
"""

import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
import types
from pathlib import Path

import torch

framework = "torch"
fully_masked = "avoids"  # the course's model never asks for a row without a key

ROOM = 4  # positions that a table may hold beyond those in use, as in the course's own tests

_FILE = Path(sys.argv[1])
_FOLDERS = []  # in which the course's packages are looked for


def _course():
    """Imports the file that the command line names, inside of its packages where it has any."""
    folder = root = _FILE.parent
    package = []
    while (root / "__init__.py").is_file():
        package.insert(0, root.name)
        root = root.parent
    # What stands beside this adapter, and its own name, are not the course's.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    sys.modules.pop(__name__, None)
    _FOLDERS.extend(dict.fromkeys([root, folder, folder.parent]))
    sys.path[:0] = map(str, _FOLDERS)
    _stand_ins()
    if not package or package[0] in sys.modules:
        # No package, or one with the name of a library: a stand-in, so that `from .common import …` works.
        stand_in = types.ModuleType("graded")
        stand_in.__path__ = [str(folder)]
        sys.modules["graded"] = stand_in
        package = ["graded"]
    return importlib.import_module(".".join([*package, _FILE.stem]))


def _stand_ins():
    """What the course's files need on import and its `uv run` provides, where this interpreter has it not."""
    version = importlib.metadata.version

    def version_of(name):
        # `cs336_basics/__init__.py` asks for its own, and need not be installed to be graded.
        try:
            return version(name)
        except importlib.metadata.PackageNotFoundError:
            if _is_beside(name):
                return "0"
            raise

    importlib.metadata.version = version_of
    if importlib.util.find_spec("jaxtyping") is None:
        # It is there for annotations, which nothing reads here.
        module = types.ModuleType("jaxtyping")
        module.__getattr__ = _annotation
        sys.modules["jaxtyping"] = module


def _annotation(name):
    """A type that takes any subscript, as in `Float[Tensor, "d_out d_in"]`. Raises AttributeError."""
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)})


def _is_beside(name):
    """Whether a package or module stands among the course's own files."""
    top = name.partition(".")[0]
    return any((folder / top).is_dir() or (folder / f"{top}.py").is_file() for folder in _FOLDERS)


_COURSE = _course()


def _function(name):
    """The course's function, None where the file has none."""
    function = vars(_COURSE).get(name)
    return function if callable(function) else None


def _is_written(name):
    """Whether a function is there and does more than to raise NotImplementedError."""
    code = getattr(_function(name), "__code__", None)
    return code is None or code.co_names != ("NotImplementedError",)


_VARIANT = {"base": "llama", "rope_layout": "interleaved", "grouped_heads": False}
variant = [{**_VARIANT, "name": "cs336"}]
if _function("run_multihead_self_attention") and _is_written("run_multihead_self_attention"):
    variant.append({**_VARIANT, "name": "cs336 without RoPE", "position": "none"})


def _serves(*names):
    """Makes an operation of a function that calls the first of `names` that is there; None without any.

    What is known of the operation's place, for messages, is the place of the course's function.
    """

    def decorate(operation):
        served = next(filter(None, map(_function, names)), None)
        if served is None:
            return None
        for function in (operation, getattr(operation, "forward", None)):
            if function is not None:
                function.__signature__ = inspect.signature(function)
                function.__wrapped__ = served
        return operation

    return decorate


def _call(name, given, arguments):
    """Calls a function of the course as its tests do: ordinary tensors, gradients recorded.

    `given` are the grader's own tensors by the names of `arguments`; what the function does to its
    arguments is done to them.
    """
    function = _function(name)
    if function is None:
        raise NotImplementedError(f"the file defines no `{name}`")
    with torch.inference_mode(False):
        copies = {
            word: value.clone() if isinstance(value, torch.Tensor) else value
            for word, value in arguments.items()
        }
        _check(name, function, copies)
        try:
            result = function(**copies)
        except NotImplementedError as error:
            why = f": {error}" if str(error) else " is not written yet"
            raise NotImplementedError(f"`{name}`{why}") from None
        except ModuleNotFoundError as error:
            if not error.name or _is_beside(error.name):
                raise
            raise NotImplementedError(
                f"`{name}` needs the module {error.name}, which {sys.executable} has not: install it there, "
                "or name another interpreter with --python"
            ) from None
    for word, tensor in given.items():
        if copies[word].numel() == tensor.numel():
            tensor.copy_(copies[word].detach().reshape(tensor.shape))
    return result


def _check(name, function, arguments):
    """Says what the course's signature is where the function has another. Raises TypeError."""
    signature = inspect.signature(function)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        call = ", ".join(f"{word}=…" for word in arguments)
        raise TypeError(f"the course calls {name}({call}); this one is {name}{signature}: {error}") from None


def _out_in(matrix):
    """A matrix as the course stores it, [out, in]."""
    return matrix.T.contiguous()


def _state(params, names):
    """Parameters under the course's names; `names` says which, and whether they are transposed."""
    return {
        theirs: _out_in(params[ours]) if turned else params[ours].clone() for ours, theirs, turned in names
    }


_LAYER = (
    ("attention.w_q", "attn.q_proj.weight", True),
    ("attention.w_k", "attn.k_proj.weight", True),
    ("attention.w_v", "attn.v_proj.weight", True),
    ("attention.w_o", "attn.output_proj.weight", True),
    ("norm1.weight", "ln1.weight", False),
    ("ffn.w_gate", "ffn.w1.weight", True),
    ("ffn.w_down", "ffn.w2.weight", True),
    ("ffn.w_up", "ffn.w3.weight", True),
    ("norm2.weight", "ln2.weight", False),
)
_AROUND = (
    ("embed", "token_embeddings.weight", False),
    ("final_norm.weight", "ln_final.weight", False),
    ("lm_head", "lm_head.weight", True),
)


def _square_heads(config):
    """The course's heads have the width d_model / num_heads, and there are as many of keys. Raises."""
    if config.n_kv_heads != config.n_heads:
        raise NotImplementedError("the course has as many key and value heads as query heads")
    if not config.d_head == config.d_value == config.d_model // config.n_heads:
        raise NotImplementedError("the course's heads are d_model / num_heads wide")


@_serves("run_softmax")
def softmax(x, axis):
    """Softmax along one axis."""
    return _call("run_softmax", {"in_features": x}, {"in_features": x, "dim": axis})


@_serves("run_rmsnorm")
def rms_norm(x, weight, eps):
    """RMSNorm of the last axis."""
    arguments = {"d_model": x.shape[-1], "eps": eps, "weights": weight, "in_features": x}
    return _call("run_rmsnorm", {"in_features": x, "weights": weight}, arguments)


@_serves("run_rope")
def rope(x, positions, theta):
    """RoPE, pairs side by side."""
    flat = x.reshape(-1, *x.shape[-2:])  # one leading axis, as in the course's test
    arguments = {
        "d_k": x.shape[-1],
        "theta": theta,
        "max_seq_len": int(positions.max()) + ROOM,
        "in_query_or_key": flat,
        "token_positions": positions,
    }
    given = {"in_query_or_key": x, "token_positions": positions}
    result = _call("run_rope", given, arguments)
    return result.reshape(x.shape) if getattr(result, "shape", None) == flat.shape else result


@_serves("run_scaled_dot_product_attention")
def attention(q, k, v, mask=None, is_causal=False):
    """Attention; the causal part becomes a mask, as in the course."""
    if k.shape[1] != q.shape[1]:
        raise NotImplementedError("the course has as many key and value heads as query heads")
    rows, columns = q.shape[-2], k.shape[-2]
    visible = mask
    if is_causal:
        visible = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
        visible = visible if mask is None else visible & mask
    if visible is not None:
        visible = visible.expand(*q.shape[:2], rows, columns)
    return _call(
        "run_scaled_dot_product_attention",
        {"Q": q, "K": k, "V": v},
        {"Q": q, "K": k, "V": v, "mask": visible},
    )


@_serves("run_swiglu")
def swiglu(x, w_gate, w_up, w_down):
    """SwiGLU: W1 is the gate, W3 goes up, W2 down."""
    arguments = {
        "d_model": x.shape[-1],
        "d_ff": w_gate.shape[-1],
        "w1_weight": _out_in(w_gate),
        "w2_weight": _out_in(w_down),
        "w3_weight": _out_in(w_up),
        "in_features": x,
    }
    return _call("run_swiglu", {"in_features": x}, arguments)


@_serves("run_multihead_self_attention_with_rope", "run_multihead_self_attention")
def multi_head_attention(x, params, config, positions=None):
    """Causal self-attention, with RoPE or without as the variant says."""
    _square_heads(config)
    arguments = {"d_model": config.d_model, "num_heads": config.n_heads}
    name = "run_multihead_self_attention"
    if config.position == "rope":
        name = "run_multihead_self_attention_with_rope"
        if positions is None:
            positions = torch.arange(x.shape[1])
        if positions.dim() > 1:
            raise NotImplementedError("the course's tests give one row of positions for all sequences")
        arguments["max_seq_len"] = int(positions.max()) + ROOM
        arguments["theta"] = config.rope_theta
    for letter in "qkvo":
        arguments[f"{letter}_proj_weight"] = _out_in(params[f"w_{letter}"])
    arguments["in_features"] = x
    if config.position == "rope":
        arguments["token_positions"] = positions[None]
    return _call(name, {"in_features": x}, arguments)


@_serves("run_transformer_block")
def block(x, params, config):
    """One pre-norm layer."""
    _square_heads(config)
    if config.position != "rope":
        raise NotImplementedError("the course's layers always have RoPE")
    arguments = {
        "d_model": config.d_model,
        "num_heads": config.n_heads,
        "d_ff": config.d_ff,
        "max_seq_len": x.shape[1] + ROOM,
        "theta": config.rope_theta,
        "weights": _state(params, _LAYER),
        "in_features": x,
    }
    return _call("run_transformer_block", {"in_features": x}, arguments)


@_serves("run_transformer_lm")
class Model:
    """The language model, made anew for each call."""

    def __init__(self, config, params):
        _square_heads(config)
        if config.position != "rope":
            raise NotImplementedError("the course's model always has RoPE")
        self.config = config
        layers = [
            (f"layers.{i}.{ours}", f"layers.{i}.{theirs}", turned)
            for i in range(config.n_layers)
            for ours, theirs, turned in _LAYER
        ]
        self.weights = _state(params, (*_AROUND, *layers))

    def forward(self, tokens):
        """Logits [B, T, V] of tokens [B, T]."""
        config = self.config
        with torch.inference_mode(False):
            weights = {name: tensor.clone() for name, tensor in self.weights.items()}
        arguments = {
            "vocab_size": config.vocab_size,
            "context_length": tokens.shape[1] + ROOM,
            "d_model": config.d_model,
            "num_layers": config.n_layers,
            "num_heads": config.n_heads,
            "d_ff": config.d_ff,
            "rope_theta": config.rope_theta,
            "weights": weights,
            "in_indices": tokens,
        }
        return _call("run_transformer_lm", {"in_indices": tokens}, arguments)
