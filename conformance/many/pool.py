"""Many rows side by side, each in a process of its own: one that crashes, hangs or is stopped costs itself only."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess

from conformance.language.program import Text
from conformance.many.row import STOPPED, Job, Kind, work
from conformance.reports.model import NOTHING

UNREACHED = Text("it was not reached before the interruption", "中断之前尚未轮到它")
GRACE = 5.0
"""Seconds that a row has, after Ctrl-C, to write what it has."""
WORTH = 6
"""Rows still to come from which on it pays to work out beforehand what all of their kind are compared with."""
TICK = 0.5
"""Seconds between two looks at how far the rows are, when none says anything."""


@dataclass
class Row:
    """A job on its way, and how it ended.

    Attributes:
        side: why there is no verdict: 'target' (its fault), 'engine' (the interpreter's), 'report' (its
            folder's), 'fault' (ours), 'death' (of the process that graded it), 'interrupted'; '' where
            there is one.
        message: why there is none.
        traceback: of a fault of ours.
        seconds: from its start to its end.
        fraction: how much of it is done, from 0 to 1.
        unprepared: kinds that it waits for; it is begun again once they are prepared.
    """

    job: Job
    side: str = ""
    message: Text = NOTHING
    traceback: str = ""
    seconds: float = 0.0
    fraction: float = 0.0
    total: int = 0
    ended: bool = False
    unprepared: tuple[Kind, ...] = ()


@dataclass
class Pool:
    """Rows of which `side_by_side` run at a time.

    Attributes:
        finished: called with each row when it has ended.
        watch: called now and then with all rows and those that run.
        prepare: called with a row that waits for what it does.
        interrupted: whether Ctrl-C ended it early.
    """

    side_by_side: int
    finished: Callable[[Row], None] = lambda _: None
    watch: Callable[[Sequence[Row], Sequence[Row]], None] = lambda _all, _running: None
    prepare: Callable[[Row], None] = lambda _: None
    interrupted: bool = False
    _waiting: deque[Row] = field(default_factory=deque)
    _running: dict[Connection, tuple[Row, BaseProcess, float]] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> list[Row]:
        """All rows, in the order of the jobs. On Ctrl-C it returns early; what is not done says so."""
        rows = [Row(job) for job in jobs]
        waiting = self._waiting = deque(rows)
        context = _context()
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self.side_by_side:
                    self._start(waiting.popleft(), context)
                self._listen()
                self.watch(rows, [row for row, _, _ in self._running.values()])
        except KeyboardInterrupt:
            self.interrupted = True
            self._stop()
            for row in waiting:
                row.side, row.message, row.ended = "interrupted", UNREACHED, True
        return rows

    def _start(self, row: Row, context: BaseContext) -> None:
        reading, sending = context.Pipe(duplex=False)
        forked = context.get_start_method() == "fork"
        others = (*self._running, reading) if forked else ()
        ahead = forks() and not row.unprepared and len(self._waiting) >= WORTH
        row.unprepared = ()
        job = replace(row.job, ahead=ahead)
        process = context.Process(target=work, args=(job, sending, others))  # type: ignore[attr-defined]
        process.start()
        sending.close()
        self._running[reading] = (row, process, time.monotonic())

    def _listen(self) -> None:
        for connection in wait(list(self._running), timeout=TICK):
            assert isinstance(connection, Connection)
            row, _, _ = self._running[connection]
            try:
                message = json.loads(connection.recv_bytes(1 << 16))
            except (EOFError, OSError, ValueError):
                self._end(connection)
                continue
            if "total" in message:
                row.total = message["total"]
            elif "done" in message:
                row.fraction = min(message["done"] / max(row.total, 1), 1.0)
            elif "again" in message:
                row.unprepared = tuple((variant, dtype) for variant, dtype in message["again"])
            else:
                answer = message["end"]
                row.side, message = answer.get("side", ""), answer.get("message", "")
                row.message = Text(message, answer.get("zh", message))
                row.traceback = answer.get("traceback", "")
                row.ended = True

    def _end(self, connection: Connection) -> None:
        """A row whose process has closed its pipe: it is done, or it died."""
        row, process, begun = self._running.pop(connection)
        connection.close()
        process.join(GRACE)
        if process.is_alive():
            process.kill()
            process.join()
        if row.unprepared and not row.ended:
            if not self.interrupted:
                self._waiting.appendleft(row)  # first, for Ctrl-C may end what follows
                self.prepare(row)
                return
            row.side, row.message, row.ended = "interrupted", STOPPED, True
        if not row.ended:
            row.side, row.message, row.ended = "death", _death(process.exitcode), True
        row.seconds, row.fraction = time.monotonic() - begun, 1.0
        self.finished(row)

    def _stop(self) -> None:
        """Ends all rows: each is asked to, and has a moment to write its results."""
        for _, process, _ in self._running.values():
            with suppress(OSError):
                if process.pid:
                    os.kill(process.pid, signal.SIGINT)
        deadline = time.monotonic() + GRACE
        with suppress(KeyboardInterrupt):  # whoever presses it again does not want to wait
            while self._running and time.monotonic() < deadline:
                self._listen()
        for connection, (row, process, begun) in list(self._running.items()):
            process.kill()
            process.join()
            connection.close()
            if not row.ended:
                row.side, row.message, row.ended = "interrupted", STOPPED, True
            row.seconds = time.monotonic() - begun
        self._running.clear()


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def forks() -> bool:
    """Whether rows are forked, and so have what is read and prepared here. Elsewhere each begins from nothing."""
    # Not on macOS, whose numerical libraries do not survive it.
    return sys.platform == "linux"


def _context() -> BaseContext:
    return multiprocessing.get_context("fork" if forks() else "spawn")


def _death(status: int | None) -> Text:
    if status is not None and status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return Text(f"the process that graded it was killed by {name}", f"评测它的进程被 {name} 终止")
    return Text(
        f"the process that graded it ended with status {status} and no answer",
        f"评测它的进程以状态 {status} 结束，没有给出结果",
    )
