"""The environment of a worker: small, the same on every run, and with nothing to write to of ours."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

# What is passed on. HOME and the temporary folder are the worker's own.
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OPENBLAS_CORETYPE")

FIXED = {
    # Two graded side by side must not fight over the cores, and one thread sums in one order.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONIOENCODING": "utf-8:backslashreplace",
}


def worker_environment(home: Path, parent: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment variables of a worker whose private folder is `home`.

    Args:
        home: absolute path of an existing folder.
        parent: variables to choose from, by default those of this process.
    """
    source = os.environ if parent is None else parent
    environment = {name: source[name] for name in KEPT if name in source}
    environment |= FIXED | {"HOME": str(home), "TMPDIR": str(home)}
    # Packages of `pip install --user` are found through HOME, which is another one now.
    environment["PYTHONUSERBASE"] = source.get("PYTHONUSERBASE") or str(Path("~/.local").expanduser())
    if path := source.get("PYTHONPATH"):
        # Relative entries mean the folder where the user stands; the worker stands elsewhere.
        entries = [str(Path(entry).absolute()) for entry in path.split(os.pathsep) if entry]
        environment["PYTHONPATH"] = os.pathsep.join(entries)
    return environment


def start(python: str, descriptor: int, output: int, home: Path) -> "subprocess.Popen[bytes]":
    """Starts a worker in a session of its own.

    Args:
        python: interpreter, a path or a name on PATH.
        descriptor: its end of the socket; the only descriptor that it inherits.
        output: where its standard output and error go; standard input is empty.
        home: its private folder and working directory.

    Raises:
        OSError: the interpreter cannot be started.
    """
    main = Path(__file__).resolve().parent.parent / "worker" / "__main__.py"
    return subprocess.Popen(
        [python, "-u", str(main), str(descriptor)],  # -u: what is printed before a crash is not lost
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=home,
        env=worker_environment(home),
        pass_fds=(descriptor,),
        start_new_session=True,  # the whole group can be ended, with what it started
    )
