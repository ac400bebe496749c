"""From an interpreter and a file to a process that has imported it, or to the reason why not."""

import difflib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.session import answers
from conformance.session.errors import EngineError, TargetError
from conformance.session.outcomes import Offer
from conformance.session.process import GARBLED, EngineFault, Gone, Late, WorkerProcess
from conformance.worker import protocol


@dataclass(frozen=True)
class Limits:
    """What a submission may use.

    Attributes:
        timeout: seconds for one call (all steps of a model together).
        import_timeout: seconds to import it; also for the interpreter to start.
        memory_mb: MiB that the process may write to.
        tensor_bytes: bytes that the tensors of one call, and its taps, may have together.
    """

    timeout: float = 10.0
    import_timeout: float = 60.0
    memory_mb: int = 4096
    tensor_bytes: int = 256 << 20


def launch(
    target: Path,
    names: Sequence[str],
    arguments: Sequence[str],
    python: str,
    limits: Limits,
    home: Path,
    among: bool,
) -> tuple[WorkerProcess, Offer, str]:
    """Starts a worker and imports the submission in it.

    Args:
        target: the adapter file.
        names: functions to look for.
        arguments: for the adapter's `sys.argv[1:]`.
        python: the interpreter.
        limits: what it may use.
        home: private folder of the worker.
        among: whether its folder is searched last, see `Session`.

    Returns:
        the process, the offer, and how the system limits its memory: 'data', 'address space' or ''.

    Raises:
        TargetError: the submission's fault.
        EngineError: ours, or the interpreter's.
    """
    try:
        worker = WorkerProcess(python, home)
    except OSError as error:
        raise EngineError(
            f"the interpreter {python} cannot be started: {error.strerror or error}", "check --python"
        ) from None
    try:
        versions = _greet(worker, python, limits)
        request = {
            "path": str(target.absolute()),
            "names": names,
            "arguments": arguments,
            "among": among,
            "memory_mb": limits.memory_mb,
            "tensor_bytes": limits.tensor_bytes,
            "timeout": limits.import_timeout,
        }
        started = time.monotonic()
        meta = _load(worker, request, target.name)
        printed = worker.printed()
        if not meta.get("ok"):
            message, hint, traceback = (str(meta.get(key) or "") for key in ("message", "hint", "traceback"))
            raise TargetError(f"{target.name}: {message}", hint, printed, traceback)
        try:
            offer = answers.offer_of(meta, versions, printed, time.monotonic() - started)
        except answers.Malformed:
            raise TargetError(f"{target.name}: {GARBLED}", "", printed) from None
        return worker, offer, str(meta.get("memory") or "")
    except BaseException:
        worker.end()
        raise


def _greet(worker: WorkerProcess, python: str, limits: Limits) -> dict[str, str]:
    """Versions of the interpreter. It has not seen the submission yet: what fails is not its fault."""
    try:
        meta = worker.ask(protocol.HELLO, None, seconds=limits.import_timeout).meta
    except Late:
        how = f"did not start within {limits.import_timeout:g} s"
    except (Gone, EngineFault) as error:
        lines = worker.printed().strip().splitlines() or [str(error)]
        raise EngineError(
            f"the interpreter {python} cannot run a submission: {lines[-1][:500]}",
            "it needs Python 3.9 and NumPy 1.21 or newer; check --python",
            "\n".join(lines),
        ) from None
    else:
        return {name: str(meta[name]) for name in ("python", "numpy", "executable")}
    raise EngineError(f"the interpreter {python} {how}", "check --python", worker.printed())


def _load(worker: WorkerProcess, request: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Has the submission imported; returns the answer. Raises TargetError, EngineError."""
    seconds = request["timeout"]
    assert isinstance(seconds, float | int)
    try:
        meta = worker.ask(protocol.LOAD, request, seconds=seconds).meta
    except Late:
        raise TargetError(
            f"{name}: importing it did not end within {seconds:g} s",
            'put what the file does as a program under `if __name__ == "__main__":`; '
            f"if it only takes long, pass a --timeout of more than {seconds:g}",
            worker.printed(),
        ) from None
    except Gone as error:
        how = str(error)
        if how != GARBLED:
            how = "its process " + ("was " if how.startswith("killed") else "") + how
        raise TargetError(
            f"{name}: {how} while it was imported",
            "run the file with Python by itself: its import has to end without ending the process",
            worker.printed(),
        ) from None
    except EngineFault as error:
        raise fault(error, worker) from None
    if not isinstance(meta, dict):
        raise TargetError(f"{name}: {GARBLED}", "", worker.printed())
    return meta


def fault(error: EngineFault, worker: WorkerProcess) -> EngineError:
    """The error for a failure of the worker's own code."""
    return EngineError(
        f"the worker failed; this is a fault of transformer-conformance, not of the submission:\n{error}",
        "please report it with the file that was graded",
        worker.printed(),
    )


def nearby(path: Path) -> str:
    """A file that may have been meant."""
    if path.is_dir():
        return "that is a folder; name the adapter file in it"
    folder = path.parent
    names = [entry.name for entry in folder.glob("*.py")] if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean {folder / close[0]}?" if close else "check the path"
