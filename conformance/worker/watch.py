"""One run of one function of the submission, watched statement by statement.

Before a line runs, and when the function returns, the names of the statement that has just run are
looked at: what it has bound to an array, or edited in place, is recorded with its line. Nothing of
the submission is called, and no array is kept alive.
"""

from __future__ import annotations

import sys
import threading
from itertools import islice
from types import MethodType
from typing import TYPE_CHECKING, Any

from .recorder import Content
from .statements import Statement

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from .tracer import Tracer

ITEMS = 256  # of a list, tuple or dict that are looked at
NAMES = 500  # that are looked at where there is no source to say which matter
CALLERS = 64  # frames between a function and the statement that called it
SKIP, ARRAY, SEQUENCE, DICT = range(4)  # what to do with a value; see `Tracer.category`
_GENERATES = 0x20 | 0x80 | 0x200  # flags of code: generator, coroutine, asynchronous generator
_VARARGS, _VARKEYWORDS = 0x04, 0x08

# Taken now: a submission may replace them in their modules.
_settrace, _thread = sys.settrace, threading.get_ident
_missing = object()
_attributes = object.__getattribute__
_LOCALS = (dict, type((lambda: sys._getframe().f_locals)()))  # a proxy since Python 3.13


class Watch:
    """One run of one function of the submission."""

    __slots__ = ("current", "file", "function", "line", "returning", "slots", "started", "table", "tracer")

    def __init__(self, tracer: Tracer, frame: FrameType) -> None:
        code = frame.f_code
        self.tracer = tracer
        self.file = code.co_filename
        self.function: str = getattr(code, "co_qualname", code.co_name)
        self.table = tracer.recorder.table(self.file)
        self.slots: dict[Any, tuple[int, int]] = {}  # identity and hash of what was seen by name
        self.line = frame.f_lineno
        self.current: Statement | None = None
        self.started = False
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
                self.line, self.current, self.started = frame.f_lineno, following, True
                if following is not None and following.returns:
                    self.returning = following.first
            elif event == "return":
                self._look(frame, None)
                self._returned(frame.f_code, arg)
        except BaseException as error:
            self.tracer.failed(error)
        return self.event

    @property
    def place(self) -> int:
        """Line of the statement that is running."""
        return self.line if self.current is None else self.current.first

    def _look(self, frame: FrameType, following: Statement | None) -> None:
        """Records what the statement that ran has made; what the next one may edit is noted before."""
        values, current = names_of(frame), self.current
        if not self.started:
            names: Any = () if following is None else following.names
        elif current is None:
            names = list(islice(values, NAMES))
        else:
            names = current.names if following is None else dict.fromkeys(current.names + following.names)
        edited: list[Any] = []
        for name in names:
            value = values.get(name, _missing)
            if value is not _missing:
                self._visit((name,), value, edited, 1, quick=True)
        for name, attribute in () if current is None else current.paths:
            self._store(values, frame, name, attribute, edited)
        for name, attribute in () if following is None else following.paths:
            self._store(values, frame, name, attribute, None)
        if edited:
            self._aliases(values, edited)

    def _store(
        self, values: Any, frame: FrameType, name: str, attribute: str | None, edited: list[Any] | None
    ) -> None:
        """Visits what a statement stores into: a name, a global one too, or an object's own attribute."""
        value = values.get(name, _missing)
        if value is _missing:
            value = dict.get(frame.f_globals, name, _missing)
        elif attribute is None and self.tracer.category(value) == ARRAY:
            return  # seen already, by its name
        if attribute is not None and value is not _missing:
            name = f"{name}.{attribute}"
            value = self._attribute(value, attribute)
        if value is not _missing:
            self._visit((name,), value, edited, 2)

    def _attribute(self, value: Any, name: str) -> Any:
        """An object's own attribute, a module's buffer too, without asking its class."""
        try:
            space = _attributes(value, "__dict__")
            found = dict.get(space, name, _missing)
            for inner in self.tracer.recorder.framework.spaces if found is _missing else ():
                found = dict.get(dict.get(space, inner, {}), name, found)
        except Exception:  # it has none
            return _missing
        return found

    def _visit(
        self, key: tuple[Any, ...], value: Any, edited: list[Any] | None, depth: int, quick: bool = False
    ) -> None:
        """Records an array, or the items of a container, if they are new under `key`.

        `edited` gets the arrays whose contents changed; when None, nothing is recorded, only noted.
        `quick` leaves out a container that was seen before and has not grown.
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
        elif category != SKIP and depth:
            kind, items = contents(value, category)
            if quick:
                after = (id(value), kind.__len__(value))
                if self.slots.get(key) == after:
                    return
                self.slots[key] = after
            for part, item in items:
                self._visit((*key, part), item, edited, depth - 1)

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
        count += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _VARKEYWORDS)
        arguments = frozenset(code.co_varnames[:count])
        caller = self._caller(frame)
        values = names_of(frame)
        for name in list(islice(values, NAMES)):
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
            if caller is None and _thread() == self.tracer.thread:
                recorder.give(content)
            elif passed and not recorder.knows(content):
                maker = caller or self  # in a thread of its own, nobody knows who called it
                variable = f"{self.function.rpartition('.')[2]}({spelled(key)})"
                recorder.add(maker.file, maker.place, maker.function, variable, content)
        elif category != SKIP and depth:
            _, items = contents(value, category)
            for part, item in items:
                self._argument((*key, part), item, caller, passed, 0)

    def _caller(self, frame: FrameType) -> Watch | None:
        """The run of the submission's function that this one was called from, if there is one."""
        above = frame.f_back
        for _ in range(CALLERS):
            if above is None:
                return None
            watch = watching(above)
            if watch is not None and watch.tracer is self.tracer:
                return watch
            above = above.f_back
        return None

    def _returned(self, code: CodeType, value: Any) -> None:
        """Records what a function returns or yields."""
        category = self.tracer.category(value)
        if category == SKIP:
            return
        name = "yield" if code.co_flags & _GENERATES else "return"
        if name == "return" and self.returning and not (self.current is not None and self.current.returns):
            self.line, self.current = self.returning, None  # a `with` or `finally` came after `return`
        self.slots = {key: seen for key, seen in self.slots.items() if key[0] != name}
        self._visit((name,), value, [], 1)


def watching(frame: FrameType) -> Watch | None:
    """The watch over a frame, if there is one."""
    method = frame.f_trace
    if type(method) is MethodType and type(method.__self__) is Watch:
        return method.__self__
    return None


def names_of(frame: FrameType) -> Any:
    """A frame's local names and values; none where the submission has a mapping of its own for them."""
    values = frame.f_locals
    return values if type(values) in _LOCALS else {}


def contents(value: Any, category: int) -> tuple[Any, list[tuple[Any, Any]]]:
    """The class that a container is of, and its first items; nothing that it redefines is called."""
    if category == DICT:
        return dict, [pair for pair in islice(dict.items(value), ITEMS) if spellable(pair[0])]
    kind: Any = tuple if issubclass(type(value), tuple) else list
    return kind, list(enumerate(kind.__getitem__(value, slice(0, ITEMS))))


def spellable(key: Any) -> bool:
    """Whether a key of a dict can be shown, without asking an object of the submission."""
    if type(key) is tuple:
        return all(type(part) in (str, int) for part in key)
    return type(key) in (str, int)


def spelled(key: tuple[Any, ...]) -> str:
    """A name as it would be written: `cache['k'][0]`, `self.keys`."""
    parts = [repr(part[:50]) if type(part) is str else str(part)[:50] for part in key[1:]]
    return str(key[0]) + "".join(f"[{part}]" for part in parts)
