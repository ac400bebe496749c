"""Submissions that cannot be graded as a whole, and what is read of those that can."""

import re
import sys
import time
from pathlib import Path

import pytest
from session_helpers import SOFTMAX, softmax

from conformance.session import EngineError, Limits, Returned, Session, TargetError


def refusal(submit, source: str, **more) -> TargetError:
    session = submit(source, opened=False, **more)
    with pytest.raises(TargetError) as caught:
        session.open()
    return caught.value


def test_an_exception_on_import_is_told_with_its_line(submit):
    error = refusal(submit, 'print("starting")\n\ndef f():\n    return 1 / 0\n\nx = f()')
    assert error.message.startswith("adapter.py: it raised ZeroDivisionError while it was imported (")
    assert "adapter.py, line 5): division by zero" in error.message
    assert "line 7, in <module>\n    x = f()" in error.traceback
    assert "in f\n    return 1 / 0" in error.traceback
    assert "_conformance_worker" not in error.traceback
    assert "worker/" not in error.traceback
    assert error.printed == "starting\n"
    assert "run the file with Python" in error.hint


def test_a_syntax_error_is_told_with_its_line(submit):
    error = refusal(submit, "\ndef softmax(x, axis)\n    return x")
    assert "SyntaxError" in error.message
    assert "adapter.py, line 3)" in error.message


def test_a_missing_package_names_the_interpreter(submit):
    error = refusal(submit, "import surely_not_installed.anywhere")
    assert "ModuleNotFoundError" in error.message
    assert error.hint.startswith(f"{sys.executable} cannot import surely_not_installed")
    assert "--python" in error.hint


def test_the_reference_program_cannot_be_imported(submit):
    error = refusal(submit, "import conformance.session")
    assert "conformance" in error.message
    assert "it would grade itself" in error.hint


def test_sys_exit_on_import(submit):
    error = refusal(submit, "import sys\nsys.exit(0)")
    assert "SystemExit" in error.message
    assert "__main__" in error.hint


@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("import os\nos._exit(0)", "its process exited with status 0 while it was imported"),
        ("import os\nos._exit(93)", "its process closed the connection to the runner while it was imported"),
        (
            "import ctypes\nctypes.string_at(0)",
            "its process was killed by signal SIGSEGV while it was imported",
        ),
        (
            "import os\nfor fd in range(3, 30):\n    try: os.write(fd, b'x' * 99)\n    except OSError: pass",
            "the worker sent something that is not an answer while it was imported",
        ),
    ],
)
def test_a_process_that_ends_on_import(submit, source, how):
    error = refusal(submit, source)
    assert error.message == f"adapter.py: {how}"


def test_an_import_without_end_is_ended(submit):
    started = time.monotonic()
    error = refusal(submit, "while True:\n    pass", limits=Limits(import_timeout=0.7))
    assert time.monotonic() - started < 5
    assert error.message == "adapter.py: importing it did not end within 0.7 s"
    assert error.hint.endswith("pass a --timeout of more than 0.7")
    assert re.search(r'adapter\.py", line [23] in <module>', error.printed)  # the stack at that moment


def test_a_recursion_on_import(submit):
    error = refusal(submit, "def f(n):\n    return f(n + 1)\nf(0)")
    assert "RecursionError" in error.message
    assert "frames left out" in error.traceback
    assert len(error.traceback) < 20_000


def test_out_of_memory_on_import(submit):
    error = refusal(submit, "x = np.ones(1 << 30)", limits=Limits(memory_mb=512))
    assert "MemoryError" in error.message


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('framework = "jax"', '`framework` is "jax" (line 2); it has to be one of "numpy", "torch"'),
        ("framework = np", "`framework` is an object of class module (line 2)"),
        ("dtype = np.float32", "`dtype` is an object of class type (line 2); it has to be a name or a list"),
        ('dtype = ["float32", "fp16"]', '`dtype` is ["float32", "fp16"] (line 2)'),
        ("dtype = []", "`dtype` is [] (line 2)"),
        ("variant = 3", "`variant` is an int (line 2)"),
        ('variant = ["llama", None]', '`variant` is ["llama", None] (line 2)'),
        ('variant = {"base": np}', "`variant` is a dict (line 2)"),
        ("fully_masked = True", "`fully_masked` is a bool (line 2)"),
        ('fully_masked = "nan"', '"zero", "mean", "unmasked", "error", "avoids"'),
    ],
)
def test_a_wrong_declaration_is_told_with_its_line(submit, line, told):
    error = refusal(submit, line + "\n" + SOFTMAX)
    assert told in error.message
    assert "correct `" in error.hint


def test_a_declaration_that_bites_when_touched(submit):
    error = refusal(
        submit,
        """
        class Bite:
            def __getattribute__(self, name): raise RuntimeError("touched")
            def __eq__(self, other): raise RuntimeError("touched")
            def __hash__(self): raise RuntimeError("touched")
            def __bool__(self): raise RuntimeError("touched")
            def __repr__(self): raise RuntimeError("touched")
        framework = Bite()
        """,
    )
    assert "`framework` is an object of class Bite (line 9)" in error.message


def test_functions_that_bite_when_looked_at_do_no_harm(submit):
    session = submit(
        SOFTMAX
        + """
class Bite:
    def __getattribute__(self, name): raise RuntimeError("touched")
    def __call__(self, **given): return given["x"]
block = Bite()
other = Bite()
class Meta(type):
    def __getattribute__(cls, name): raise RuntimeError("touched")
class Model(metaclass=Meta): pass
"""
    )
    assert isinstance(session.call(softmax(), "float32"), Returned)
    assert "block" in session.offer.functions


def test_a_missing_file_and_one_that_was_meant(tmp_path: Path):
    (tmp_path / "adapter.py").write_text("")
    with pytest.raises(TargetError) as caught:
        Session(tmp_path / "adaptor.py", names=[]).open()
    assert "there is no file" in caught.value.message
    assert caught.value.hint == f"did you mean {tmp_path / 'adapter.py'}?"
    with pytest.raises(TargetError, match="there is no file") as caught:
        Session(tmp_path, names=[]).open()
    assert "folder" in caught.value.hint


def test_a_file_with_nothing_to_grade_is_opened_and_offers_nothing(submit):
    session = submit("def sofmax(x): pass\nclass Thing: pass\n_hidden = lambda: 0\nfrom os.path import join")
    assert session.offer.functions == {}
    assert session.offer.others == ("sofmax", "Thing")


def test_the_offer(submit):
    session = submit(
        """
        framework = "numpy"
        dtype = ["float32", "float16", "float32"]
        variant = ["llama", {"base": "gpt2", "norm_eps": 1e-6}]
        fully_masked = "zero"
        def softmax(x, axis): pass
        def attention(q, k, v, mask=None, **more): pass
        class Model:
            def __init__(self, config, params): pass
            def forward(self, tokens, *, cache=None): pass
        def parameter_shapes(config): pass
        """
    )
    offer = session.offer
    assert offer.framework == "numpy"
    assert (offer.dtypes, offer.dtype_declared) == (("float32", "float16"), True)
    assert offer.variants == ("llama", {"base": "gpt2", "norm_eps": 1e-6})
    assert offer.fully_masked == "zero"
    assert set(offer.functions) == {"softmax", "attention", "Model", "Model.forward"}
    attention = offer.functions["attention"]
    assert attention.parameters == ("q", "k", "v", "mask")
    assert attention.required == ("q", "k", "v")
    assert attention.accepts_any
    assert Path(attention.file).name == "adapter.py"
    assert attention.line == 8
    assert offer.functions["Model"].required == ("config", "params")
    assert offer.functions["Model.forward"].parameters == ("tokens", "cache")
    assert offer.functions["Model.forward"].line == 11
    assert offer.parameter_shapes
    assert offer.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "torch" not in offer.versions
    assert session.isolation == "own process, memory limit 4096 MB, deadline 5 s"


def test_without_declarations(submit):
    offer = submit(SOFTMAX).offer
    assert (offer.framework, offer.dtypes, offer.dtype_declared) == ("numpy", ("float32",), False)
    assert (offer.variants, offer.fully_masked, offer.parameter_shapes) == ((), None, False)


@pytest.mark.parametrize("stem", ["protocol", "load", "json", "numpy", "main", "limits", "my-file", "torch"])
def test_a_submission_may_have_any_name(submit, stem):
    """Those of the worker's modules, and of modules that it has imported, included."""
    session = submit(SOFTMAX, file=f"{stem}.py")
    assert isinstance(session.call(softmax(), "float32"), Returned)


def test_modules_beside_the_submission_are_its_own(submit, tmp_path):
    for name in ("protocol", "load", "invoke", "taps"):
        (tmp_path / f"{name}.py").write_text(f"who = 'theirs: {name}'")
    session = submit(
        "import protocol, load, invoke, taps\nprint(protocol.who, load.who, invoke.who, taps.who)"
    )
    assert session.offer.printed == "theirs: protocol theirs: load theirs: invoke theirs: taps\n"


def test_the_worker_lends_nothing_by_accident(submit):
    session = submit(
        """
        import os, sys
        print(sys.argv, sys.path[0] == os.path.dirname(os.path.abspath(__file__)))
        print([entry for entry in sys.path if entry.endswith("worker")])
        print(sorted(name for name in sys.modules if name in ("protocol", "load", "invoke")))
        print(os.getcwd() == os.environ["HOME"] == os.environ["TMPDIR"], os.listdir("."))
        print(repr(sys.stdin.read()))
        print(__name__, sys.modules[__name__].__file__ == __file__)
        """,
        arguments=["/some/file.py:GPT", "--fast"],
    )
    lines = session.offer.printed.splitlines()
    assert lines[0].endswith("adapter.py', '/some/file.py:GPT', '--fast'] True")
    assert lines[1:] == ["[]", "[]", "True []", "''", "adapter True"]


def test_the_environment_is_a_small_one(submit, monkeypatch):
    monkeypatch.setenv("A_SECRET", "x")
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    session = submit(
        """
        import os, sys
        print(os.environ.get("A_SECRET"), os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_CORETYPE"])
        print(os.path.isabs(os.environ["PYTHONPATH"]), sys.flags.dont_write_bytecode, sys.flags.hash_randomization)
        """
    )
    assert session.offer.printed == "None 1 Haswell\nTrue 1 0\n"


def test_the_private_folder_is_removed(submit):
    session = submit("import os\nopen('left.txt', 'w').write('x')\nprint(os.getcwd())")
    folder = Path(session.offer.printed.strip())
    assert (folder / "left.txt").is_file()
    session.close()
    assert not folder.exists()


def test_no_bytecode_is_left_beside_the_submission(submit, tmp_path):
    (tmp_path / "helper.py").write_text("")
    submit("import helper")
    assert not (tmp_path / "__pycache__").exists()


# ------------------------------------------------------------------------------------- the interpreter


def test_an_interpreter_given_by_its_path_and_by_its_name(submit):
    for number, python in enumerate((sys.executable, Path(sys.executable).name)):
        session = submit(SOFTMAX, python=python, file=f"a{number}.py", opened=False)
        if number == 0:
            assert session.open().versions["executable"] == sys.executable
            assert isinstance(session.call(softmax(), "float32"), Returned)
        else:  # found on PATH, where it may lack NumPy: then that is what is said
            try:
                session.open()
            except EngineError as error:
                assert "NumPy" in error.message  # noqa: PT017 - either is right


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be started: No such file or directory"),
        ("#!/bin/sh\necho I am no Python\nexit 7\n", "cannot run a submission: I am no Python"),
        ("#!/bin/sh\nexit 7\n", "cannot run a submission: exited with status 7"),
        ("not a program at all", "cannot be started: Exec format error"),
    ],
)
def test_what_is_no_interpreter_is_not_the_submissions_fault(submit, tmp_path, content, told):
    python = tmp_path / "python"
    if content is not None:
        python.write_text(content)
        python.chmod(0o755)
    session = submit(SOFTMAX, python=str(python), opened=False)
    with pytest.raises(EngineError) as caught:
        session.open()
    assert told in caught.value.message
    assert "--python" in caught.value.hint


def test_an_interpreter_that_does_not_start(submit, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 60\n")
    python.chmod(0o755)
    session = submit(SOFTMAX, python=str(python), opened=False, limits=Limits(import_timeout=0.5))
    with pytest.raises(EngineError, match=r"did not start within 0\.5 s"):
        session.open()


def wrapper(tmp_path: Path, code: str) -> str:
    """An interpreter that runs `code` before anything else."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(code)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.modules['numpy'] = None", "NumPy cannot be imported: ModuleNotFoundError"),
        ("import numpy; numpy.__version__ = '1.20.3'", "NumPy 1.20.3 is too old: 1.21 or newer is needed"),
        ("import sys; sys.version_info = (3, 8, 1)", "Python 3.8 is too old: 3.9 or newer is needed"),
    ],
)
def test_an_interpreter_without_what_is_needed(submit, tmp_path, code, told):
    session = submit(SOFTMAX, python=wrapper(tmp_path, code), opened=False)
    with pytest.raises(EngineError) as caught:
        session.open()
    assert told in caught.value.message
    assert "needs Python 3.9 and NumPy 1.21" in caught.value.hint


def test_the_worker_is_understood_by_python_3_9():
    import ast

    import conformance.worker

    files = sorted(Path(conformance.worker.__file__).parent.glob("*.py"))
    assert len(files) > 8
    for file in files:
        text = file.read_text(encoding="utf-8")
        ast.parse(text, feature_version=(3, 9))
        assert "import conformance" not in text
        assert "from conformance" not in text


def test_a_worker_without_the_package(submit, tmp_path):
    """The folder alone, copied elsewhere, is a worker."""
    import shutil
    import subprocess

    import conformance.worker

    shutil.copytree(Path(conformance.worker.__file__).parent, tmp_path / "alone")
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "alone" / "__main__.py"), "999"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Bad file descriptor" in done.stderr  # it got as far as its socket
