"""One worker process: requests with a deadline, and how it came to its end.

Everything that arrives is bounded and checked; nothing that the process does can block the parent
beyond the deadline.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.session.capture import Capture
from conformance.session.environment import start
from conformance.worker import protocol

_SLICE = 0.25  # seconds between looks at whether the process is still there
_FAREWELL = 1.0  # seconds that a process has to end by itself once its socket has closed
_LOST = 93  # exit status of a worker whose socket was closed by the submission
GARBLED = "the worker sent something that is not an answer"


class Gone(Exception):
    """The process has ended or answered nonsense; the text says how."""


class Late(Exception):
    """No answer before the deadline. The process has been ended."""


class WorkerProcess:
    """A started worker. Not for use from several threads.

    Attributes:
        calls: number of calls that it has answered.
        held: digests of the models that it keeps, the least recently used first.
        forget: digests that it is to drop at the next model call.
    """

    def __init__(self, python: str, home: Path) -> None:
        """Starts `python`. Raises OSError when that fails."""
        self.calls = 0
        self.held: list[str] = []
        self.forget: list[str] = []
        self._deadline = 0.0
        self._capture = Capture()
        ours, theirs = socket.socketpair()
        try:
            self._process = start(python, theirs.fileno(), self._capture.writing, home)
        except BaseException:
            ours.close()
            self._capture.close()
            raise
        finally:
            theirs.close()
            self._capture.close_writing()
        ours.setblocking(False)
        self._socket = ours
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        self._poll.register(self._capture.reading, select.POLLIN)
        self._reader = protocol.Reader(self._receive_into)
        self.alive = True

    def ask(
        self,
        kind: int,
        meta: Any,
        parts: Sequence[Any] = (),
        *,
        seconds: float | None = None,
        payload: int = 0,
    ) -> protocol.Frame:
        """Sends a request and returns its answer.

        Args:
            kind: of the request; its answer has the next number.
            meta: JSON of the request.
            parts: its buffers.
            seconds: until the deadline; None continues that of the request before.
            payload: exact number of raw bytes to accept in the answer.

        Raises:
            Gone, Late: the process is no more, and has been cleared away.
            EngineFault: the worker reports an error of its own.
        """
        if seconds is not None:
            self._deadline = time.monotonic() + seconds
        nonce = os.urandom(protocol.NONCE_BYTES)
        try:
            self._send(protocol.encode_frame(kind, nonce, meta, parts))
            frame = self._reader.frame(payload)
        except TimeoutError:
            self._ask_where_it_is()
            self.end()
            raise Late from None
        except (EOFError, ConnectionError, BrokenPipeError):
            raise Gone(self._autopsy()) from None
        except protocol.Garbled:
            self.end()
            raise Gone(GARBLED) from None
        if frame.nonce == nonce and frame.kind == protocol.FAULT and isinstance(frame.meta, dict):
            self.end()
            raise EngineFault(str(frame.meta.get("traceback", "")))
        if frame.nonce != nonce or frame.kind != kind + 1 or frame.payload.size != payload:
            self.end()
            raise Gone(GARBLED)
        return frame

    def printed(self) -> str:
        """What the process has printed since the last time, bounded."""
        return self._taken if not self.alive else self._capture.take()

    def end(self) -> None:
        """Kills the process and all that it has started in its group; keeps what it printed."""
        if not self.alive:
            return
        self._kill_group()
        self._process.wait()
        self._taken = self._capture.take()
        self._socket.close()
        self._capture.close()
        self.alive = False

    def _kill_group(self) -> None:
        # The process is not waited for yet, so its number still belongs to its group.
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                self._poll.modify(self._socket, select.POLLOUT)
                try:
                    while not self._wait():
                        if self._has_ended():
                            raise EOFError from None
                finally:
                    self._poll.modify(self._socket, select.POLLIN)

    def _receive_into(self, view: memoryview) -> int:
        while True:
            ready = self._wait()
            if ready or self._has_ended():
                try:
                    return self._socket.recv_into(view)
                except BlockingIOError:
                    if not ready:
                        return 0  # ended, though a child of it still holds the socket

    def _wait(self) -> bool:
        """Waits a little while reading what is printed; True when the socket is ready.

        Raises TimeoutError at the deadline.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        ready = False
        for descriptor, _ in self._poll.poll(min(left, _SLICE) * 1000):
            if descriptor != self._capture.reading:
                ready = True
            elif not self._capture.read() and self._capture.ended:
                self._poll.unregister(descriptor)
        return ready

    def _has_ended(self) -> bool:
        """Whether the process has ended; it stays a zombie, so that its group can still be killed."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13: its number is given up a little early
            return self._process.poll() is not None
        try:
            found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return found is not None

    def _ask_where_it_is(self) -> None:
        """Lets the worker's fault handler print the stack of a call that is about to be ended."""
        try:
            self._process.send_signal(signal.SIGUSR1)
        except OSError:
            return
        end = time.monotonic() + 0.2
        while time.monotonic() < end and not self._has_ended():
            if self._capture.read():
                end = min(end, time.monotonic() + 0.02)
            time.sleep(0.005)

    def _autopsy(self) -> str:
        """How the process ended, in words; it is cleared away."""
        end = time.monotonic() + _FAREWELL
        while not self._has_ended() and time.monotonic() < end:
            self._capture.read()
            time.sleep(0.002)
        by_itself = self._has_ended()
        self.end()
        status = self._process.returncode
        if not by_itself or status == _LOST:
            return "closed the connection to the runner"
        return ended_how(status)


class EngineFault(Exception):
    """The worker's own code failed; the text is its traceback."""


def ended_how(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    hint = " (by the system: often because memory ran out)" if name == "SIGKILL" else ""
    return f"killed by signal {name}{hint}"
