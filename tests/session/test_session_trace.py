"""What a trace records, and on which line. `HERE` marks the line that a person would name."""

import textwrap

import numpy as np
import pytest
from session_helpers import CONFIG, EMBED, X, model, rms_norm, softmax, tokens

from conformance.session import ModelCall, NotOffered, Raised, Returned, Step


def here(source: str, mark: str = "HERE") -> list[int]:
    """Numbers of the marked lines; the fixture puts one line before the source."""
    lines = textwrap.dedent(source).splitlines()
    return [number for number, line in enumerate(lines, 2) if mark in line]


def older_than(session, *version):
    """Whether the submission's interpreter is older."""
    return tuple(int(part) for part in session.offer.versions["python"].split(".")[:2]) < version


def seen(trace, variable=None, line=None):
    """The arrays recorded of a variable, or at a line."""
    return [
        record.array
        for record in trace.records
        if variable in (None, record.variable) and line in (None, record.line)
    ]


# ---------------------------------------------------------------------------- which line

SPREAD = 2 * X.astype(np.float32)
STATEMENTS = {
    "one line": ("s", "s = x * 2  # HERE\nreturn s"),
    "several lines": ("s", "s = np.add(  # HERE\n    x,\n    x,\n)\nreturn s"),
    "several lines, operators": ("s", "s = (x  # HERE\n    +\n    x)\nreturn s"),
    "a backslash": ("s", "s = x + \\\n    x  # no comment fits on the line before\nreturn s"),
    "augmented": ("s", "s = x.copy()\ns += x  # HERE\nreturn s"),
    "a slice": ("s", "s = x.copy()\ns[:] = x * 2  # HERE\nreturn s"),
    "an edit by a function": ("s", "s = x.copy()\nnp.multiply(s, 2, out=s)  # HERE\nreturn s"),
    "an edit by a method": ("s", "s = x.copy()\ns.put(np.arange(24), x * 2)  # HERE\nreturn s"),
    "an edit through a view": ("s", "s = x.copy()\nrow = s.reshape(-1)\nrow *= 2  # HERE\nreturn s"),
    "annotated": ("s", "s: object = x * 2  # HERE\nreturn s"),
    "a walrus": ("s", "if (s := x * 2) is not None:  # HERE\n    pass\nreturn s"),
    "two names": ("s", "s, t = x * 2, x  # HERE\nreturn s"),
    "a starred name": ("s[0]", "*s, t = x * 2, x  # HERE\nreturn s[0]"),
    "two statements": ("s", "t = x; s = t * 2  # HERE\nreturn s"),
    "one line of if": ("s", "if True: s = x * 2  # HERE\nreturn s"),
    "a loop's name": ("s", "for s in (x * 2,):  # HERE\n    pass\nreturn s"),
    "a loop's body": ("s", "for i in range(3):\n    s = x * i  # HERE\nreturn s"),
    "a loop's last time": ("s", "s = x\nwhile s is x:\n    s = x * 2  # HERE\nreturn s"),
    "with": (
        "s",
        "from contextlib import nullcontext\nwith nullcontext(x * 2) as s:  # HERE\n    pass\nreturn s",
    ),
    "an except clause": ("s", "try:\n    1 / 0\nexcept ZeroDivisionError:\n    s = x * 2  # HERE\nreturn s"),
    "finally": ("s", "try:\n    pass\nfinally:\n    s = x * 2  # HERE\nreturn s"),
    "the line that raises": (
        "s",
        "try:\n    s = x * 2; 1 / 0  # HERE\nexcept ZeroDivisionError:\n    pass\nreturn s",
    ),
    "an item": ("s['k']", "s = {}\ns['k'] = x * 2  # HERE\nreturn s['k']"),
    "an item under a pair": ("s[(0, 'k')]", "s = {}\ns[0, 'k'] = x * 2  # HERE\nreturn s[0, 'k']"),
    "an item of an item": ("s[0]['k']", "s = [{}]\ns[0]['k'] = x * 2  # HERE\nreturn x"),
    "an appended item": ("s[0]", "s = []\ns.append(x * 2)  # HERE\nreturn s[0]"),
    "a comprehension": ("s[1]", "s = [\n    x * i\n    for i in (1, 2)\n]\nreturn s[1]"),
    "an attribute": ("f.s", "f = lambda: None\nf.s = x * 2  # HERE\nreturn f.s"),
    "an attribute edited": ("f.s", "f = lambda: None\nf.s = x.copy()\nf.s[:] *= 2  # HERE\nreturn f.s"),
    "a nonlocal name": ("s", "s = x\ndef f():\n    nonlocal s\n    s = x * 2  # HERE\nf()\nreturn s"),
    "a global name": ("G", "global G\nG = x * 2  # HERE\nreturn G"),
    "the returned value": ("return", "return x * 2  # HERE"),
    "returned over lines": ("return", "return (  # HERE\n    x\n    * 2\n)"),
    "returned out of with": (
        "return",
        "import contextlib\nwith contextlib.nullcontext():\n    return x * 2  # HERE",
    ),
    "returned past finally": ("return", "y = 0\ntry:\n    return x * 2  # HERE\nfinally:\n    y += 1"),
    "an argument": ("norm(x)", "return norm(x * 2)  # HERE"),
    "an argument of arguments": ("many(rest[0])", "return many(x, x * 2)  # HERE"),
    "a lambda": ("return", "f = lambda a: a * 2  # HERE\nreturn f(x)"),
    "a generator": ("yield", "def f():\n    yield x * 2  # HERE\nreturn next(f())"),
    "a generator goes on": (
        "s",
        "def f():\n    s = x\n    yield\n    s = x * 2  # HERE\n    yield s\nreturn list(f())[1]",
    ),
    "a decorated function": ("return", "@twice\ndef f(a):\n    return a * 2  # HERE\nreturn f(x) / 2"),
    "match": ("s", "match [x * 2]:\n    case [s]:  # HERE\n        pass\nreturn s"),
}


def function(body: str) -> str:
    """A softmax with this body, and a few helpers."""
    helpers = """
        def norm(x):
            return x
        def many(first, *rest):
            return first
        def twice(f):
            def wrapped(*args, **kwargs):
                return f(*args, **kwargs) * 2
            return wrapped
        def softmax(x, axis):
    """
    return textwrap.dedent(helpers).rstrip(" ") + textwrap.indent(body, "    ") + "\n"


@pytest.mark.parametrize("name", STATEMENTS)
def test_an_array_is_recorded_with_the_line_that_made_it(submit, name):
    variable, body = STATEMENTS[name]
    if name == "match" and older_than(submit(""), 3, 10):
        pytest.skip("Python 3.9 has no match")
    source = function(body)
    lines = here(source) or here(source, "s = ")
    trace = submit(source).trace(softmax(), "float32")
    assert isinstance(trace.outcome, Returned), trace.outcome
    assert trace.notes == ()
    found = [
        record
        for record in trace.records
        if record.variable == variable and np.array_equal(record.array, SPREAD)
    ]
    assert found, [(record.line, record.variable) for record in trace.records]
    assert found[0].line == lines[0]
    statement = source.splitlines()[lines[0] - 2]
    assert found[0].text.startswith(statement.strip().rstrip("\\")[:20].strip())


def test_a_record_says_where_it_is(submit, tmp_path):
    trace = submit("def softmax(x, axis):\n    scores = x * 2\n    return scores\n").trace(
        softmax(), "float32"
    )
    first, last = trace.records
    assert (first.file, first.line, first.function) == (str(tmp_path / "adapter.py"), 3, "softmax")
    assert (first.text, first.variable, first.step) == ("scores = x * 2", "scores", None)
    assert (last.line, last.variable, last.text) == (4, "return", "return scores")
    assert not first.array.flags.writeable
    assert first.array.dtype == np.float32
    np.testing.assert_array_equal(first.array, SPREAD)


def test_arrays_edited_in_place_are_recorded_as_they_were(submit):
    source = """
        def softmax(x, axis):
            s = x.copy()
            s -= 1
            s[0] = 7
            hide(s)
            return s
        def hide(scores):
            scores[1] = -np.inf
    """
    trace = submit(source).trace(softmax(), "float32")
    versions = [record.array for record in trace.records if record.variable == "s"]
    x = X.astype(np.float32)
    np.testing.assert_array_equal(versions[0], x)
    np.testing.assert_array_equal(versions[1], x - 1)
    assert (versions[2][0] == 7).all()
    assert (versions[2][1] == x[1] - 1).all()
    assert (versions[3][1] == -np.inf).all()
    order = [(record.function, record.variable) for record in trace.records]
    assert order[-3:] == [("hide", "scores"), ("softmax", "s"), ("softmax", "return")]


def test_records_come_in_the_order_of_execution(submit):
    source = """
        def softmax(x, axis):
            a = x + 1
            b = inner(a)
            return b + 3
        def inner(a):
            c = a + 2
            return c
    """
    trace = submit(source).trace(softmax(), "float32")
    assert [record.variable for record in trace.records] == ["a", "c", "return", "b", "return"]


def test_names_bound_by_one_statement_come_in_its_order(submit):
    source = """
        def softmax(x, axis):
            d, a, c, b = x + 1, x + 2, x + 3, x + 4
            for n, m in ((x * 2, x * 3),):
                pass
            return x
    """
    trace = submit(source).trace(softmax(), "float32")
    assert [record.variable for record in trace.records] == ["d", "a", "c", "b", "n", "m", "return"]


def test_what_the_submission_was_given_is_no_record(submit):
    source = """
        def softmax(x, axis):
            return inner(x, [x], {"x": x})
        def inner(x, some, named):
            return x[..., ::-1].copy()
    """
    trace = submit(source).trace(softmax(), "float32")
    assert [(record.function, record.variable) for record in trace.records] == [
        ("inner", "return"),
        ("softmax", "return"),
    ]


def test_dtypes_and_layouts(submit):
    source = """
        def softmax(x, axis):
            mask = x > 1
            ids = np.arange(5, dtype=np.int16)
            half = x.astype(np.float16)
            wide = x.astype(np.float64)
            turned = x.T
            strided = x[..., ::2]
            scalar = x.max()
            rank_0 = np.array(3.0)
            words = np.array(["a", "b"])
            objects = np.array([None, x], dtype=object)
            numbers = x * 1j
            fields = np.zeros(4, dtype=[("a", "f4")])
            masked = np.ma.masked_array(x * 2, mask)
            matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
            empty = x[:0]
            return x
    """
    trace = submit(source).trace(softmax(), "float32")
    found = {record.variable: record.array for record in trace.records}
    x = X.astype(np.float32)
    assert found["mask"].dtype == bool
    assert found["ids"].dtype == np.int64
    assert found["half"].dtype == np.float16
    assert found["wide"].dtype == np.float64
    np.testing.assert_array_equal(found["turned"], x.T)
    np.testing.assert_array_equal(found["strided"], x[..., ::2])
    np.testing.assert_array_equal(found["masked"], x * 2)
    assert type(found["matrix"]) is np.ndarray
    assert found["matrix"].shape == (2, 2)
    names = {"mask", "ids", "half", "wide", "turned", "strided", "masked", "matrix", "return"}
    assert set(found) == names
    assert trace.notes == ()


def test_equal_contents_of_one_line_are_recorded_once(submit):
    source = """
        def softmax(x, axis):
            for i in range(100):
                s = x * (i % 2 + 1)
            return s
    """
    trace = submit(source).trace(softmax(), "float32")
    assert len(seen(trace, "s")) == 2


# ---------------------------------------------------------------------------- models

MODEL = """
class Model:
    def __init__(self, config, params):
        self.table = params["embed"][:, ::-1]  # HERE
    def forward(self, tokens, cache=None):
        past = [] if cache is None else cache
        ids = past + tokens[0].tolist()
        h = self.table[ids][None, len(past):] * len(ids)
        return h, ids
"""


def test_a_model_is_traced_from_its_construction_on(submit):
    session = submit(MODEL)
    call = ModelCall(
        CONFIG, {"embed": EMBED}, tuple(Step(tokens(i, 2).inputs, use_cache=True) for i in (1, 3))
    )
    usual = session.call(call, "float64")
    trace = session.trace(call, "float64")
    assert trace.notes == ()
    np.testing.assert_array_equal(seen(trace, "self.table", here(MODEL)[0])[0], EMBED[:, ::-1])
    assert [record.step for record in trace.records if record.variable == "self.table"] == [None]
    first, second = (record for record in trace.records if record.variable == "h")
    assert (first.step, second.step) == (0, 1)
    assert first.function == ("forward" if older_than(session, 3, 11) else "Model.forward")
    for mine, theirs in zip(trace.outcome.outputs, usual.outputs, strict=True):
        np.testing.assert_array_equal(mine.tensors["logits"], theirs.tensors["logits"])


def test_a_traced_model_is_made_anew_and_not_kept(submit):
    session = submit(
        """
        class Model:
            made = 0
            def __init__(self, config, params):
                Model.made += 1
                self.embed, self.calls = params["embed"], 0
            def forward(self, tokens):
                self.calls += 1
                print(Model.made, self.calls)
                return self.embed[tokens]
        """
    )
    assert session.call(model(tokens(1, 2)), "float32").printed == "1 1\n"
    assert session.trace(model(tokens(1, 2)), "float32").outcome.printed == "2 1\n"
    assert session.trace(model(tokens(1, 2)), "float32").outcome.printed == "3 1\n"
    assert session.call(model(tokens(1)), "float32").printed == "3 2\n"
    other = ModelCall(CONFIG, {"embed": EMBED * 2}, (tokens(1),))
    assert session.trace(other, "float32").outcome.printed == "4 1\n"
    assert session.call(other, "float32").printed == "5 1\n"


# ---------------------------------------------------------------------------- outcomes


def test_an_exception_leaves_the_records_until_then(submit):
    source = """
        def softmax(x, axis):
            s = x * 2
            t = s[:, :1]
            raise ValueError("here")
    """
    trace = submit(source).trace(softmax(), "float32")
    assert isinstance(trace.outcome, Raised)
    assert (trace.outcome.type, trace.outcome.message, trace.outcome.line) == ("ValueError", "here", 6)
    assert [record.variable for record in trace.records] == ["s", "t"]


def test_an_exception_in_a_later_step_leaves_the_records_of_all(submit):
    source = """
        class Model:
            def __init__(self, config, params):
                self.embed = params["embed"]
            def forward(self, tokens):
                h = self.embed[tokens]
                if tokens[0, 0] == 3:
                    raise ValueError
                return h
    """
    trace = submit(source).trace(model(tokens(1, 2), tokens(3, 4)), "float32")
    assert isinstance(trace.outcome, Raised)
    assert [record.step for record in trace.records if record.variable == "h"] == [0, 1]


def test_what_is_not_offered_has_no_records(submit):
    session = submit("def softmax(x, axis):\n    raise NotImplementedError\n")
    for call in (softmax(), rms_norm()):
        trace = session.trace(call, "float32")
        assert isinstance(trace.outcome, NotOffered)
        assert trace.records == ()


def test_calls_are_as_they_would_be_without_traces(submit):
    source = """
        calls = 0
        def softmax(x, axis):
            global calls
            calls += 1
            y = x * 2
            print(calls)
            return y
    """
    session = submit(source)
    first = session.call(softmax(), "float32")
    session.trace(softmax(), "float32")
    assert session.call(softmax(), "float32") is first
    inside = session.seconds_inside
    session.trace(softmax(1), "float32")
    assert session.seconds_inside == inside
    assert session.call(softmax(1), "float32").printed == "4\n"  # a trace is not remembered


def test_a_call_that_differs_under_the_trace_is_noted(submit):
    source = """
        import sys
        def softmax(x, axis):
            return x if sys.gettrace() is None else x * 2
    """
    session = submit(source)
    assert session.trace(softmax(), "float32").notes == ()  # nothing to compare with
    session.call(softmax(), "float32")
    assert session.trace(softmax(), "float32").notes == (
        "under the trace the call gave something else than before",
    )


def test_a_trace_before_open_is_an_error_of_the_caller(submit):
    session = submit("", opened=False)
    with pytest.raises(RuntimeError):
        session.trace(softmax(), "float32")
