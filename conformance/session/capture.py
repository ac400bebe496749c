"""Text that a worker prints: read so that it never blocks, kept within bounds, parsed by nobody."""

import os
from collections import deque

KEPT = 64 * 1024  # bytes of one call's output: the first half and the last
_CHUNK = 64 * 1024
_ROUNDS = 256  # 16 MiB: a thread that prints without end must not hold us


class Capture:
    """The reading end of a pipe that a worker prints to."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self._start_over()

    def _start_over(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._total = 0

    def read(self) -> bool:
        """Reads what is there, at most 64 KiB. False when there is nothing, or the pipe has ended."""
        try:
            chunk = os.read(self.reading, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            self.ended = True
            return False
        if not chunk:
            self.ended = True
            return False
        self._total += len(chunk)
        room = KEPT // 2 - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail.append(chunk)
            self._tail_size += len(chunk)
            while self._tail_size - len(self._tail[0]) >= KEPT // 2:
                self._tail_size -= len(self._tail.popleft())
        return True

    ended = False  # nobody can print any more

    def take(self) -> str:
        """All that was printed since the last time, and a note in place of what was too much."""
        for _ in range(_ROUNDS):
            if not self.read():
                break
        if not self._total:
            return ""
        tail = b"".join(self._tail)[-(KEPT // 2) :]
        left_out = self._total - len(self._head) - len(tail)
        gap = f"\n… {left_out} bytes left out …\n".encode() if left_out else b""
        text = (bytes(self._head) + gap + tail).decode("utf-8", "replace")
        self._start_over()
        return text

    def close_writing(self) -> None:
        """To be called once the worker has its own copy."""
        os.close(self.writing)

    def close(self) -> None:
        """Stops reading; a process that escaped gets a broken pipe when it prints."""
        os.close(self.reading)
