"""The forward pass of a Transformer in NumPy, written by hand.

Every operation of the contract, attention, the layer and the model, with every
free choice of a variant: decoder-only or encoder-decoder, pre-norm or post-norm,
layer_norm or rms_norm, RoPE, learned or sinusoidal positions, plain FFN or
SwiGLU, MHA, GQA or MQA, a cache, left padding. It is written to be read, and it
shares no code with the program of the pack, so each of the two checks the other.

Row vectors throughout: ``y = x @ W``. Everything is computed in the dtype of the
parameters; only angles are always float64. The sizes in the shapes below:

    B    sequences            T, Tq   new tokens, queries   D    d_model
    H    heads                Tk      keys, past first      Dh   d_head
    Hkv  key/value heads      S       source tokens         Dv   d_value
    V    vocab_size           P       max_positions         F    d_ff

Sources:

    [TR]    Vaswani et al. 2017, Attention Is All You Need, arXiv 1706.03762
    [LN]    Ba et al. 2016, Layer Normalization, arXiv 1607.06450
    [RMS]   Zhang and Sennrich 2019, Root Mean Square Layer Normalization,
            arXiv 1910.07467
    [PRE]   Xiong et al. 2020, On Layer Normalization in the Transformer
            Architecture, arXiv 2002.04745
    [GELU]  Hendrycks and Gimpel 2016, Gaussian Error Linear Units, arXiv 1606.08415
    [GLU]   Shazeer 2020, GLU Variants Improve Transformer, arXiv 2002.05202
    [ROPE]  Su et al. 2021, RoFormer, arXiv 2104.09864
    [GQA]   Ainslie et al. 2023, GQA, arXiv 2305.13245
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

framework = "numpy"
dtype = ["float32", "float64"]
variant = ["minimal", "gpt2", "llama", "vaswani"]
fully_masked = "zero"  # a query that may read no key gets an output of zeros

Array = NDArray[Any]
Params = Mapping[str, Array]
Tap = Callable[[str, Array], None]
Past = tuple[Array, Array]  # one layer's keys [B, Hkv, Tk, Dh], values [B, Hkv, Tk, Dv]
Cache = list[Past]  # one for each (decoder) layer


class Config(Protocol):
    """The sizes of a model and the free choices of its variant."""

    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value: int
    d_ff: int
    vocab_size: int
    max_positions: int

    structure: str  # decoder | encoder_decoder
    norm: str  # layer_norm | rms_norm
    norm_placement: str  # pre | post
    norm_eps: float
    norm_bias: bool
    final_norm: bool
    position: str  # none | rope | learned | sinusoidal
    rope_theta: float
    rope_layout: str  # half | interleaved
    ffn: str  # relu | gelu | gelu_tanh | swiglu
    bias: str  # none | qkv | all
    causal: bool
    tie_embeddings: bool
    embed_scale: float | str  # 1, sqrt(D), or the word "sqrt(D)"


# ------------------------------------------------------------------ operations


def softmax(x: Array, axis: int) -> Array:
    """exp(x) / sum(exp(x)) along ``axis``; x has any shape, the result the same.

    The maximum is subtracted first. The factor exp(-max) cancels in the quotient,
    so the result is unchanged, and no exponential exceeds 1.
    """
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    distribution: Array = exponentials / exponentials.sum(axis=axis, keepdims=True)
    return distribution


def layer_norm(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    """Standardise the features of each position, then scale and shift.

    x [B, T, D], weight and bias [D]; returns [B, T, D]. [LN] section 3, eq. 3-4;
    the variance is the population's (divided by D), and eps is inside the root.
    """
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    standardised: Array = centred / np.sqrt(variance + eps)
    return standardised * weight + bias


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Divide the features of each position by their root mean square, then scale.

    x [B, T, D], weight [D]; returns [B, T, D]. [RMS] section 4, eq. 4: no mean is
    subtracted and nothing is added.
    """
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    scaled: Array = x / np.sqrt(mean_square + eps)
    return scaled * weight


def rope(x: Array, positions: Array, theta: float, layout: str = "half") -> Array:
    """Rotate pairs of features by an angle proportional to the position.

    x [B, H, T, Dh], positions int [T] or [B, T]; returns [B, H, T, Dh]. Pair i
    turns by position * theta^(-2i/Dh), [ROPE] section 3.2.2, eq. 15. Its two
    features are i and i + Dh/2 (layout "half") or 2i and 2i + 1 ("interleaved", as
    in the paper); every feature stays in its place.
    """
    d_head = x.shape[-1]
    frequency = theta ** (-2.0 * np.arange(d_head // 2) / d_head)  # [Dh/2], float64
    # In float32 the product would be off by 1e-4 radians at position 2000, so the
    # angles are float64 and only their sines and cosines are rounded to x's dtype.
    angle = np.asarray(positions)[..., np.newaxis] * frequency  # [(B,) T, Dh/2]
    if angle.ndim == 3:
        angle = angle[:, np.newaxis]  # [B, 1, T, Dh/2]: the same for every head
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)

    half = d_head // 2
    first, second = (
        (np.s_[..., :half], np.s_[..., half:]) if layout == "half" else (np.s_[..., 0::2], np.s_[..., 1::2])
    )
    a, b = x[first], x[second]
    rotated = np.empty_like(x)
    rotated[first] = a * cos - b * sin
    rotated[second] = a * sin + b * cos
    return rotated


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, is_causal: bool = False
) -> tuple[Array, Array]:
    """Scaled dot-product attention, [TR] section 3.2.1, eq. 1.

    q [B, H, Tq, Dh], k [B, Hkv, Tk, Dh], v [B, Hkv, Tk, Dv]; mask bool
    [B or 1, H or 1, Tq, Tk], True where the query may read the key. Returns the
    output [B, H, Tq, Dv] and the weights [B, H, Tq, Tk].
    """
    n_queries, n_keys = q.shape[2], k.shape[2]
    visible = visible_keys(n_queries, n_keys, is_causal)
    if mask is not None:
        visible = visible & mask
    return mix_values(q, k, v, visible, no_tap)


def ffn(x: Array, w_1: Array, b_1: Array, w_2: Array, b_2: Array) -> Array:
    """max(0, x W1 + b1) W2 + b2 at each position, [TR] section 3.3, eq. 2.

    x [B, T, D], w_1 [D, F], b_1 [F], w_2 [F, D], b_2 [D]; returns [B, T, D].
    """
    hidden = relu(x @ w_1 + b_1)
    out: Array = hidden @ w_2 + b_2
    return out


def swiglu(x: Array, w_gate: Array, w_up: Array, w_down: Array) -> Array:
    """(silu(x Wgate) * (x Wup)) Wdown at each position, [GLU] section 2, eq. 6.

    x [B, T, D], w_gate and w_up [D, F], w_down [F, D]; returns [B, T, D].
    """
    hidden = silu(x @ w_gate) * (x @ w_up)
    out: Array = hidden @ w_down
    return out


# ----------------------------------------------------------- element by element


def relu(x: Array) -> Array:
    """max(x, 0), any shape."""
    positive_part: Array = np.maximum(x, 0)
    return positive_part


def gelu(x: Array) -> Array:
    """Weight x by the normal distribution's cumulative function, [GELU] section 2.

    Any shape. This is the erf form, x/2 (1 + erf(x/sqrt(2))); written with
    erfc(-x/sqrt(2)) it does not cancel where x is very negative.
    """
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    probability: Array = 0.5 * erfc(x * -math.sqrt(0.5)).astype(x.dtype)
    return x * probability


def gelu_tanh(x: Array) -> Array:
    """The approximation of gelu by tanh, [GELU] section 2; any shape."""
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + np.tanh(inner))


def silu(x: Array) -> Array:
    """Weight x by its sigmoid: x * sigmoid(x), any shape.

    1/(1 + exp(-x)) overflows for very negative x; exp(-|x|) never does, and it is
    the sigmoid's numerator where x is negative.
    """
    decay = np.exp(-np.abs(x))
    return x * np.where(x >= 0, 1.0, decay) / (1.0 + decay)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}


# --------------------------------------------------------- positions and masks


def sinusoid(positions: Array, d_model: int) -> Array:
    """Sinusoidal position encoding, [TR] section 3.5.

    positions int [T] or [B, T]; returns float64 [(B,) T, D]: feature 2i holds
    sin(position / 10000^(2i/D)) and feature 2i + 1 the cosine of the same angle.
    """
    feature = np.arange(d_model)
    frequency = 10000.0 ** (-2.0 * (feature // 2) / d_model)
    angle = np.asarray(positions)[..., np.newaxis] * frequency
    return np.where(feature % 2 == 0, np.sin(angle), np.cos(angle))


def token_positions(n_queries: int, n_past: int, attention_mask: Array | None) -> Array:
    """The positions of the new tokens: int [Tq], or [B, Tq] with a mask [B, Tk].

    A token's position is the number of real tokens before it, so padding on the
    left shifts nothing. The padding itself stands at position 0.
    """
    if attention_mask is None:
        return np.arange(n_past, n_past + n_queries)
    tokens_before = np.cumsum(attention_mask, axis=1) - 1  # -1 at leading padding
    positions: Array = np.maximum(tokens_before, 0)
    return positions[:, n_past:]


def visible_keys(n_queries: int, n_keys: int, causal: bool, attention_mask: Array | None = None) -> Array:
    """Which query may read which key: bool [B or 1, 1, Tq, Tk].

    The queries are the last Tq of the Tk tokens, so query i stands at i + (Tk - Tq):
    under a causal mask the last query sees every key, whatever the cache holds.
    ``attention_mask`` (bool [B, Tk]) hides keys that are padding.
    """
    visible = np.ones((1, 1, n_queries, n_keys), dtype=bool)
    if causal:
        query, key = np.arange(n_queries)[:, np.newaxis], np.arange(n_keys)
        visible = visible & (key <= query + (n_keys - n_queries))
    if attention_mask is not None:
        visible = visible & attention_mask.astype(bool)[:, np.newaxis, np.newaxis, :]
    return visible


# ------------------------------------------------------------------- attention


def split_heads(x: Array, n_heads: int) -> Array:
    """[B, T, H * Dh] -> [B, H, T, Dh]; head h owns features h*Dh to (h+1)*Dh."""
    n_batch, n_tokens, width = x.shape
    by_head = x.reshape(n_batch, n_tokens, n_heads, width // n_heads)
    return by_head.transpose(0, 2, 1, 3)


def merge_heads(z: Array) -> Array:
    """[B, H, T, Dv] -> [B, T, H * Dv], the heads side by side."""
    n_batch, n_heads, n_tokens, d_value = z.shape
    return z.transpose(0, 2, 1, 3).reshape(n_batch, n_tokens, n_heads * d_value)


def mix_values(q: Array, keys: Array, values: Array, visible: Array, tap: Tap) -> tuple[Array, Array]:
    """softmax(q keys^T / sqrt(Dh)) values over the visible keys, [TR] eq. 1.

    q [B, H, Tq, Dh], keys [B, Hkv, Tk, Dh], values [B, Hkv, Tk, Dv], visible bool
    [B or 1, H or 1, Tq, Tk]; returns z [B, H, Tq, Dv] and weights [B, H, Tq, Tk].
    """
    # H / Hkv neighbouring query heads share one key/value head, [GQA] section 2.2.
    queries_per_kv_head = q.shape[1] // keys.shape[1]
    keys = np.repeat(keys, queries_per_kv_head, axis=1)
    values = np.repeat(values, queries_per_kv_head, axis=1)

    scores = q @ keys.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    tap("scores", scores)
    masked_scores = np.where(visible, scores, -np.inf)
    tap("masked_scores", masked_scores)

    # A row without a visible key is -inf throughout: there is no distribution, and
    # softmax would compute -inf - (-inf) = NaN. Such a query reads nothing: zeros.
    reads_something = visible.any(axis=-1, keepdims=True)
    distribution = softmax(np.where(reads_something, masked_scores, 0.0), axis=-1)
    weights = np.where(reads_something, distribution, 0.0)
    tap("weights", weights)

    z = weights @ values
    tap("z", z)
    return z, weights


def project_and_attend(
    x: Array,
    params: Params,
    config: Config,
    *,
    context: Array | None,
    visible: Array,
    positions: Array,
    past: Past | None,
    tap: Tap,
) -> tuple[Array, Past]:
    """Multi-head attention, [TR] section 3.2.2, after the tokens of ``past``.

    x [B, Tq, D]; context [B, S, D] for cross-attention, None for self-attention;
    visible bool [B or 1, 1, Tq, Tk]; positions int [Tq] or [B, Tq]. Returns the
    output [B, Tq, D] and the keys and values that it read.
    """
    source = x if context is None else context
    q = x @ params["w_q"] + params.get("b_q", 0)
    k = source @ params["w_k"] + params.get("b_k", 0)
    v = source @ params["w_v"] + params.get("b_v", 0)
    q = split_heads(q, config.n_heads)
    k = split_heads(k, config.n_kv_heads)
    v = split_heads(v, config.n_kv_heads)
    tap("q", q)
    tap("k", k)
    tap("v", v)

    # Positions of two sequences cannot be compared: cross-attention has no RoPE.
    if config.position == "rope" and context is None:
        q = rope(q, positions, config.rope_theta, config.rope_layout)
        k = rope(k, positions, config.rope_theta, config.rope_layout)
        tap("q_rot", q)
        tap("k_rot", k)

    # Past keys were rotated by their own positions when they were new.
    keys = k if past is None else np.concatenate([past[0], k], axis=2)
    values = v if past is None else np.concatenate([past[1], v], axis=2)
    tap("keys", keys)
    tap("values", values)

    z, _ = mix_values(q, keys, values, visible, tap)
    concat = merge_heads(z)
    tap("concat", concat)
    attn_out = concat @ params["w_o"] + params.get("b_o", 0)
    tap("attn_out", attn_out)
    return attn_out, (keys, values)


def multi_head_attention(
    x: Array,
    params: Params,
    config: Config,
    context: Array | None = None,
    attention_mask: Array | None = None,
    positions: Array | None = None,
    tap: Tap | None = None,
) -> Array:
    """Self-attention of x, or cross-attention from x to ``context``.

    x [B, T, D], context [B, S, D], attention_mask bool [B, T], positions int [T] or
    [B, T], params ``w_q .. b_o``; returns [B, T, D]. Every query reads the whole of
    a context.
    """
    n_tokens = x.shape[1]
    if context is None:
        visible = visible_keys(n_tokens, n_tokens, config.causal, attention_mask)
    else:
        visible = visible_keys(n_tokens, context.shape[1], causal=False)
    if positions is None:
        positions = token_positions(n_tokens, 0, attention_mask)
    attn_out, _ = project_and_attend(
        x,
        params,
        config,
        context=context,
        visible=visible,
        positions=positions,
        past=None,
        tap=tap or no_tap,
    )
    return attn_out


# ------------------------------------------------------------------- the layer


def norm(x: Array, params: Params, config: Config) -> Array:
    """The variant's norm. x [B, T, D], params ``weight`` and perhaps ``bias`` [D]."""
    weight = params["weight"]
    if config.norm == "rms_norm":
        return rms_norm(x, weight, config.norm_eps)
    bias = params.get("bias", np.zeros_like(weight))
    return layer_norm(x, weight, bias, config.norm_eps)


def feed_forward(x: Array, params: Params, config: Config, tap: Tap) -> Array:
    """The variant's FFN, as ``ffn`` and ``swiglu``, with its taps. [B, T, D] both."""
    if config.ffn == "swiglu":
        gate, up = x @ params["w_gate"], x @ params["w_up"]
        tap("ffn_gate", gate)
        tap("ffn_up", up)
        hidden = silu(gate) * up
        tap("ffn_hidden", hidden)
        ffn_out: Array = hidden @ params["w_down"]
    else:
        pre = x @ params["w_1"] + params.get("b_1", 0)
        tap("ffn_pre", pre)
        hidden = ACTIVATIONS[config.ffn](pre)
        tap("ffn_hidden", hidden)
        ffn_out = hidden @ params["w_2"] + params.get("b_2", 0)
    tap("ffn_out", ffn_out)
    return ffn_out


def layer(
    x: Array,
    params: Params,
    config: Config,
    *,
    memory: Array | None,
    visible: Array,
    positions: Array,
    past: Past | None,
    tap: Tap,
) -> tuple[Array, Past]:
    """One layer: attention, cross-attention where there is a memory, FFN.

    x [B, T, D], memory [B, S, D] or None; returns y [B, T, D] and the keys and values
    of the self-attention. Each sub-layer f adds to the residual stream h: pre-norm
    h + f(Norm(h)), post-norm Norm(h + f(h)); [TR] section 3.1, [PRE] figure 1.
    """
    pre_norm = config.norm_placement == "pre"

    def read(stream: Array, name: str) -> Array:
        """What a sub-layer reads of the residual stream."""
        if not pre_norm:
            return stream
        normed = norm(stream, under(name, params), config)
        tap(name, normed)
        return normed

    def add(stream: Array, out: Array, name: str) -> Array:
        """The residual stream after a sub-layer's output is added."""
        total = stream + out
        return total if pre_norm else norm(total, under(name, params), config)

    tap("x", x)
    attn_out, keys_and_values = project_and_attend(
        read(x, "norm1"),
        under("attention", params),
        config,
        context=None,
        visible=visible,
        positions=positions,
        past=past,
        tap=tap,
    )
    u = add(x, attn_out, "norm1")
    tap("u", u)

    stream, ffn_norm = u, "norm2"
    if memory is not None:
        cross_out, _ = project_and_attend(
            read(u, "norm2"),
            under("cross_attention", params),
            config,
            context=memory,
            visible=visible_keys(x.shape[1], memory.shape[1], causal=False),
            positions=positions,
            past=None,
            tap=prefixed("cross_attention", tap),
        )
        c = add(u, cross_out, "norm2")
        tap("c", c)
        stream, ffn_norm = c, "norm3"

    ffn_out = feed_forward(read(stream, ffn_norm), under("ffn", params), config, tap)
    y = add(stream, ffn_out, ffn_norm)
    tap("y", y)
    return y, keys_and_values


def block(
    x: Array,
    params: Params,
    config: Config,
    context: Array | None = None,
    attention_mask: Array | None = None,
    positions: Array | None = None,
    tap: Tap | None = None,
) -> Array:
    """One layer without a cache; with a context, the layer of a decoder that reads it.

    x [B, T, D], context [B, S, D], attention_mask bool [B, T], positions int [T] or
    [B, T], params ``norm1.weight``, ``attention.w_q`` ..; returns [B, T, D].
    """
    n_tokens = x.shape[1]
    if positions is None:
        positions = token_positions(n_tokens, 0, attention_mask)
    y, _ = layer(
        x,
        params,
        config,
        memory=context,
        visible=visible_keys(n_tokens, n_tokens, config.causal, attention_mask),
        positions=positions,
        past=None,
        tap=tap or no_tap,
    )
    return y


# ------------------------------------------------------------------- the model


class Model:
    """A Transformer: embedding, layers, final norm, projection to the vocabulary.

    ``params`` are named as by :func:`parameter_shapes`, all of one dtype.
    """

    def __init__(self, config: Config, params: Params) -> None:
        """Keep the configuration and the parameters as they are."""
        self.config = config
        self.params = params

    def forward(
        self,
        tokens: Array,
        attention_mask: Array | None = None,
        positions: Array | None = None,
        source: Array | None = None,
        cache: Cache | None = None,
        tap: Tap | None = None,
    ) -> tuple[Array, Cache]:
        """The logits of the new tokens, and the cache for the call that follows.

        tokens int64 [B, T], only those that the cache does not hold; attention_mask
        bool [B, Tk], past included; positions int [T] or [B, T]; source int64 [B, S]
        with every call of an encoder-decoder. Returns logits [B, T, V]: those at
        position t score the token at t + 1.
        """
        config, tap = self.config, tap or no_tap
        n_tokens = tokens.shape[1]
        n_past = 0 if cache is None else cache[0][0].shape[2]
        if positions is None:
            positions = token_positions(n_tokens, n_past, attention_mask)
        visible = visible_keys(n_tokens, n_past + n_tokens, config.causal, attention_mask)
        memory, stack = None, "layers"
        if config.structure == "encoder_decoder":
            assert source is not None, "an encoder-decoder needs a source"
            memory, stack = self.encode(source, tap), "decoder.layers"

        h = self.embed(tokens, positions)
        new_cache: Cache = []
        for n in range(config.n_layers):
            h, keys_and_values = layer(
                h,
                under(f"{stack}.{n}", self.params),
                config,
                memory=memory,
                visible=visible,
                positions=positions,
                past=None if cache is None else cache[n],
                tap=prefixed(f"{stack}.{n}", tap),
            )
            new_cache.append(keys_and_values)

        if config.final_norm:
            h = norm(h, under("final_norm", self.params), config)
            tap("final", h)
        tied = config.tie_embeddings
        logits = h @ (self.params["embed"].T if tied else self.params["lm_head"])
        tap("logits", logits)
        return logits, new_cache

    def encode(self, source: Array, tap: Tap) -> Array:
        """The encoder's output [B, S, D] for source [B, S]: every token sees all."""
        n_tokens = source.shape[1]
        positions = token_positions(n_tokens, 0, None)
        h = self.embed(source, positions)
        for n in range(self.config.n_layers):
            h, _ = layer(
                h,
                under(f"encoder.layers.{n}", self.params),
                self.config,
                memory=None,
                visible=visible_keys(n_tokens, n_tokens, causal=False),
                positions=positions,
                past=None,
                tap=prefixed(f"encoder.layers.{n}", tap),
            )
        return h

    def embed(self, tokens: Array, positions: Array) -> Array:
        """Token embedding, scaled, plus position encoding: [B, T] -> [B, T, D].

        [TR] sections 3.4 (the scale) and 3.5. RoPE adds nothing here: it acts on the
        queries and keys of every layer.
        """
        config, table = self.config, self.params["embed"]
        scale = config.embed_scale
        if scale == "sqrt(D)":
            scale = math.sqrt(config.d_model)
        h = table[tokens] * float(scale)
        if config.position == "learned":
            h = h + self.params["position_embed"][positions]
        elif config.position == "sinusoidal":
            h = h + sinusoid(positions, config.d_model).astype(h.dtype)
        return h


# -------------------------------------------------------------- names and taps


def parameter_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The name and the shape of every parameter that a model of ``config`` has."""
    d_model, n_heads, n_kv_heads = config.d_model, config.n_heads, config.n_kv_heads
    shapes: dict[str, tuple[int, ...]] = {"embed": (config.vocab_size, d_model)}

    def add_norm(name: str) -> None:
        shapes[f"{name}.weight"] = (d_model,)
        if config.norm == "layer_norm" and config.norm_bias:
            shapes[f"{name}.bias"] = (d_model,)

    def add_attention(name: str) -> None:
        shapes[f"{name}.w_q"] = (d_model, n_heads * config.d_head)
        shapes[f"{name}.w_k"] = (d_model, n_kv_heads * config.d_head)
        shapes[f"{name}.w_v"] = (d_model, n_kv_heads * config.d_value)
        shapes[f"{name}.w_o"] = (n_heads * config.d_value, d_model)
        biased = {"none": "", "qkv": "qkv", "all": "qkvo"}[config.bias]
        for letter in biased:  # a bias is as wide as its matrix's output
            shapes[f"{name}.b_{letter}"] = shapes[f"{name}.w_{letter}"][1:]

    def add_ffn(name: str) -> None:
        if config.ffn == "swiglu":
            shapes[f"{name}.w_gate"] = (d_model, config.d_ff)
            shapes[f"{name}.w_up"] = (d_model, config.d_ff)
            shapes[f"{name}.w_down"] = (config.d_ff, d_model)
            return
        shapes[f"{name}.w_1"] = (d_model, config.d_ff)
        shapes[f"{name}.w_2"] = (config.d_ff, d_model)
        if config.bias == "all":
            shapes[f"{name}.b_1"] = (config.d_ff,)
            shapes[f"{name}.b_2"] = (d_model,)

    if config.position == "learned":
        shapes["position_embed"] = (config.max_positions, d_model)
    two_stacks = config.structure == "encoder_decoder"
    for stack in ["encoder.layers", "decoder.layers"] if two_stacks else ["layers"]:
        for n in range(config.n_layers):
            add_norm(f"{stack}.{n}.norm1")
            add_attention(f"{stack}.{n}.attention")
            add_norm(f"{stack}.{n}.norm2")
            if stack == "decoder.layers":
                add_attention(f"{stack}.{n}.cross_attention")
                add_norm(f"{stack}.{n}.norm3")
            add_ffn(f"{stack}.{n}.ffn")
    if config.final_norm:
        add_norm("final_norm")
    if not config.tie_embeddings:
        shapes["lm_head"] = (d_model, config.vocab_size)
    return shapes


def under(prefix: str, params: Params) -> dict[str, Array]:
    """The parameters whose names begin with ``prefix.``, without it."""
    start = prefix + "."
    return {name[len(start) :]: value for name, value in params.items() if name.startswith(start)}


def no_tap(name: str, tensor: Array) -> None:
    """A tap that nobody listens to."""


def prefixed(prefix: str, tap: Tap) -> Tap:
    """A tap that puts ``prefix.`` before every name."""
    return lambda name, tensor: tap(f"{prefix}.{name}", tensor)
