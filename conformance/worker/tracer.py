"""Watching the submission's own files run, statement by statement, for the arrays that they make.

Before a line runs, and when a function returns, the names of the statement that has just run are
looked at: what it has bound to an array, or edited in place, is recorded with its line. Files of
libraries run at full speed. What is watched must not notice: nothing of the submission is called,
no array is kept alive, and no exception of ours gets out.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from .recorder import Content, Recorder
from .statements import Statement

if TYPE_CHECKING:
    from types import CodeType, FrameType

ITEMS = 256  # of a list, tuple or dict that are looked at
NAMES = 500  # that are looked at where there is no source to say which matter
CALLERS = 64  # frames between a function and the statement that called it
HEADROOM = 100  # frames that our own calls may need above the submission's deepest
SKIP, ARRAY, SEQUENCE, DICT = range(4)
_GENERATES = 0x20 | 0x80 | 0x200  # flags of code: generator, coroutine, asynchronous generator

# Taken now: a submission may replace them in their modules.
_settrace, _gettrace = sys.settrace, sys.gettrace
_getlimit, _setlimit = sys.getrecursionlimit, sys.setrecursionlimit
_missing = object()
_attributes = object.__getattribute__


class Tracer:
    """Records what the submission's own files do between `start` and `stop`, in all their threads."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.running = False
        self._own: dict[str, bool | None] = {}
        self._categories: dict[type, int] = {}
        self._enter = self._on_call

    def start(self) -> None:
        """Begins, in this thread and those that it will start."""
        if not self.recorder.in_time():
            return
        self.running = True
        self._before = _gettrace(), getattr(threading, "_trace_hook", None)
        self._limit = _getlimit()
        _setlimit(self._limit + HEADROOM)
        threading.settrace(self._enter)
        _settrace(self._enter)

    def stop(self) -> None:
        """Ends it; threads that go on are left alone."""
        if not self.running:
            return
        now = _gettrace()
        _settrace(self._before[0])
        self.running = False
        threading.settrace(self._before[1])  # type: ignore[arg-type]
        if _getlimit() == self._limit + HEADROOM:
            _setlimit(self._limit)
        if now is not self._enter and self.recorder.active:
            gone = "the trace was switched off by the submission, or by too deep a recursion"
            self.recorder.note(gone if now is None else "the submission replaced the trace")

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
            if len(self._categories) < 10_000:
                self._categories[kind] = found
        return found

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The trace function proper: decides for each function whether its lines are of interest."""
        try:
            if not self.running or not self.recorder.active:
                _settrace(None)
                return None
            code = frame.f_code
            own = self._own.get(code.co_filename, _missing)
            if own is _missing:
                own = self._own[code.co_filename] = self._is_own(code.co_filename)
            if not (own or (own is None and self._is_generated(frame))):
                return None
            resumed = frame.f_trace  # a generator goes on
            if type(getattr(resumed, "__self__", None)) is Watch:
                return resumed
            return Watch(self, frame).event
        except RecursionError:
            return None

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


class Watch:
    """One run of one function of the submission."""

    __slots__ = ("current", "file", "function", "line", "returning", "slots", "table", "tracer")

    def __init__(self, tracer: Tracer, frame: FrameType) -> None:
        code = frame.f_code
        self.tracer = tracer
        self.file = code.co_filename
        self.function: str = getattr(code, "co_qualname", code.co_name)
        self.table = tracer.recorder.table(self.file)
        self.slots: dict[Any, tuple[int, int]] = {}  # identity and hash of what was seen by name
        self.line = frame.f_lineno
        self.current: Statement | None = None
        self.returning = 0
        self._arguments(frame, code)

    def event(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The trace function of the frame."""
        recorder = self.tracer.recorder
        try:
            if not self.tracer.running or not recorder.in_time():
                _settrace(None)
                return None
            if event == "line":
                following = self.table.get(frame.f_lineno)
                self._look(frame, following)
                self.line, self.current = frame.f_lineno, following
                if following is not None and following.returns:
                    self.returning = following.first
            elif event == "return":
                self._look(frame, None)
                self._returned(frame.f_code, arg)
        except BaseException as error:
            if self._foreign(error):
                raise
            if not isinstance(error, RecursionError):
                recorder.note(f"the trace could not follow all: {type(error).__name__}"[:200])
        return self.event

    @property
    def place(self) -> int:
        """Line of the statement that is running."""
        return self.line if self.current is None else self.current.first

    def _foreign(self, error: BaseException) -> bool:
        """Whether a signal handler of the submission raised it while we were at work."""
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        own = self.tracer.recorder.sources.own
        return traceback is not None and own(traceback.tb_frame.f_code.co_filename)

    def _look(self, frame: FrameType, following: Statement | None) -> None:
        """Records what the statement that ran has made; what the next one may edit is noted before."""
        values = frame.f_locals
        current = self.current
        if current is None:
            if self.table and following is None:
                return
            names: Any = list(values)[:NAMES] if not self.table else following.names  # type: ignore[union-attr]
        else:
            names = current.names if following is None else current.names | following.names
        edited: list[Any] = []
        for name in names:
            value = values.get(name, _missing)
            if value is not _missing:
                self._visit((name,), value, edited, 1)
        paths = () if current is None else current.paths
        for name, attribute in paths:
            value = self._at(values, frame, name, attribute)
            if value is not _missing:
                self._visit((name, "." + attribute) if attribute else (name,), value, edited, 2)
        if following is not None:
            for name, attribute in following.paths:
                if (current is None or (name, attribute) not in paths) and (attribute or name not in names):
                    value = self._at(values, frame, name, attribute)
                    if value is not _missing:
                        self._visit((name, "." + attribute) if attribute else (name,), value, None, 2)
        if edited:
            self._aliases(values, edited)

    @staticmethod
    def _at(values: Any, frame: FrameType, name: str, attribute: str | None) -> Any:
        """The value of a name, a global one too, or of an attribute that the object itself has."""
        value = values.get(name, _missing)
        if value is _missing:
            value = dict.get(frame.f_globals, name, _missing)
        if attribute is None or value is _missing:
            return value
        try:
            return dict.get(_attributes(value, "__dict__"), attribute, _missing)
        except Exception:  # it has none
            return _missing

    def _visit(self, key: tuple[Any, ...], value: Any, edited: list[Any] | None, depth: int) -> None:
        """Records an array, or the items of a container, if they are new under `key`.

        `edited` gets the arrays whose contents changed; when None, nothing is recorded, only noted.
        """
        category = self.tracer.category(value)
        if category == ARRAY:
            recorder = self.tracer.recorder
            content = recorder.content(value, key[0])
            if content is None:
                return
            before = self.slots.get(key)
            after = (id(value), content.hash)
            if before == after:
                return
            self.slots[key] = after
            if edited is not None:
                if before is not None and before[0] == after[0]:
                    edited.append(value)
                recorder.add(self.file, self.place, self.function, spelled(key), content)
        elif category == SEQUENCE and depth:
            kind: Any = tuple if isinstance(value, tuple) else list
            for index, item in enumerate(kind.__getitem__(value, slice(0, ITEMS))):
                self._visit((*key, index), item, edited, depth - 1)
        elif category == DICT and depth:
            for name, item in list(dict.items(value))[:ITEMS]:
                if type(name) in (str, int):
                    self._visit((*key, name), item, edited, depth - 1)

    def _aliases(self, values: Any, edited: list[Any]) -> None:
        """Other names for memory that was edited through one of them."""
        memory = self.tracer.recorder.framework.memory
        roots = {memory(value) for value in edited}
        for key in list(self.slots):
            value = values.get(key[0]) if len(key) == 1 else None
            if value is not None and self.tracer.category(value) == ARRAY and memory(value) in roots:
                self._visit(key, value, [], 0)

    def _arguments(self, frame: FrameType, code: CodeType) -> None:
        """Arguments that nobody has seen: made in the statement that called this function."""
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
        arguments = frozenset(code.co_varnames[:count])
        caller = self._caller(frame)
        values = frame.f_locals
        for name in list(values)[:NAMES]:
            if not name.startswith("."):
                self._argument((name,), values[name], caller, name in arguments, 1)

    def _argument(self, key: tuple[Any, ...], value: Any, caller: Any, passed: bool, depth: int) -> None:
        category = self.tracer.category(value)
        recorder = self.tracer.recorder
        if category == ARRAY:
            content: Content | None = recorder.content(value, key[0])
            if content is None:
                return
            self.slots[key] = (id(value), content.hash)
            if caller is None:
                recorder.give(content)
            elif passed and not recorder.knows(content):
                variable = f"{self.function.rpartition('.')[2]}({spelled(key)})"
                recorder.add(caller.file, caller.place, caller.function, variable, content)
        elif category == SEQUENCE and depth:
            kind: Any = tuple if isinstance(value, tuple) else list
            for index, item in enumerate(kind.__getitem__(value, slice(0, ITEMS))):
                self._argument((*key, index), item, caller, passed, 0)
        elif category == DICT and depth:
            for name, item in list(dict.items(value))[:ITEMS]:
                if type(name) in (str, int):
                    self._argument((*key, name), item, caller, passed, 0)

    @staticmethod
    def _caller(frame: FrameType) -> Watch | None:
        """The run of the submission's function that this one was called from, if there is one."""
        above = frame.f_back
        for _ in range(CALLERS):
            if above is None:
                return None
            watch = getattr(above.f_trace, "__self__", None)
            if type(watch) is Watch:
                return watch
            above = above.f_back
        return None

    def _returned(self, code: CodeType, value: Any) -> None:
        """Records what a function returns or yields."""
        category = self.tracer.category(value)
        if category == SKIP:
            return
        name = "yield" if code.co_flags & _GENERATES else "return"
        if self.returning and not (self.current is not None and self.current.returns):
            self.line, self.current = self.returning, None  # a `with` or `finally` came after `return`
        self.slots = {key: seen for key, seen in self.slots.items() if key[0] != name}
        self._visit((name,), value, [], 1)


def spelled(key: tuple[Any, ...]) -> str:
    """A name as it would be written: `cache['k'][0]`, `self.keys`."""
    text = str(key[0])
    for part in key[1:]:
        text += part if type(part) is str and part.startswith(".") else f"[{str(part)[:50]!r}]" if type(part) is str else f"[{part}]"
    return text
