"""What the arguments of modules are called, by what they mean; and the sizes of a first run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .roles import Sizes

SIZES = Sizes(vocab=61, width=24, hidden=44, positions=38)
LAYERS, HEADS = 2, 4
FIELDS: Mapping[str, Sequence[str]] = {
    "vocab_size": (
        "vocab_size",
        "vocab",
        "n_vocab",
        "num_embeddings",
        "num_tokens",
        "n_tokens",
        "vocabulary_size",
    ),
    "d_model": (
        "d_model",
        "n_embd",
        "dim",
        "hidden_size",
        "embed_dim",
        "emb_dim",
        "d_embed",
        "model_dim",
        "embedding_dim",
    ),
    "n_layers": (
        "n_layer",
        "n_layers",
        "num_layers",
        "depth",
        "num_hidden_layers",
        "layers",
        "n_blocks",
        "num_blocks",
    ),
    "n_heads": ("n_head", "n_heads", "num_heads", "heads", "nhead", "num_attention_heads"),
    "n_kv_heads": (
        "n_kv_head",
        "n_kv_heads",
        "num_kv_heads",
        "kv_heads",
        "num_key_value_heads",
        "n_query_groups",
    ),
    "d_head": ("d_head", "head_dim", "dim_head", "head_size", "width"),
    "d_ff": (
        "d_ff",
        "hidden_dim",
        "intermediate_size",
        "ffn_dim",
        "dim_feedforward",
        "mlp_dim",
        "n_inner",
        "hidden",
        "ff_dim",
        "d_hidden",
        "inner_dim",
    ),
    "max_positions": (
        "block_size",
        "max_seq_len",
        "max_len",
        "context_length",
        "n_ctx",
        "n_positions",
        "max_position_embeddings",
        "seq_len",
        "max_sequence_length",
        "context_size",
        "ctx_len",
        "max_seq_length",
    ),
    "norm_eps": ("norm_eps", "eps", "layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon"),
    "rope_theta": ("rope_theta", "theta", "rope_base", "base"),
}
VALUES = {
    "vocab_size": SIZES.vocab,
    "d_model": SIZES.width,
    "n_layers": LAYERS,
    "n_heads": HEADS,
    "n_kv_heads": HEADS // 2,
    "d_head": SIZES.width // HEADS,
    "d_ff": SIZES.hidden,
    "max_positions": SIZES.positions,
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
OFF = (
    "dropout",
    "drop_rate",
    "drop",
    "attn_pdrop",
    "resid_pdrop",
    "embd_pdrop",
    "attn_dropout",
    "resid_dropout",
    "dropout_p",
    "p_dropout",
)
CONFIGS = ("config", "cfg", "args", "params", "conf", "hparams", "c")
TOKENS = ("tokens", "input_ids", "idx", "x", "ids", "inputs", "input", "tok", "in_indices", "token_ids")
