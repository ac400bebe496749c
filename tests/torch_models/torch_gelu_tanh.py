"""The FFN with torch.nn.functional.gelu, approximate = "tanh"."""

from torch.nn import functional

framework = "torch"
dtype = ["float32", "float64", "bfloat16", "float16"]
variant = {"base": "minimal", "ffn": "gelu_tanh"}


def ffn(x, w_1, b_1, w_2, b_2):
    return functional.linear(
        functional.gelu(functional.linear(x, w_1.T, b_1), approximate="tanh"), w_2.T, b_2
    )
