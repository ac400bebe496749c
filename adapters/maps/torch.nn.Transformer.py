"""What `torch.nn.Transformer` leaves to its user: embeddings with sinusoids, and the projection to the vocabulary."""

import torch
from module_map import ModuleMap
from torch.nn import functional


class Embedded(ModuleMap):
    """Tokens in, logits out."""

    def arguments(self, held, inputs, config):
        """Both sides embedded; the target's mask."""
        given = super().arguments(held, inputs, config)
        source = given.pop("src")
        positions = given.pop("positions", None)
        counted = torch.arange(inputs.length) if positions is None else positions
        given["src"] = self.vectors(held, source, torch.arange(source.shape[1]), config)
        given["tgt"] = self.vectors(held, inputs.given["tokens"], counted, config)
        return given

    def output(self, result, inputs):
        """Logits by the same matrix that embeds."""
        return functional.linear(result, self.embed)

    def vectors(self, held, tokens, positions, config):
        """Rows of the embedding, scaled, plus sines at even and cosines at odd features."""
        self.embed = held.params["embed"]
        width = config["d_model"]
        feature = torch.arange(width)
        rate = 10000.0 ** (-(feature - feature % 2).double() / width)
        angle = positions[..., None] * rate
        waves = torch.where(feature % 2 == 0, angle.sin(), angle.cos())
        return functional.embedding(tokens, self.embed) * config["embed_scale"] + waves.to(self.embed.dtype)
