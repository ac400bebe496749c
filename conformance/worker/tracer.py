"""The trace: which functions of the submission are watched, in which threads, and until when.

Files of libraries run at full speed. What is watched must not notice: no exception of ours gets
out, and all that is switched on is switched off again.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from .recorder import Recorder
from .watch import ARRAY, DICT, SEQUENCE, SKIP, Watch, watching

if TYPE_CHECKING:
    from types import FrameType

GONE = "the trace ended before the call: by the submission, a signal handler, or too deep a recursion"
HEADROOM = 100  # frames that our own calls may need above the submission's deepest
MAX_TYPES = 10_000  # that are remembered

# Taken now: a submission may replace them in their modules.
_settrace, _gettrace, _settrace_of_threads = sys.settrace, sys.gettrace, threading.settrace
_thread = threading.get_ident
_getlimit, _setlimit = sys.getrecursionlimit, sys.setrecursionlimit
_missing = object()


class Tracer:
    """Records what the submission's own files do between `start` and `stop`, in all their threads."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.running = False
        self.thread = 0  # that makes the call
        self._own: dict[str, bool | None] = {}
        self._categories: dict[type, int] = {}
        self._results = ExitStack()
        self._enter = self._on_call

    def start(self, step: int | None) -> None:
        """Begins, in this thread and those that it will start."""
        self.recorder.step = step
        if not self.recorder.in_time():
            return
        self.running, self.thread = True, _thread()
        self._before = _gettrace(), getattr(threading, "_trace_hook", None)
        self._limit = _getlimit()
        _setlimit(self._limit + HEADROOM)
        if self.recorder.dispatched:
            try:
                self._results.enter_context(self.recorder.framework.results(self))
            except Exception as error:  # a PyTorch that has no such thing
                self.recorder.note(f"single results could not be seen: {type(error).__name__}: {error}")
        _settrace_of_threads(self._enter)
        _settrace(self._enter)

    def stop(self) -> None:
        """Ends it; threads that go on are left alone."""
        if not self.running:
            return
        now = _gettrace()
        _settrace(self._before[0])
        self.running = False
        with suppress(Exception):  # left before, by the submission
            self._results.close()
        _settrace_of_threads(self._before[1])
        if _getlimit() == self._limit + HEADROOM:
            _setlimit(self._limit)
        if now is not self._enter and self.recorder.active:
            self.recorder.note(GONE if now is None else "the submission replaced the trace")

    def category(self, value: Any) -> int:
        """What to do with a value: nothing, record it, or look at its items."""
        kind = type(value)
        found = self._categories.get(kind)
        if found is None:
            if self.recorder.framework.is_array(kind):
                found = ARRAY
            elif issubclass(kind, (list, tuple)):
                found = SEQUENCE
            else:
                found = DICT if issubclass(kind, dict) else SKIP
            if len(self._categories) < MAX_TYPES:
                self._categories[kind] = found
        return found

    def owns(self, frame: FrameType) -> bool:
        """Whether the code of a frame is the submission's."""
        file = frame.f_code.co_filename
        own = self._own.get(file, _missing)
        if own is _missing:
            own = self._own[file] = self._is_own(file)
        return bool(own) or (own is None and self._is_generated(frame))

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The trace function proper: decides for each function whether its lines are of interest."""
        try:
            if not self.running or not self.recorder.active:
                _settrace(None)
                return None
            if not self.owns(frame):
                return None
            watch = watching(frame)  # a generator goes on
            if watch is None or watch.tracer is not self:
                watch = Watch(self, frame)
            return watch.event
        except BaseException as error:
            self.failed(error)
            return None

    def failed(self, error: BaseException) -> None:
        """Keeps an error of ours to ourselves; raises what a signal handler of the submission raised."""
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        if traceback is not None and self.recorder.sources.own(traceback.tb_frame.f_code.co_filename):
            raise error
        if not isinstance(error, RecursionError):
            self.recorder.note(f"the trace could not follow all of it: {type(error).__name__}", "failed")

    def _is_own(self, file: str) -> bool | None:
        """Whether a file is the submission's; None for code without a file, of which each is asked."""
        if file.startswith("<") and not file.startswith("<frozen"):
            return None
        return self.recorder.sources.own(file)

    def _is_generated(self, frame: FrameType) -> bool:
        """Whether code without a file was compiled in the submission's name."""
        space = frame.f_globals
        file = dict.get(space, "__file__")
        if type(file) is str:
            return self.recorder.sources.own(file)
        return "__name__" not in space
