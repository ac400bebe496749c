"""What a trace has to survive: programs of every kind, budgets, interference."""

import sys
import time

import numpy as np
import pytest
from session_helpers import EMBED, SOFTMAX, X, model, rms_norm, softmax, softmax_of, tokens

from conformance.session import Crashed, Limits, OperationCall, Raised, Returned, TimedOut, answers, tracing

FLOAT32 = X.astype(np.float32)


def variables(trace):
    return [record.variable for record in trace.records]


def find(trace, variable):
    """The first record of a variable."""
    return next(record for record in trace.records if record.variable == variable)


# ---------------------------------------------------------------------------- programs of every kind

PROGRAMS = {
    "recursion": """
        def f(x, n):
            y = x + n
            return y if n == 0 else f(y, n - 1)
        def softmax(x, axis):
            return f(x, 400)
    """,
    "a generator closed early": """
        def f(x):
            try:
                while True:
                    x = x * 2
                    yield x
            finally:
                x = None
        def softmax(x, axis):
            for y in f(x):
                if y.max() > 20:
                    break
            return y
    """,
    "a generator that is sent to": """
        def f():
            total = 0
            while True:
                more = yield total
                total = total + more
        def softmax(x, axis):
            g = f()
            next(g)
            g.send(x)
            y = g.send(x)
            g.close()
            return y
    """,
    "coroutines": """
        import asyncio
        async def f(x):
            y = x * 2
            await asyncio.sleep(0)
            return y
        async def g(x):
            y = await asyncio.gather(f(x), f(x + 1))
            return y[1]
        def softmax(x, axis):
            y = asyncio.run(g(x))
            return y
    """,
    "comprehensions of all kinds": """
        def softmax(x, axis):
            a = [[r * 2 for r in row] for row in x]
            b = {i: r for i, r in enumerate(a)}
            c = tuple(np.array(r) for r in b.values())
            y = np.array(c)
            return y
    """,
    "threads": """
        import threading
        from concurrent.futures import ThreadPoolExecutor
        def f(x, i):
            y = x * i
            return y
        def softmax(x, axis):
            with ThreadPoolExecutor(3) as pool:
                y = list(pool.map(lambda i: f(x, i), range(1, 6)))
            done = []
            t = threading.Thread(target=lambda: done.append(f(x, 7)))
            t.start()
            t.join()
            y = done[0]
            return y
    """,
    "a thread that goes on": """
        import threading, time
        def f(stop):
            y = np.zeros(4)
            while not stop.is_set():
                y = y + 1
                time.sleep(0.001)
        def softmax(x, axis):
            global running
            running = threading.Event()
            threading.Thread(target=f, args=(running,), daemon=True).start()
            y = x * 2
            return y
    """,
    "callbacks of C": """
        from functools import reduce
        def f(r):
            y = r / r.sum()
            return y
        def softmax(x, axis):
            a = np.apply_along_axis(f, -1, x + 1)
            b = np.vectorize(lambda v: v * 2)(a)
            c = sorted([b, b * 2], key=lambda v: v.sum())
            y = reduce(lambda p, q: p + q, c)
            return y.astype(x.dtype)
    """,
    "a class with everything": """
        import dataclasses, functools, typing
        class Point(typing.NamedTuple):
            a: object
            b: object
        @dataclasses.dataclass
        class Pair:
            a: object
            b: object = None
            @property
            def both(self):
                y = self.a + self.b
                return y
            @staticmethod
            def s(v): return v * 1
            @classmethod
            def c(cls, v): return cls(v, v)
            @functools.lru_cache(None)
            def __hash__(self): return 1
            def __enter__(self): return self
            def __exit__(self, *e): return False
            def __call__(self, *a, **k): return self.__private(*a, **k)
            def __private(self, v):
                __hidden = v * 3
                self.__kept = __hidden
                return self.__kept
        def softmax(x, axis):
            with Pair.c(x) as p:
                y = p.both + Pair.s(Point(x, x).b)
            y = functools.partial(p, v=x)() + y
            return y
    """,
    "generated code": """
        def softmax(x, axis):
            space = {"np": np}
            exec("def f(x):\\n    y = x * 2\\n    return y + 0\\n", space)
            y = space["f"](x)
            exec("G = y * 3")
            y = eval("y + 1")
            return y
    """,
    "subclasses of arrays": """
        class Mine(np.ndarray):
            def __array_finalize__(self, other): self.calls = getattr(other, "calls", 0) + 1
            def __array_ufunc__(self, ufunc, method, *a, **k):
                a = [np.asarray(v) for v in a]
                return getattr(ufunc, method)(*a, **k).view(Mine)
            def tobytes(self): raise RuntimeError
            def view(self, *a): return np.ndarray.view(self, *a)
            @property
            def base(self): raise RuntimeError
            @property
            def size(self): raise RuntimeError
        def softmax(x, axis):
            y = x.view(Mine)
            y = y * 2
            y[0] = 3
            z = y
            return np.asarray(y)
    """,
    "memory-mapped": """
        import tempfile
        def softmax(x, axis):
            with tempfile.TemporaryFile() as file:
                file.write(bytes(x.nbytes))
                file.flush()
                y = np.memmap(file, x.dtype, "r+", shape=x.shape)
                y[:] = x * 2
                z = np.array(y)
            y = z + 0
            return y
    """,
    "not finite": """
        def softmax(x, axis):
            with np.errstate(all="ignore"):
                y = x / 0
                y = np.where(y == y, y, -np.inf)
                y[0, 0, 0] = np.nan
            return y
    """,
    "containers of its own": """
        class D(dict):
            def get(self, *a): raise RuntimeError
            def items(self): raise RuntimeError
            def __getitem__(self, k): return dict.__getitem__(self, k)
        class L(list):
            def __getitem__(self, k): raise RuntimeError
            def __iter__(self): raise RuntimeError
            def __len__(self): raise RuntimeError
        class Odd:
            __slots__ = ("k",)
            def __getattribute__(self, name): raise RuntimeError(name)
            def __setattr__(self, name, value): pass
            def __eq__(self, other): raise RuntimeError
            def __hash__(self): raise RuntimeError
        class Fake:
            @property
            def __class__(self): raise RuntimeError
        def softmax(x, axis):
            d, l, o, f = D(), L(), Odd(), Fake()
            d["k"] = x
            d[(1, x.shape)] = x
            l.append(x)
            l.append(l)
            o.k = x
            y = d["k"] * 2
            return y
    """,
    "a namespace of its own": """
        class Space(dict):
            def __getitem__(self, k):
                return dict.__getitem__(self, k)
            def get(self, *a): raise RuntimeError
            def __iter__(self): raise RuntimeError
            def __len__(self): return 0
        class Meta(type):
            @classmethod
            def __prepare__(cls, *a): return Space()
            def __new__(cls, name, bases, space): return type.__new__(cls, name, bases, {})
        def softmax(x, axis):
            class A(metaclass=Meta):
                y = x * 2
            exec("z = 1", {"x": x}, Space())
            y = x * 2
            return y
    """,
    "many exceptions": """
        def f(x):
            y = x * 2
            raise KeyError(y)
        def softmax(x, axis):
            for _ in range(50):
                try:
                    f(x)
                except KeyError as e:
                    y = e.args[0]
            return y
    """,
    "a signal handler that raises": """
        import signal, time
        class Late(BaseException): pass
        def handler(*_): raise Late
        def softmax(x, axis):
            for i in range(20):
                y = x * 2
                signal.signal(signal.SIGALRM, handler)
                signal.setitimer(signal.ITIMER_REAL, 0.002)
                try:
                    while True:
                        z = x * 3
                except Late:
                    pass
            return y
    """,
    "its own trace": """
        import sys
        lines = []
        def mine(frame, event, arg):
            lines.append(event)
            return mine
        def f(x):
            y = x * 2
            return y
        def softmax(x, axis):
            y = x + 0
            before = sys.gettrace()
            sys.settrace(mine)
            y = f(x)
            sys.settrace(before)
            assert "return" in lines
            return y
    """,
    "locals()": """
        def softmax(x, axis):
            y = x * 2
            names = locals()
            assert set(names) <= {"x", "axis", "y", "names"}, set(names)
            y = vars()["y"] + sum(v.sum() for v in list(locals().values()) if isinstance(v, np.ndarray))
            return y
    """,
    "a deleted name": """
        def softmax(x, axis):
            y = x * 2
            z = y
            del z
            try:
                z
            except UnboundLocalError:
                y = y + 1
            return y
    """,
    "closures that share a name": """
        def softmax(x, axis):
            total = x * 0
            def add(v):
                nonlocal total
                total = total + v
            for i in range(20):
                add(x * i)
            y = total
            return y
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_under_the_trace_and_is_recorded(submit, name):
    session = submit(PROGRAMS[name])
    usual = session.call(softmax(), "float32")
    assert isinstance(usual, Returned), usual
    trace = session.trace(softmax(), "float32")
    assert isinstance(trace.outcome, Returned), trace.outcome
    assert trace.notes == () or "signal" in name
    made, right = (outcome.outputs[0].tensors["output"] for outcome in (trace.outcome, usual))
    np.testing.assert_array_equal(made, right)
    y = [record.array for record in trace.records if record.variable == "y"]
    assert y
    assert variables(trace)[-1] in ("return", "y") or trace.notes


def test_the_last_record_of_recursion_is_the_outermost(submit):
    trace = submit(PROGRAMS["recursion"]).trace(softmax(), "float32")
    sums = [record.array.ravel()[0] for record in trace.records if record.variable == "y"]
    assert sums == [sum(range(400 - i, 401)) for i in range(400)]  # adding 0 makes nothing new


def test_threads_are_recorded(submit):
    trace = submit(PROGRAMS["threads"]).trace(softmax(), "float32")
    first = {float(record.array.ravel()[1]) * 8 for record in trace.records if record.function == "f"}
    assert first == {1, 2, 3, 4, 5, 7}


def test_generated_code_has_lines_but_no_text(submit):
    trace = submit(PROGRAMS["generated code"]).trace(softmax(), "float32")
    records = [record for record in trace.records if record.file == "<string>"]
    assert [(r.line, r.function, r.variable, r.text) for r in records][:2] == [
        (2, "f", "y", ""),
        (3, "f", "return", ""),
    ]
    assert any(record.variable == "G" for record in records)


def test_libraries_are_not_recorded(submit):
    source = "def softmax(x, axis):\n    return np.mean(x, axis=-1, keepdims=True) + np.linalg.norm(x)\n"
    trace = submit(source).trace(softmax(), "float32")
    assert variables(trace) == ["return"]


def test_several_files(submit, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("from .inner import scale\n")
    (tmp_path / "parts" / "inner.py").write_text(
        "import os\n\ndef scale(x):\n    y = x * 2\n    return y\n\nos.remove(__file__)\n"
    )
    (tmp_path / "other.py").write_text("def twice(x):\n    z = x * 3\n    return z\n")
    source = "import other, parts\ndef softmax(x, axis):\n    return parts.scale(other.twice(x))\n"
    trace = submit(source).trace(softmax(), "float32")
    y, z = find(trace, "y"), find(trace, "z")
    assert (y.file, y.line, y.text) == (str(tmp_path / "parts" / "inner.py"), 4, "")
    assert (z.file, z.line, z.text) == (str(tmp_path / "other.py"), 2, "z = x * 3")


def test_a_source_that_is_gone_still_has_its_lines(submit, tmp_path):
    (tmp_path / "other.py").write_text("def twice(x):\n    z = (\n        x * 3)\n    return z\n")
    source = """
        import os, other
        def softmax(x, axis):
            for file in (__file__, other.__file__):
                if os.path.exists(file):
                    os.remove(file)
            y = other.twice(x)
            return y
    """
    trace = submit(source).trace(softmax(), "float32")
    assert find(trace, "y").text == "y = other.twice(x)"
    assert (find(trace, "z").line, find(trace, "z").text) == (2, "z = ( x * 3)")


def test_a_source_of_odd_characters(submit, tmp_path):
    (tmp_path / "other.py").write_bytes(
        b"\xef\xbb\xbf# form feed: \x0c\r\n\x0c\r\ndef twice(x):\r\n    \xc2\xb5 = x * 3  # \xe2\x80\xa8 \r\n    return \xc2\xb5\r\n"
    )
    source = "import other\ndef softmax(x, axis):\n    return other.twice(x)\n"
    trace = submit(source).trace(softmax(), "float32")
    assert (trace.records[0].line, trace.records[0].variable) == (4, "\u03bc")


# ---------------------------------------------------------------------------- interference


def test_a_submission_that_replaces_the_trace_is_noted(submit):
    source = """
        import sys
        def softmax(x, axis):
            y = x * 2
            sys.settrace(lambda *a: None)
            z = f(x)
            return z
        def f(x):
            w = x * 3
            return w
    """
    session = submit(source)
    trace = session.trace(softmax(), "float32")
    assert isinstance(trace.outcome, Returned)
    assert "y" in variables(trace)
    assert "w" not in variables(trace)
    assert trace.notes == ("the submission replaced the trace",)
    assert session.trace(softmax(1), "float32").notes == trace.notes


def test_a_submission_that_switches_the_trace_off_is_noted(submit):
    source = """
        import sys, threading
        def softmax(x, axis):
            y = x * 2
            sys.settrace(None)
            threading.settrace(None)
            return y
    """
    (note,) = submit(source).trace(softmax(), "float32").notes
    assert note.startswith("the trace ended before the call")


def test_endless_recursion_raises_as_it_would(submit):
    source = """
        def f(x):
            y = x * 2
            return f(y)
        def softmax(x, axis):
            return f(x)
    """
    trace = submit(source).trace(softmax(), "float32")
    assert isinstance(trace.outcome, Raised)
    assert trace.outcome.type == "RecursionError"
    assert "y" in variables(trace)


def test_recursion_to_just_below_the_limit_is_not_hindered(submit):
    source = """
        import sys
        def f(x, n):
            y = x + n
            return y if n == 0 else f(y, n - 1)
        def softmax(x, axis):
            for depth in range(1000, 0, -1):
                try:
                    f(x, depth)
                except RecursionError:
                    continue
                return f(x, depth)
    """
    session = submit(source)
    assert isinstance(session.call(softmax(), "float32"), Returned)
    trace = session.trace(softmax(), "float32")
    assert isinstance(trace.outcome, Returned | Raised)
    assert "y" in variables(trace)


def test_nothing_of_the_trace_is_left_behind(submit):
    source = """
        import sys, threading
        def softmax(x, axis):
            print(sys.gettrace(), threading._trace_hook, sys.getrecursionlimit())
            return x
    """
    session = submit(source)
    before = session.call(softmax(), "float32").printed
    assert session.trace(softmax(), "float32").outcome.printed != before
    assert session.call(softmax(1), "float32").printed == before


def test_a_crash_leaves_a_note_and_no_strike(submit):
    source = (
        SOFTMAX
        + "import os, sys\ndef rms_norm(x, weight, eps):\n    if sys.gettrace(): os._exit(3)\n    return x\n"
    )
    session = submit(source)
    for repetition in range(3):
        trace = session.trace(rms_norm(), "float32")
        assert isinstance(trace.outcome, Crashed)
        assert trace.records == ()
        assert trace.notes == (
            "the traced call left no records: exited with status 3 in the middle of a call",
        )
        assert isinstance(session.call(rms_norm(repetition), "float32"), Returned)
    assert session.starts == 4


def test_a_hang_leaves_a_note_and_no_strike(submit, monkeypatch):
    monkeypatch.setitem(tracing.BUDGET, "seconds", 0.2)
    source = "import sys, time\ndef softmax(x, axis):\n    if sys.gettrace(): time.sleep(60)\n    return x\n"
    session = submit(source, limits=Limits(timeout=0.5))
    for repetition in range(3):
        trace = session.trace(softmax(), "float32")
        assert isinstance(trace.outcome, TimedOut)
        assert trace.notes == ("the traced call left no records: no answer within 0.7 s",)
        assert isinstance(session.call(softmax(repetition), "float32"), Returned)


def test_what_failed_too_often_is_not_traced(submit):
    session = submit("import os\ndef softmax(x, axis):\n    os._exit(3)\n")
    for repetition in range(2):
        session.call(softmax(repetition), "float32")
    starts = session.starts
    trace = session.trace(softmax(), "float32")
    assert isinstance(trace.outcome, Crashed)
    assert trace.records == ()
    assert session.starts == starts


def test_memory_that_runs_out_leaves_a_note(submit):
    session = submit("def softmax(x, axis):\n    y = x * 2\n    raise MemoryError\n")
    trace = session.trace(softmax(), "float32")
    assert isinstance(trace.outcome, Crashed)
    assert "out of memory" in trace.notes[0]


def test_forged_announcements_are_refused():
    recording = tracing.Recording()
    fine = {
        "rows": 1,
        "bytes": 16,
        "strings": ["f"] * 4,
        "places": [[3, 0, 1, 2, 3]],
        "kinds": [["<f4", [4]]],
        "notes": [],
    }
    rows = np.array([[0, 0, 0, -1]], dtype="<i8")
    values = np.zeros(16, np.uint8)

    def receive(meta, rows=rows):
        positions, table = [], []
        recording.announced(meta, 2, positions, table)
        assert positions == [2, 3]
        recording.received([rows, values])
        return recording.trace(Returned(()), None).records

    (record,) = receive(fine)
    assert (record.line, record.file, record.step) == (3, "f", None)
    assert not record.array.flags.writeable
    wrong = [
        None,
        [],
        {},
        {**fine, "rows": -1},
        {**fine, "rows": True},
        {**fine, "rows": 20_001},
        {**fine, "bytes": 1 << 40},
        {**fine, "bytes": 1.0},
        {**fine, "strings": ["f", 1, "f", "f"]},
        {**fine, "strings": []},
        {**fine, "notes": "x"},
        {**fine, "notes": [1]},
        {**fine, "places": []},
        {**fine, "places": [[3, 0, 1, 2]]},
        {**fine, "places": [[3, 0, 1, 2, -1]]},
        {**fine, "places": [[3, 0, 1, 2, 1e400]]},
        {**fine, "places": 7},
        {**fine, "kinds": [["O", [4]]]},
        {**fine, "kinds": [["<f8", [4]]]},
        {**fine, "kinds": [["<f4", [1 << 62, 1 << 62]]]},
        {**fine, "kinds": [["<f4", [-4]]]},
        {**fine, "kinds": [["<f4", [1 << 62, 0]]]},
        {**fine, "kinds": [["<f4", [1] * 100]]},
        {**fine, "kinds": [["<f4"]]},
    ]
    for meta in wrong:
        with pytest.raises(answers.Malformed):
            receive(meta)
    for row in (
        [1, 0, 0, -1],
        [0, 1, 0, -1],
        [0, 0, 4, -1],
        [0, 0, 16, -1],
        [0, 0, -16, -1],
        [-1, 0, 0, 0],
        [0, -1, 0, 0],
    ):
        with pytest.raises(answers.Malformed):
            receive(fine, np.array([row]))


# ---------------------------------------------------------------------------- budgets

LOOP = """
def softmax(x, axis):
    y = x
    for i in range(%d):
        y = y + 1
        z = y[0]
    last = y * 2
    return last
"""


def test_the_number_of_arrays_is_limited(submit, monkeypatch):
    monkeypatch.setitem(tracing.BUDGET, "arrays", 50)
    trace = submit(LOOP % 100).trace(softmax(), "float32")
    assert len(trace.records) == 50
    assert trace.notes == ("the trace ran out of its budget after 50 arrays",)
    np.testing.assert_array_equal(trace.outcome.outputs[0].tensors["output"], (FLOAT32 + 100) * 2)


def test_the_arrays_of_one_variable_at_one_line_are_limited(submit, monkeypatch):
    monkeypatch.setitem(tracing.BUDGET, "per_place", 10)
    trace = submit(LOOP % 100).trace(softmax(), "float32")
    assert variables(trace).count("z") == 10
    assert variables(trace)[-2:] == ["last", "return"]
    assert trace.notes == ()


def test_the_bytes_of_all_arrays_are_limited(submit, monkeypatch):
    monkeypatch.setitem(tracing.BUDGET, "total", 2 << 20)
    source = """
        def softmax(x, axis):
            for i in range(100):
                y = np.full((100, 100), float(i))
            return x
    """
    trace = submit(source).trace(softmax(), "float32")
    assert sum(record.array.nbytes for record in trace.records) <= 2 << 20
    assert len(trace.records) == 26
    assert trace.notes == ("the trace ran out of its budget after 2 MiB of arrays",)


def test_large_arrays_are_left_out_with_a_note(submit):
    source = """
        def softmax(x, axis):
            large = np.zeros((300, 300))
            larger = np.zeros((3000, 3000), np.float16)
            y = x * 2
            return y
    """
    trace = submit(source).trace(softmax(), "float32")
    assert variables(trace) == ["y", "return"]
    assert trace.notes == ("arrays of more than 256 KiB are left out, such as large (300x300)",)


def test_the_time_is_limited(submit):
    source = """
        def softmax(x, axis):
            total = 0
            for i in range(3_000_000):
                total += i
            last = x * 2
            return last
    """
    session = submit(source)
    usual = session.call(softmax(), "float32")
    began = time.monotonic()
    trace = session.trace(softmax(), "float32", seconds=0.2)
    assert trace.notes == ("the trace ran out of its budget after 0.2 s",)
    assert time.monotonic() - began < 1.5 + 5 * usual.seconds
    np.testing.assert_array_equal(trace.outcome.outputs[0].tensors["output"], FLOAT32 * 2)


def test_places_are_limited(submit):
    source = """
        def softmax(x, axis):
            d = {}
            for i in range(300):
                for j in range(200):
                    d[i % 7, f"{i}:{j}" * 40] = x + j
                d.clear()
            return x
    """
    trace = submit(source).trace(softmax(), "float32")
    assert isinstance(trace.outcome, Returned)
    assert any(note.startswith("the trace ran out of its budget") for note in trace.notes), trace.notes


def test_all_notes_and_names_fit_in_a_message(submit):
    body = "".join(f"    {'ü' * 300}{i} = x + {i}\n" for i in range(1000))
    trace = submit("def softmax(x, axis):\n" + body + "    return x\n").trace(softmax(), "float32")
    assert isinstance(trace.outcome, Returned)
    assert len(trace.records) > 50
    assert all(len(record.variable) <= 200 for record in trace.records)


def test_a_traced_model_is_quick(submit):
    source = """
        def norm(x, w):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w
        class Model:
            def __init__(self, config, params):
                self.p = params
            def forward(self, tokens):
                x = self.p["embed"][tokens]
                for _ in range(2):
                    h = norm(x, 1.5)
                    heads = []
                    for i in range(2):
                        q = k = v = h[..., i::2]
                        s = q @ k.swapaxes(1, 2)
                        w = np.exp(s - s.max(-1, keepdims=True))
                        w /= w.sum(-1, keepdims=True)
                        heads.append(w @ v)
                    x = x + np.concatenate(heads, -1)
                    x = x + np.maximum(norm(x, 0.5), 0)
                return x @ self.p["embed"].T
    """
    session = submit(source)
    call = model(*(tokens(1, 2, 3, i) for i in range(6)))
    session.call(call, "float32")
    began = time.monotonic()
    trace = session.trace(call, "float32")
    assert len(trace.records) > 200
    assert time.monotonic() - began < 1.0  # 0.03 on a machine with nothing else to do


# ---------------------------------------------------------------------------- PyTorch


def test_tensors_are_recorded_as_well(submit):
    pytest.importorskip("torch")
    source = """
        import torch
        framework = "torch"
        dtype = ["float32", "bfloat16"]
        def softmax(x, axis):
            s = x - x.amax(axis, keepdim=True)
            s.exp_()
            row = s[0]
            row *= 1
            mask = s > 0.5
            return s / s.sum(axis, keepdim=True)
    """
    session = submit(source, python=sys.executable)
    trace = session.trace(softmax(), "float32")
    versions = [record.array for record in trace.records if record.variable == "s"]
    assert len(versions) == 2
    np.testing.assert_allclose(versions[1], np.exp(versions[0]), rtol=1e-6)
    np.testing.assert_allclose(find(trace, "return").array, softmax_of(FLOAT32), rtol=1e-5)
    assert find(trace, "mask").array.dtype == bool
    assert find(session.trace(softmax(), "bfloat16"), "s").array.dtype == np.float32


def test_arguments_of_all_kinds(submit):
    source = """
        def multi_head_attention(x, params, config, tap=None):
            w = params["w_q"] * config.n
            y = x @ w
            return y
    """
    call = OperationCall(
        "multi_head_attention",
        {"x": EMBED, "params": {"w_q": np.eye(4)}},
        config={"n": 2},
        tap=True,
        expect={"output": (6, 4)},
    )
    trace = submit(source).trace(call, "float64")
    assert variables(trace) == ["w", "y", "return"]


def test_resizing_in_place_is_the_one_thing_that_a_trace_can_break(submit):
    """Before Python 3.13 the interpreter itself holds every local name of a traced function once more."""
    source = "def softmax(x, axis):\n    y = x * 2\n    y.resize((2, 3, 4))\n    w = np.zeros(12)\n    w.resize(4)\n    return y\n"
    session = submit(source)
    assert isinstance(session.call(softmax(), "float32"), Returned)
    trace = session.trace(softmax(), "float32")
    assert find(trace, "y").line == 3
    if tuple(int(part) for part in session.offer.versions["python"].split(".")[:2]) >= (3, 13):
        assert isinstance(trace.outcome, Returned)
        assert trace.notes == ()
    else:
        assert isinstance(trace.outcome, Raised)
        assert trace.notes == ("under the trace the call gave something else than before",)
