"""The decoder of `x_transformers` within the wrapper that gives it embeddings and logits."""

from module_map import ModuleMap
from x_transformers import TransformerWrapper


class Wrapped(ModuleMap):
    """Puts the built `Decoder` into a `TransformerWrapper`."""

    def build(self, config, dtype):
        """The wrapper, its parameters in `dtype`."""
        decoder = super().build(config, dtype)
        learned = config["position"] == "learned"
        wrapper = TransformerWrapper(
            num_tokens=config["vocab_size"],
            max_seq_len=config["max_positions"] if learned else 4096,
            attn_layers=decoder,
            use_abs_pos_emb=learned,
        )
        for parameter in wrapper.parameters():
            parameter.data = parameter.data.to(dtype)
        return wrapper.eval()
