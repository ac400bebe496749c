"""From a call to the JSON and the buffers of the request that asks a worker to make it."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from conformance.session.calls import Call, ModelCall, OperationCall, Request
from conformance.worker import protocol


def ready(call: Call, dtype: str) -> None:
    """Makes the requests for a call, and its digests, ahead: whoever makes it many times, of many submissions, makes them once.

    Raises as `request_of`.
    """
    call.digest()
    for held in (False, True) if isinstance(call, ModelCall) else (False,):
        if (dtype, held) not in call.requests:
            call.requests[dtype, held] = _request(call, dtype, held)


def request_of(call: Call, dtype: str, key: str, held: bool) -> tuple[dict[str, Any], Sequence[Any]]:
    """The request for a call, but for what it may use, and its buffers.

    Args:
        call: what to compute.
        dtype: what its float arrays arrive in.
        key: of a model, the name under which the worker keeps it.
        held: whether the worker has it already; its parameters are then left out.

    Raises:
        TypeError: an argument is no `Value`.
        ValueError: too many of them.
    """
    made, parts = call.requests.get((dtype, held)) or _request(call, dtype, held)
    request = dict(made)
    if isinstance(call, ModelCall):
        request["key"] = key
    return request, parts


def _request(call: Call, dtype: str, held: bool) -> Request:
    floats = "<f8" if dtype == "float64" else "<f4"
    arrays: list[npt.NDArray[Any]] = []
    request: dict[str, Any] = {"dtype": dtype, "tap": call.tap}
    request["config"] = None if call.config is None else protocol.flatten(call.config, arrays, floats)
    if isinstance(call, OperationCall):
        request |= {
            "call": "operation",
            "function": call.function,
            "arguments": protocol.flatten(call.arguments, arrays, floats),
            "optional": sorted(call.optional),
            "returns": call.outputs,
        }
        if call.gradient is not None:
            weights = protocol.flatten({"weights": call.gradient.weights}, arrays, floats)
            request["gradient"] = {"by": call.gradient.by, "weights": weights}
    else:
        request |= {
            "call": "model",
            "params": None if held else protocol.flatten(call.params, arrays, floats),
            "steps": [
                {
                    "inputs": protocol.flatten(step.inputs, arrays, floats),
                    "sequence": step.sequence,
                    "use_cache": step.use_cache,
                }
                for step in call.steps
            ],
        }
    request["arrays"], parts = protocol.lay_out(arrays)
    return request, parts
