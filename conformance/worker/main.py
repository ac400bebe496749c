"""The worker's loop: one request, one answer, until the socket closes.

A request that arrives here is served by the function registered for its kind; others can be added
to `HANDLERS`. A call may ask to be traced (`tracer.py`). An exception that leaves a handler is a fault of this project and is
answered as such (FAULT): whatever the submission raises has been caught before.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import platform
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

from . import limits
from .invoke import Invoker
from .load import Refused, load
from .protocol import (
    ANSWER,
    CALL,
    FAULT,
    HELLO,
    LOAD,
    LOADED,
    MAX_META,
    READY,
    TENSORS,
    WANT,
    Frame,
    Reader,
    cut,
    encode_frame,
    lay_out,
)

LOST = 93  # exit status: the socket is unusable, so nobody can be told
ANY_SIZE = 1 << 62

# Taken now: a submission may replace them in their modules.
_getpid, _exit = os.getpid, os._exit

Reply = tuple[int, Any, Sequence[Any]]


class Worker:
    """State between requests: the loaded target and the arrays announced by the last answer."""

    def __init__(self) -> None:
        self._invoker: Invoker | None = None
        self._announced: list[Any] = []
        self._flush = [stream.flush for stream in (sys.stdout, sys.stderr)]

    def hello(self, frame: Frame) -> Reply:
        """Says which interpreter this is; limits are set when the target is loaded."""
        return (
            READY,
            {"python": platform.python_version(), "numpy": np.__version__, "executable": sys.executable},
            (),
        )

    def load(self, frame: Frame) -> Reply:
        """Sets the limits, imports the target, answers with its offer."""
        meta = frame.meta
        memory = limits.apply(meta["memory_mb"])
        limits.expect_end_within(meta["timeout"])
        try:
            target, offer = load(meta["path"], meta["names"], meta["arguments"], meta["among"])
            self._invoker = Invoker(target, meta["tensor_bytes"])
            offer["versions"] = {
                name: str(getattr(sys.modules.get(name), "__version__", ""))[:50]
                for name in ("torch", "ml_dtypes")
                if name in sys.modules
            }
        except Refused as refused:
            offer = refused.answer
        except MemoryError:
            offer = {"ok": False, "message": "memory ran out", "hint": "allow it more with --memory"}
        limits.expect_end_within(0)
        offer["memory"] = memory
        return LOADED, offer, ()

    def call(self, frame: Frame) -> Reply:
        """Calls the target; the arrays stay here until the parent says which it wants."""
        assert self._invoker is not None
        limits.expect_end_within(frame.meta["timeout"])
        self._announced = []
        try:
            answer = self._invoker.call(frame.meta, cut(frame.meta["arrays"], frame.payload))
        except MemoryError:
            limits.expect_end_within(0)
            return ANSWER, {"is": "memory", "message": "", "seconds": 0.0}, ()
        self._announced = answer.arrays
        limits.expect_end_within(0)
        return ANSWER, answer.meta, ()

    def want(self, frame: Frame) -> Reply:
        """Sends the announced arrays that the parent has chosen."""
        _, parts = lay_out([self._announced[index] for index in frame.meta])
        self._announced = []
        return TENSORS, None, parts

    def flush(self) -> None:
        """What was printed in this call shall be read with it."""
        for flush in self._flush:
            with contextlib.suppress(BaseException):  # closed
                flush()
        for name in ("stdout", "stderr"):
            with contextlib.suppress(BaseException):  # replaced by anything
                getattr(sys, name).flush()


HANDLERS: dict[int, Callable[[Worker, Frame], Reply]] = {
    HELLO: Worker.hello,
    LOAD: Worker.load,
    CALL: Worker.call,
    WANT: Worker.want,
}


def serve(descriptor: int) -> None:
    """Serves requests that arrive on the inherited socket `descriptor`; never returns."""
    os.set_inheritable(descriptor, False)  # children of the submission have no business with it
    connection = socket.socket(fileno=descriptor)
    receive, send = connection.recv_into, connection.sendall  # bound: no look-up of ours can be replaced
    faulthandler.enable()  # a crash shows its line among what was printed
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1)  # and so does a call that is about to be ended
    worker, reader, process = Worker(), Reader(receive), _getpid()
    while True:
        try:
            frame = reader.frame(ANY_SIZE)
        except BaseException:
            _exit(LOST)
        try:
            kind, meta, parts = HANDLERS[frame.kind](worker, frame)
            data = encode_frame(kind, frame.nonce, meta, parts)
        except BaseException:
            text = traceback.format_exc()[-MAX_META // 16 :]
            data = encode_frame(FAULT, frame.nonce, {"traceback": text})
        worker.flush()
        if _getpid() != process:
            _exit(0)  # the submission forked, and its child came back from the call as well
        try:
            send(data)
        except BaseException:
            _exit(LOST)
