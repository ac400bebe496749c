"""torch.nn.Transformer with padding on the left, as it is: not right.

A padded query sees no key, its row of `torch.nn.MultiheadAttention` is NaN, and in the next layer
it is a value with weight 0: 0 · NaN is NaN at every real token.
"""

import torch_transformer

framework = "torch"
variant = "vaswani"


class Model(torch_transformer.Model):
    def forward(self, tokens, attention_mask=None, positions=None, source=None):
        return self.logits(tokens, source, attention_mask, positions)
