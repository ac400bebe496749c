"""The FFN with torch.nn.functional.gelu, approximate = "none"."""

from torch.nn import functional as F  # noqa: N812: so everybody calls it

framework = "torch"
dtype = ["float32", "float64", "bfloat16", "float16"]
variant = {"base": "minimal", "ffn": "gelu"}


def ffn(x, w_1, b_1, w_2, b_2):
    return F.linear(F.gelu(F.linear(x, w_1.T, b_1), approximate="none"), w_2.T, b_2)
