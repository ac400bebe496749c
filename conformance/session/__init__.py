"""The parent's side of a worker: starts it, sends calls, receives outcomes, survives what happens.

with Session(Path("my_adapter.py"), names=["softmax"]) as session:
    offer = session.open()
    outcome = session.call(OperationCall("softmax", {"x": x, "axis": -1}), "float32")
"""

from conformance.session.calls import Call, Gradient, ModelCall, OperationCall, Step, Value
from conformance.session.errors import EngineError, TargetError
from conformance.session.launch import Limits
from conformance.session.outcomes import (
    Crashed,
    NotOffered,
    Offer,
    Outcome,
    Output,
    Raised,
    Returned,
    Signature,
    TimedOut,
    Unusable,
)
from conformance.session.session import Session
from conformance.session.tracing import Record, Trace

__all__ = [
    "Call",
    "Crashed",
    "EngineError",
    "Gradient",
    "Limits",
    "ModelCall",
    "NotOffered",
    "Offer",
    "OperationCall",
    "Outcome",
    "Output",
    "Raised",
    "Record",
    "Returned",
    "Session",
    "Signature",
    "Step",
    "TargetError",
    "TimedOut",
    "Trace",
    "Unusable",
    "Value",
]
