"""A model that is given vectors, not tokens: its embedding is somebody else's."""

from llama import Body, counted


class Vectors(Body):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        del self.embed
        self.embed = lambda vectors: vectors

    def forward(self, inputs_embeds):
        return self.run(inputs_embeds, counted(inputs_embeds[..., 0], 0), None, None)[0]
