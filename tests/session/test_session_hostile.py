"""Submissions that interfere with the worker: by accident for the most part."""

import numpy as np
import pytest
from session_helpers import X, rms_norm, softmax

from conformance.session import Crashed, Returned

GARBLED = "sent something that is not an answer"
FORGERY = """
import os, struct
def every_socket():
    for fd in range(3, 64):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                yield fd
        except OSError:
            pass
def frame(kind, nonce, text, raw=b""):
    return struct.pack("<4sHH16sIQ", b"TCWK", 1, kind, nonce, len(text), len(raw)) + text + raw
def rms_norm(x, weight, eps):
    return x
def softmax(x, axis):
    for fd in every_socket():
        os.write(fd, %s)
    return x
"""


@pytest.mark.parametrize(
    "data",
    [
        "b'junk' * 100",
        "b'x'",
        'frame(6, bytes(16), b\'{"is": "returned", "outputs": []}\')',
        "frame(6, bytes(16), b'[' * 100_000)",
        "frame(6, bytes(16), b'{}' + b' ' * 70_000)",
        "struct.pack('<4sHH16sIQ', b'TCWK', 1, 6, bytes(16), 1 << 31, 1 << 62)",
        "struct.pack('<4sHH16sIQ', b'TCWK', 1, 6, bytes(16), 2, 1 << 40) + b'{}'",
    ],
)
def test_bytes_on_the_socket_are_not_taken_for_an_answer(submit, data):
    session = submit(FORGERY % data)
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Crashed), outcome
    assert GARBLED in outcome.how
    assert isinstance(session.call(rms_norm(), "float32"), Returned)
    assert session.starts == 2


def test_an_answer_that_was_prepared_does_not_fit_the_next_request(submit):
    """The frame after the answer: a thread writes one while the parent is not looking."""
    session = submit(
        FORGERY % "b''"
        + """
import threading, time
def later():
    time.sleep(0.2)
    for fd in every_socket():
        os.write(fd, frame(6, bytes(16), b'{"is": "not_offered", "reason": "forged", "seconds": 0}'))
def rms_norm(x, weight, eps):
    threading.Thread(target=later).start()
    return x
"""
    )
    import time

    assert isinstance(session.call(rms_norm(), "float32"), Returned)
    time.sleep(0.5)
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Returned)  # made once more, in a fresh process
    assert session.starts == 2


def forged_answer(answer: str) -> str:
    """A worker whose own answers are replaced, with the nonce that is expected."""
    return f"""
import sys
from _conformance_worker import main
def softmax(x, axis):
    return x
def rms_norm(x, weight, eps):
    return x
class Answer:
    def __init__(self, meta, arrays): self.meta, self.arrays = meta, arrays
def call(self, request, arrays):
    if request["function"] == "softmax":
        return Answer({answer}, [])
    return original(self, request, arrays)
original, main.Invoker.call = main.Invoker.call, call
"""


T = '["output", "float32", "<f4", %s]'
RETURNED = '{"is": "returned", "outputs": [{"tensors": [%s], "taps": [], "modified": [], "notes": []}]}'


@pytest.mark.parametrize(
    "answer",
    [
        "None",
        "[]",
        "{}",
        '{"is": "passed"}',
        '{"is": "returned"}',
        '{"is": "returned", "outputs": []}',
        '{"is": "returned", "outputs": [1]}',
        RETURNED % "",
        RETURNED % "3",
        RETURNED % (T % "[-1, 4]"),
        RETURNED % (T % "[1.5]"),
        RETURNED % (T % "[True]"),
        RETURNED % (T % "'12'"),
        RETURNED % (T % "[0] * 40"),
        RETURNED % '["output", "float32", "object", [2]]',
        RETURNED % '["output", "float32", "<i8", [2]]',
        RETURNED % '[3, "float32", "<f4", [2]]',
        (RETURNED % (T % "[2]")).replace('"modified": []', '"modified": [3]'),
        '{"is": "raised", "type": 3}',
        '{"is": "raised", "type": "E", "message": "m", "line": "7"}',
        '{"is": "unusable"}',
        '{"is": "not_offered"}',
    ],
)
def test_an_answer_of_the_wrong_form_is_none(submit, answer):
    session = submit(forged_answer(answer))
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Crashed), outcome
    assert GARBLED in outcome.how
    assert isinstance(session.call(rms_norm(), "float32"), Returned)


@pytest.mark.parametrize("seconds", ["-1.0", "float('nan')", "'x'", "None", "[]"])
def test_the_time_that_a_worker_tells_is_not_believed_blindly(submit, seconds):
    answer = f'{{"is": "not_offered", "reason": "r", "seconds": {seconds}}}'
    session = submit(forged_answer(answer))
    assert session.call(softmax(), "float32").seconds == 0


REPLACED = """
import builtins, io, json, os, socket, struct, sys, time, types
def nothing(*a, **k): raise RuntimeError("replaced")
def spoil():
    for module in (json, os, struct, socket, time):
        for name in list(vars(module)):
            if callable(getattr(module, name)) and not name.startswith("__"):
                setattr(module, name, nothing)
    for name in ("array", "asarray", "ndarray", "array_equal", "empty", "dtype", "ascontiguousarray"):
        setattr(np, name, nothing)
    sys.stdout = sys.stderr = None
    builtins.print = nothing
def rms_norm(x, weight, eps):
    return x
"""


def test_a_submission_may_replace_what_is_in_modules(submit):
    session = submit(REPLACED + "\ndef softmax(x, axis):\n    spoil()\n    return x * 2")
    for repetition in range(2):
        outcome = session.call(softmax(repetition), "float32")
        assert isinstance(outcome, Returned), outcome
        np.testing.assert_array_equal(outcome.outputs[0].tensors["output"], X * 2)
    assert session.starts == 1


def test_even_while_it_is_imported(submit):
    session = submit(REPLACED + "\ndef softmax(x, axis):\n    return x * 2\nspoil()")
    assert isinstance(session.call(softmax(), "float32"), Returned)


@pytest.mark.parametrize(
    "stream",
    [
        "sys.stdout.close()",
        "sys.stdout = 3",
        "os.closerange(1, 3)",
        "os.dup2(0, 1)",
        "vars(sys).pop('stdout', 0)",
    ],
)
def test_a_submission_may_lose_its_streams(submit, stream):
    session = submit(
        f"""
        import os, sys
        def softmax(x, axis):
            {stream}
            return x
        """
    )
    for repetition in range(3):
        assert isinstance(session.call(softmax(repetition), "float32"), Returned)
    assert session.starts == 1


def test_nothing_that_is_printed_is_taken_for_an_answer(submit):
    session = submit(
        """
        import os
        def softmax(x, axis):
            text = b'{"is": "returned", "outputs": []}'
            os.write(1, b"TCWK" + bytes(32) + text)
            print("all claims passed")
            return "no array"
        """
    )
    outcome = session.call(softmax(), "float32")
    assert outcome.got == "a str"
    assert "all claims passed" in outcome.printed
