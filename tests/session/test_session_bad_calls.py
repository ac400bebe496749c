"""Calls that do not give a tensor, and what the session makes of them."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from session_helpers import SOFTMAX, X, model, rms_norm, softmax

from conformance.session import Crashed, Limits, OperationCall, Raised, Returned, TimedOut, Unusable

GOOD_NORM = "\ndef rms_norm(x, weight, eps):\n    return x\n"


def bad_softmax(body: str) -> str:
    return (
        "import os, sys, ctypes, time, signal\ndef softmax(x, axis):\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + GOOD_NORM
    )


def check_next_call(session) -> None:
    """The run goes on."""
    outcome = session.call(rms_norm(), "float32")
    assert isinstance(outcome, Returned), outcome
    np.testing.assert_array_equal(outcome.outputs[0].tensors["output"], X)


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ("[1.0, 2.0]", "a list"),
        ("x.tolist()", "a list"),
        ("'text'", "a str"),
        ("None", "None"),
        ("3.5", "a float"),
        ("True", "a bool"),
        ("{'output': x}", "a dict"),
        ("(x,)", "a tuple of 1"),
        ("x.astype(object)", "an array of dtype object"),
        ("x.astype(int)", "an array of dtype int64"),
        ("x > 0", "an array of dtype bool"),
        ("x + 1j", "an array of dtype complex64"),
        ("np.array(['a'])", "an array of dtype str32"),
        ("np.float32", "an object of class type"),
        ("(v for v in x)", "an object of class generator"),
    ],
)
def test_what_is_no_tensor_of_floats_is_unusable(submit, value, got):
    session = submit(bad_softmax(f"return {value}"))
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Unusable)
    assert outcome.got == got
    assert outcome.expected == "output, a numpy array of floats"
    check_next_call(session)
    assert session.starts == 1


def test_objects_that_fail_when_touched(submit):
    session = submit(
        """
        class Bite:
            def __getattribute__(self, name): raise RuntimeError("touched")
            def __array__(self, *a, **k): raise RuntimeError("touched")
            def __repr__(self): raise RuntimeError("touched")
            def __bool__(self): raise RuntimeError("touched")
            def __eq__(self, other): raise RuntimeError("touched")
            def __len__(self): raise RuntimeError("touched")
        class BiteArray(np.ndarray):
            def __array_finalize__(self, obj): pass
            def __getattribute__(self, name): raise RuntimeError("touched")
            def __array_ufunc__(self, *a, **k): raise RuntimeError("touched")
        class BiteTuple(tuple):
            def __len__(self): raise RuntimeError("touched")
            def __iter__(self): raise RuntimeError("touched")
        class Meta(type):
            def __getattribute__(cls, name): raise RuntimeError("touched")
        class BiteClass(metaclass=Meta): pass
        def softmax(x, axis): return Bite()
        def rms_norm(x, weight, eps): return x.view(BiteArray)
        def attention(q, k, v): return BiteTuple((q, k))
        def block(x, params, config): return BiteClass()
        """
    )
    outcome = session.call(softmax(), "float32")
    assert (type(outcome), outcome.got) == (Unusable, "an object of class Bite")
    check_next_call(session)  # it is an array all the same
    attention = session.call(OperationCall("attention", {"q": X, "k": X, "v": X}), "float32")
    assert set(attention.outputs[0].tensors) == {"output", "weights"}
    block = session.call(OperationCall("block", {"x": X, "params": {}}, config={}), "float32")
    assert block.got == "an object of class BiteClass"
    assert session.starts == 1


def test_a_wrong_shape_and_nan_are_returned_for_others_to_judge(submit):
    session = submit(bad_softmax("return np.full((2, 4, 3), np.nan, np.float32)"))
    output = session.call(softmax(), "float32").outputs[0]
    assert output.shapes["output"] == (2, 4, 3)
    assert np.isnan(output.tensors["output"]).all()


@pytest.mark.parametrize(
    "value",
    [
        "np.broadcast_to(np.float32(0), (10**6, 10**6))",
        "np.broadcast_to(np.float32(0), (300, 300))",  # only too large for a wrong shape
        "np.lib.stride_tricks.as_strided(x, (1 << 30, 1 << 30), (0, 0))",
    ],
)
def test_a_huge_shape_is_told_and_not_read(submit, value):
    session = submit(bad_softmax(f"return {value}"))
    started = time.monotonic()
    output = session.call(softmax(), "float32").outputs[0]
    assert time.monotonic() - started < 1
    assert output.tensors == {}
    assert len(output.shapes["output"]) == 2
    assert session.call(softmax(), "float32").outputs[0].dtypes == {"output": "float32"}
    check_next_call(session)
    assert session.starts == 1


def test_an_output_over_the_limit_is_not_read_even_when_expected(submit):
    session = submit(SOFTMAX, limits=Limits(tensor_bytes=50))
    output = session.call(softmax(), "float32").outputs[0]
    assert (output.tensors, output.shapes) == ({}, {"output": (2, 3, 4)})


def test_taps_without_end_are_bounded(submit):
    session = submit(
        """
        def block(x, params, config, tap):
            for i in range(10_000):
                tap("\\N{GRINNING FACE}" * 90 + str(i), x)
            return x
        """
    )
    started = time.monotonic()
    call = OperationCall("block", {"x": X, "params": {}}, config={}, tap=True)
    output = session.call(call, "float32").outputs[0]
    assert 500 < len(output.taps) <= 4096
    assert 0 < len(output.notes) <= 20
    assert "taps" in output.notes[0]
    assert time.monotonic() - started < 4

    session = submit(
        """
        def block(x, params, config, tap):
            for i in range(200):
                tap(str(i), np.zeros(100_000, np.float32))
            tap("small", x)
            return x
        """,
        file="large.py",
        limits=Limits(tensor_bytes=4_000_000),
    )
    output = session.call(call, "float32").outputs[0]
    assert sum(array.nbytes for array in output.taps.values()) <= 4_000_000
    assert len(output.taps) >= 10
    assert "too many bytes" in output.notes[0]


def test_an_exception_is_told_with_the_submissions_own_line(submit, tmp_path):
    (tmp_path / "helper.py").write_text(
        "import numpy as np\ndef inner(x):\n    return np.reshape(x, (5, 5))\n"
    )
    session = submit("import helper\ndef softmax(x, axis):\n    return helper.inner(x)\n" + GOOD_NORM)
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Raised)
    assert outcome.type == "ValueError"
    assert outcome.message == "cannot reshape array of size 24 into shape (5,5)"
    # NumPy's own frames lie deeper, and are in the traceback
    assert (outcome.file, outcome.line) == (str(tmp_path / "helper.py"), 3)
    assert outcome.text == "return np.reshape(x, (5, 5))"
    assert "fromnumeric.py" in outcome.traceback
    assert outcome.step is None
    check_next_call(session)
    assert session.starts == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("sys.exit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("return softmax(x, axis)", "RecursionError"),
        ("class E(BaseException):\n    def __str__(self): raise E()\nraise E()", "adapter.E"),
        ("raise StopIteration", "StopIteration"),
        ("raise ValueError('long ' * 100_000)", "ValueError"),
        ("exec(compile('1/0', 'name' * 100_000, 'exec'))", "ZeroDivisionError"),
        ("import conformance.session", "ModuleNotFoundError"),
    ],
)
def test_whatever_is_raised_is_told_and_the_process_lives(submit, body, kind):
    session = submit(bad_softmax(body))
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Raised), outcome
    assert outcome.type == kind
    assert len(outcome.message) <= 2001
    assert len(outcome.traceback) <= 17_000
    check_next_call(session)
    assert session.starts == 1


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("os._exit(0)", "exited with status 0 in the middle of a call"),
        ("os._exit(3)", "exited with status 3 in the middle of a call"),
        ("ctypes.string_at(0)", "killed by signal SIGSEGV"),
        ("os.abort()", "killed by signal SIGABRT"),
        ("os.kill(os.getpid(), 9)", "killed by signal SIGKILL (by the system: often because memory ran out)"),
        ("os.closerange(0, 256)\nreturn x", "closed the connection to the runner in the middle of a call"),
        (
            "os.closerange(0, 256)\ntime.sleep(60)",
            "closed the connection to the runner in the middle of a call",
        ),
    ],
)
def test_the_end_of_the_process_costs_one_call(submit, body, how):
    session = submit(bad_softmax(body))
    started = time.monotonic()
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Crashed), outcome
    assert outcome.how.startswith(how)
    assert time.monotonic() - started < 4
    check_next_call(session)
    assert session.starts == 2


def test_a_crash_shows_where(submit):
    session = submit(bad_softmax("print('before', end='')\nctypes.string_at(0)"))
    printed = session.call(softmax(), "float32").printed
    assert printed.startswith("before")
    assert "in softmax" in printed


def test_a_crash_in_a_process_that_has_served_others_is_tried_once_more(submit):
    session = submit(
        """
        import os
        calls = 0
        def rms_norm(x, weight, eps):
            global calls
            calls += 1
            if calls > 1:
                os._exit(1)
            return x
        """
    )
    for repetition in range(4):  # never twice in one process
        assert isinstance(session.call(rms_norm(repetition), "float32"), Returned)
    assert session.starts == 4


def test_a_call_without_end_is_ended_and_shows_where(submit):
    session = submit(bad_softmax("print('going')\nwhile True:\n    pass"), limits=Limits(timeout=0.6))
    started = time.monotonic()
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, TimedOut)
    assert outcome.after == 0.6
    assert 0.6 <= time.monotonic() - started < 3
    assert outcome.printed.startswith("going\n")
    assert "in softmax" in outcome.printed
    check_next_call(session)


def test_a_call_that_cannot_be_interrupted_is_ended_too(submit):
    body = "for s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
    session = submit(bad_softmax(body + "time.sleep(60)"), limits=Limits(timeout=0.5))
    started = time.monotonic()
    assert isinstance(session.call(softmax(), "float32"), TimedOut)
    assert time.monotonic() - started < 3
    check_next_call(session)


@pytest.mark.parametrize(("body", "kind"), [("time.sleep(60)", TimedOut), ("os._exit(0)", Crashed)])
def test_after_two_of_them_a_function_is_not_tried_again(submit, body, kind):
    session = submit(bad_softmax(body), limits=Limits(timeout=0.3))
    for repetition in range(2):
        assert isinstance(session.call(softmax(repetition), "float32"), kind)
    starts, started = session.starts, time.monotonic()
    outcome = session.call(softmax(2), "float32")
    assert isinstance(outcome, kind)
    text = outcome.note if isinstance(outcome, TimedOut) else outcome.how
    assert text.startswith("not tried again after 2 calls of softmax that")
    assert session.starts == starts
    assert time.monotonic() - started < 0.1
    check_next_call(session)


@pytest.mark.parametrize(
    "body",
    [
        "return np.ones(1 << 28)",
        "return np.empty(1 << 45)",
        "kept = []\nwhile True:\n    kept.append(bytes(1 << 20))",
        "return [0] * (1 << 33)",
    ],
)
def test_memory_is_limited(submit, body):
    session = submit(bad_softmax(body), limits=Limits(memory_mb=512))
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Crashed), outcome
    assert outcome.how.startswith("out of memory (limit 512 MB)")
    check_next_call(session)
    assert session.starts == 2


@pytest.mark.parametrize("stream", ["sys.stdout", "sys.stderr"])
def test_megabytes_that_are_printed_are_bounded_and_block_nothing(submit, stream):
    session = submit(
        bad_softmax(f"for i in range(5_000):\n    print(i, 'x' * 1000, file={stream})\nreturn x")
    )
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Returned)
    assert 64 * 1024 <= len(outcome.printed) < 64 * 1024 + 100
    assert outcome.printed.startswith("0 xxx")
    assert outcome.printed.endswith("x\n")
    assert "\n4999 xxx" in outcome.printed
    assert " bytes left out …" in outcome.printed
    check_next_call(session)


def test_a_thread_that_prints_without_end_blocks_nothing(submit):
    session = submit(
        """
        import os, threading
        def run():
            while True:
                os.write(1, b"y" * 4096)
        threading.Thread(target=run).start()
        """
        + "\n".join("        " + line for line in GOOD_NORM.splitlines())
    )
    for repetition in range(20):
        outcome = session.call(rms_norm(repetition), "float32")
        assert isinstance(outcome, Returned)
        assert len(outcome.printed) < 70_000


def test_children_of_a_submission_end_with_it(submit):
    session = submit(
        """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
        print(child.pid)
        """
    )
    pid = int(session.offer.printed)
    os.kill(pid, 0)
    session.close()
    assert ended(pid)


def test_a_worker_ends_when_the_runner_is_gone(tmp_path):
    (tmp_path / "adapter.py").write_text("import os\nprint(os.getpid())")
    runner = (
        "import os, pathlib\nfrom conformance.session import Session\n"
        f"session = Session(pathlib.Path({str(tmp_path / 'adapter.py')!r}), names=[])\n"
        "print(session.open().printed, flush=True)\nos._exit(0)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # nobody is left to remove the worker's folder
    command = [sys.executable, "-c", runner]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert ended(int(done.stdout))


def ended(pid: int) -> bool:
    """Whether the process is gone, or a zombie that its new parent has not looked after yet."""
    for _ in range(100):
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        if state.stdout.strip() in ("", "Z"):
            return True
        time.sleep(0.02)
    return False


def test_a_fork_that_comes_back_from_the_call_answers_once(submit):
    session = submit(bad_softmax("os.fork()\nreturn x"))
    for repetition in range(5):
        assert isinstance(session.call(softmax(repetition), "float32"), Returned)
    check_next_call(session)
    assert session.starts == 1


def test_a_crash_is_seen_although_a_child_holds_the_socket(submit):
    session = submit(bad_softmax("if os.fork() == 0:\n    time.sleep(60)\nos._exit(5)"))
    started = time.monotonic()
    outcome = session.call(softmax(), "float32")
    assert isinstance(outcome, Crashed)
    assert outcome.how == "exited with status 5 in the middle of a call"
    assert time.monotonic() - started < 3
    check_next_call(session)


def test_a_submission_that_is_gone_after_its_import(submit, tmp_path):
    session = submit("import os\nos.remove(__file__)\n" + bad_softmax("return 1 / 0"))
    assert not (tmp_path / "adapter.py").exists()
    outcome = session.call(softmax(), "float32")
    assert (outcome.type, outcome.text) == ("ZeroDivisionError", "return 1 / 0")
    check_next_call(session)
    crash = session.call(OperationCall("softmax", {"x": X, "axis": "exit"}), "float32")
    assert isinstance(crash, Raised)


def test_a_submission_that_cannot_be_imported_a_second_time(submit):
    session = submit("import os\nos.remove(__file__)\n" + bad_softmax("os._exit(1)"))
    assert isinstance(session.call(softmax(), "float32"), Crashed)
    outcome = session.call(rms_norm(), "float32")
    assert isinstance(outcome, Crashed)
    assert "could not be imported once more" in outcome.how
    again = [session.call(rms_norm(repetition), "float32").how for repetition in (1, 2)]
    assert again[-1].startswith("not tried again after 2")


def test_a_model_that_crashes_and_hangs(submit):
    session = submit(
        """
        import os, time
        class Model:
            def __init__(self, config, params): pass
            def forward(self, tokens):
                if tokens[0, 0] == 1:
                    os._exit(4)
                time.sleep(100)
        """,
        limits=Limits(timeout=0.5),
    )
    assert isinstance(session.call(model(), "float32"), Crashed)
    assert isinstance(session.call(model(repetition=1), "float32"), Crashed)
