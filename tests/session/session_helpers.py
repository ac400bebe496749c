import numpy as np

from conformance.session import ModelCall, OperationCall, Step

X = np.arange(24, dtype=np.float64).reshape(2, 3, 4) / 8
SOFTMAX = """
def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)
"""


def softmax(repetition: int = 0) -> OperationCall:
    return OperationCall("softmax", {"x": X, "axis": -1}, expect={"output": X.shape}, repetition=repetition)


def rms_norm(repetition: int = 0) -> OperationCall:
    arguments = {"x": X, "weight": np.ones(4), "eps": 1e-5}
    return OperationCall("rms_norm", arguments, expect={"output": X.shape}, repetition=repetition)


def softmax_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CONFIG = {"d_model": 4, "vocab_size": 6}
EMBED = np.arange(24, dtype=np.float64).reshape(6, 4) / 16


def tokens(*ids: int) -> Step:
    return Step({"tokens": np.array([ids])})


def model(*steps: Step, **more: object) -> ModelCall:
    return ModelCall(CONFIG, {"embed": EMBED}, steps or (tokens(1, 2, 3),), **more)  # type: ignore[arg-type]
