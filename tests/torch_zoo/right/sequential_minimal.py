"""The minimal structure out of nn.Sequential and a Residual wrapper; heads in a loop of small modules."""

import functools

import torch
from torch import nn

framework = "torch"
dtype = ["float32", "bfloat16"]
variant = "minimal"


class Residual(nn.Module):
    def __init__(self, *inner):
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x):
        return x + self.inner(x)


class Head(nn.Module):
    """One head: its own columns of W_q, W_k, W_v and rows of W_o."""

    def __init__(self, wq, wk, wv, wo):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = wq, wk, wv, wo

    def forward(self, x):
        q, k, v = x @ self.wq, x @ self.wk, x @ self.wv
        scores = torch.baddbmm(torch.zeros((), dtype=x.dtype), q, k.mT, beta=0, alpha=q.size(-1) ** -0.5)
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        return scores.masked_fill(later, -torch.inf).softmax(2) @ v @ self.wo


class Heads(nn.ModuleList):
    def forward(self, x):
        return functools.reduce(torch.add, (head(x) for head in self))


class Times(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight.T.contiguous(), requires_grad=False)

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


def norm(params, name, eps):
    weight = params[name + ".weight"]
    layer = nn.LayerNorm(weight.shape[0], eps=eps, dtype=weight.dtype)
    layer.weight.copy_(weight)
    layer.bias.copy_(params[name + ".bias"])
    return layer


def layer(params, config):
    pieces = [params["attention.w_" + c].chunk(config.n_heads, dim=1) for c in "qkv"]
    pieces.append(params["attention.w_o"].chunk(config.n_heads, dim=0))
    normed = functools.partial(norm, params, eps=config.norm_eps)
    return nn.Sequential(
        Residual(normed("norm1"), Heads(Head(*parts) for parts in zip(*pieces))),
        Residual(normed("norm2"), Times(params["ffn.w_1"]), nn.ReLU(inplace=True), Times(params["ffn.w_2"])),
    ).eval()


def block(x, params, config):
    return layer(params, config)(x)


class Model(nn.Sequential):
    def __init__(self, config, params):
        layers = []
        for n in range(config.n_layers):
            at = f"layers.{n}."
            layers.append(layer({k[len(at) :]: v for k, v in params.items() if k.startswith(at)}, config))
        super().__init__(
            nn.Embedding.from_pretrained(params["embed"]),
            *layers,
            norm(params, "final_norm", config.norm_eps),
            Times(params["lm_head"]),
        )

    def forward(self, tokens):
        return super().forward(tokens)
