"""A session with one submission: open it, call it, survive it."""

import difflib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from conformance.session import answers
from conformance.session.calls import Call, ModelCall
from conformance.session.errors import TargetError
from conformance.session.launch import Limits, fault, launch, nearby
from conformance.session.outcomes import Crashed, NotOffered, Offer, Outcome, Raised, Returned, TimedOut
from conformance.session.process import GARBLED, EngineFault, Gone, Late, WorkerProcess
from conformance.session.requests import request_of
from conformance.session.tracing import Recording, Trace
from conformance.worker import protocol

MODELS_HELD = 4  # instances that a worker keeps, with their parameters
STRIKES = 2  # timeouts, or crashes, of one function before it is not tried again
BYTES_REMEMBERED = 1 << 30  # of results, for calls that are made again


class Session:
    """A submission in a process of its own, which is replaced whenever it ends.

    Not for use from several threads; several sessions side by side are independent of each other.

    Attributes:
        offer: what `open` returned, None before.
        seconds_inside: seconds spent in the submission's own code so far, imports included.
        starts: number of processes started.
    """

    def __init__(
        self,
        target: Path,
        *,
        names: Sequence[str],
        python: str | None = None,
        limits: Limits | None = None,
        arguments: Sequence[str] = (),
        bytes_remembered: int = BYTES_REMEMBERED,
        among: bool = False,
    ) -> None:
        """Prepares a session; nothing is started yet.

        Args:
            target: the adapter file.
            names: functions that the pack knows, 'Model' among them.
            python: interpreter that runs it, a path or a name on PATH; default this one.
            limits: default `Limits()`.
            arguments: what the adapter finds in `sys.argv[1:]`; paths must be absolute, since it
                runs in a folder of its own.
            bytes_remembered: how much of results is kept, for calls that are made again.
            among: it is one file among files of others, so that what it imports is looked for in its
                folder last: a neighbour called random.py is nobody's `random`.
        """
        self.offer: Offer | None = None
        self.seconds_inside = 0.0
        self.starts = 0
        self._target = Path(target)
        self._names = tuple(names)
        # A path is as seen from here; the worker starts in a folder of its own.
        self._python = str(Path(python).absolute()) if python and "/" in python else python or sys.executable
        self._limits = limits or Limits()
        self._arguments = tuple(arguments)
        self._among = among
        self._memory = ""
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._worker: WorkerProcess | None = None
        self._strikes: Counter[tuple[str, str]] = Counter()
        self._remembered: dict[tuple[str, str], Outcome] = {}
        self._bytes_remembered = 0
        self._most_remembered = bytes_remembered

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def isolation(self) -> str:
        """How the submission is kept apart, in a few words."""
        memory = f"memory limit {self._limits.memory_mb} MB"
        if self.offer is not None and self._memory != "data":
            memory = f"{memory} of address space" if self._memory else "memory not limited by this system"
        return f"own process, {memory}, deadline {self._limits.timeout:g} s"

    def open(self) -> Offer:
        """Starts the interpreter and imports the submission.

        Raises:
            TargetError: the submission's fault: it is missing, raises, hangs, crashes, declares nonsense.
            EngineError: ours, or the interpreter's.
        """
        if self.offer is None:
            if not self._target.is_file():
                raise TargetError(f"there is no file {self._target}", nearby(self._target))
            self._worker = self._start()
        assert self.offer is not None
        return self.offer

    def call(self, call: Call, dtype: str) -> Outcome:
        """Makes a call, or remembers what came of an equal one.

        Args:
            call: what to compute.
            dtype: 'float16', 'bfloat16', 'float32' or 'float64': what float arrays arrive in.

        Raises:
            EngineError: our own code, or the interpreter, failed.
            RuntimeError: the session is not open.
            TypeError: an argument is no `Value`.
            ValueError: a function that the session was not told of.
        """
        refused = self._refused(call)
        if refused is not None:
            return refused
        key = (call.digest(), dtype)
        known = self._remembered.get(key) or self._struck(call)
        if known is not None:
            return known
        used = self._worker is not None and self._worker.alive and self._worker.calls > 0
        outcome = self._attempt(call, dtype)
        if used and isinstance(outcome, Crashed):
            # It may be what earlier calls left behind: believe it of a fresh process only.
            outcome = self._attempt(call, dtype)
        if isinstance(outcome, TimedOut | Crashed):
            self._strikes[call.counted_as, "crashed" if isinstance(outcome, Crashed) else "timed out"] += 1
        self._remember(key, outcome)
        return outcome

    def trace(self, call: Call, dtype: str, seconds: float | None = None) -> Trace:
        """Makes a call once more, and records the arrays that the submission's own files make.

        Nothing of it is remembered or counted: the outcomes of other calls stay as they are.

        Args:
            call: what to compute; a model is constructed anew.
            dtype: as for `call`.
            seconds: after which the recording ends, though not the call; default `BUDGET`.

        Raises:
            EngineError, RuntimeError, TypeError, ValueError: as `call`.
        """
        known = self._refused(call) or self._struck(call)
        if known is not None:
            return Trace((), (), known)
        recording = Recording(seconds)
        outcome = self._attempt(call, dtype, recording)
        usual = self._remembered.get((call.digest(), dtype))
        if usual is None:
            usual = self._remembered.get((replace(call, tap=not call.tap).digest(), dtype))
        torch = self.offer is not None and self.offer.framework == "torch"
        if torch and isinstance(usual, Returned) and isinstance(outcome, Raised | Crashed):
            # PyTorch has corners that do not bear being watched operation by operation.
            recording = Recording(seconds, dispatch=False)
            outcome = self._attempt(call, dtype, recording)
        return recording.trace(outcome, usual)

    def close(self) -> None:
        """Ends the process, with all that it has started, and removes its folder."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None
        if self._home is not None:
            self._home.cleanup()
            self._home = None

    def _start(self) -> WorkerProcess:
        """A fresh process that has imported the submission. Raises as `open`."""
        if self._home is None:
            self._home = tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True)
        self.starts += 1
        home = Path(self._home.name).resolve()
        worker, offer, self._memory = launch(
            self._target, self._names, self._arguments, self._python, self._limits, home, self._among
        )
        self.offer = self.offer or offer
        self.seconds_inside += offer.seconds
        return worker

    def _refused(self, call: Call) -> Outcome | None:
        """The outcome of a call that the submission does not offer. Raises as `call`."""
        if self.offer is None:
            raise RuntimeError("a call before Session.open")
        if call.entry not in self._names:
            raise ValueError(f"`{call.entry}` is not among the names of this session")
        if call.entry not in self.offer.functions:
            return NotOffered(_missing(call.entry, self.offer))
        return None

    def _struck(self, call: Call) -> Outcome | None:
        """The outcome of a call that failed too often to be tried again."""
        for kind in ("timed out", "crashed"):
            if self._strikes[call.counted_as, kind] >= STRIKES:
                return self._not_again(call.counted_as, kind)
        return None

    def _attempt(self, call: Call, dtype: str, recording: Recording | None = None) -> Outcome:
        """Makes the call in the present process or, when there is none, in a fresh one."""
        if self._worker is None or not self._worker.alive:
            if self._strikes["import", "failed"] >= STRIKES:
                return Crashed("not tried again after 2 imports that failed")
            try:
                self._worker = self._start()
            except TargetError as error:
                self._strikes["import", "failed"] += recording is None
                return Crashed(f"could not be imported once more: {error.message}", printed=error.printed)
        worker = self._worker
        seconds = self._limits.timeout + (recording.budget["seconds"] if recording else 0)
        started = time.monotonic()
        try:
            outcome = self._exchange(worker, call, dtype, recording)
            worker.calls += 1
        except Late:
            outcome = TimedOut(seconds, seconds=time.monotonic() - started, printed=worker.printed())
        except (Gone, answers.Malformed) as error:
            worker.end()
            how = str(error) or GARBLED
            if how.startswith(("exited", "closed")):
                how += " in the middle of a call"
            outcome = Crashed(how, seconds=time.monotonic() - started, printed=worker.printed())
        except EngineFault as error:
            if recording is None:
                raise fault(error, worker) from None
            # A trace only explains; whatever goes wrong with it must not end the run.
            reason = str(error).strip().rpartition("\n")[2]
            outcome = Crashed(f"the worker failed: {reason}"[:500], printed=worker.printed())
        if recording is not None:
            return outcome
        self.seconds_inside += outcome.seconds
        if isinstance(call, ModelCall) and not _clean(outcome):
            # An instance whose parameters were changed, or that failed half way, is not used again.
            self._forget(worker, f"{call.model_digest}/{dtype}")
        return outcome

    def _exchange(
        self, worker: WorkerProcess, call: Call, dtype: str, recording: Recording | None
    ) -> Outcome:
        meta = self._ask(worker, call, dtype, recording)
        if meta.get("is") == "memory":
            message = str(meta.get("message") or "")[:500]
            worker.end()
            raise Gone(f"out of memory (limit {self._limits.memory_mb} MB)" + (message and f": {message}"))
        other, outputs = None, []
        if meta.get("is") == "returned":
            expected = [step.expect for step in call.steps] if isinstance(call, ModelCall) else [call.expect]
            outputs = answers.announced_outputs(meta, expected, self._limits.tensor_bytes)
        else:
            other = answers.other_outcome(meta, worker.printed())
        positions, table, size = answers.wanted(outputs)
        if recording is not None:
            size += recording.announced(meta.get("trace"), answers.number_of(outputs), positions, table)
        arrays: list[npt.NDArray[Any]] = []
        if positions:
            frame = worker.ask(protocol.WANT, positions, payload=size)
            try:
                arrays = protocol.cut(table, frame.payload)
            except (protocol.Garbled, ValueError):
                raise answers.Malformed from None
        if recording is not None:
            arrays = recording.received(arrays)
        if other is not None:
            return other
        values = answers.outputs_of(outputs, arrays)
        return Returned(values, seconds=answers.seconds_of(meta), printed=worker.printed())

    def _ask(
        self, worker: WorkerProcess, call: Call, dtype: str, recording: Recording | None
    ) -> Mapping[str, Any]:
        """Sends the call; the parameters of a model only when the worker does not hold it."""
        key, held = "", False
        if isinstance(call, ModelCall) and recording is None:
            key = f"{call.model_digest}/{dtype}"
            held = key in worker.held
            if held:
                worker.held.remove(key)
            elif len(worker.held) >= MODELS_HELD:
                self._forget(worker, worker.held[0])
            worker.held.append(key)
        request, parts = request_of(call, dtype, key, held)
        request["timeout"] = seconds = self._limits.timeout
        if recording is not None:
            request["trace"] = recording.budget
            request["timeout"] = seconds = seconds + recording.budget["seconds"]
        if isinstance(call, ModelCall):
            request["forget"], worker.forget = worker.forget, []
        meta = worker.ask(protocol.CALL, request, parts, seconds=seconds).meta
        if not isinstance(meta, dict):
            raise answers.Malformed
        return meta

    def _forget(self, worker: WorkerProcess, key: str) -> None:
        if key in worker.held:
            worker.held.remove(key)
            worker.forget.append(key)

    def _remember(self, key: tuple[str, str], outcome: Outcome) -> None:
        size = 1000
        if isinstance(outcome, Returned):
            for output in outcome.outputs:
                size += sum(array.nbytes for array in (*output.tensors.values(), *output.taps.values()))
        self._remembered[key] = outcome
        self._bytes_remembered += size
        while self._bytes_remembered > self._most_remembered and len(self._remembered) > 1:
            self._remembered.clear()  # rare; all of it is simpler than the oldest of it
            self._bytes_remembered = 0

    def _not_again(self, entry: str, kind: str) -> Outcome:
        text = f"not tried again after {self._strikes[entry, kind]} calls of {entry} that {kind}"
        return TimedOut(self._limits.timeout, text) if kind == "timed out" else Crashed(text)


def _clean(outcome: Outcome) -> bool:
    """Whether the model that gave this outcome may serve further calls."""
    if not isinstance(outcome, Returned):
        return False
    return not any(name.startswith("params.") for output in outcome.outputs for name in output.modified)


def _missing(entry: str, offer: Offer) -> str:
    """Why a function is not offered."""
    if entry in offer.not_callable:
        return f"`{entry}` is {offer.not_callable[entry]}, not something to call"
    close = difflib.get_close_matches(entry, offer.others, n=1)
    return f"it defines no `{entry}`" + (f"; is `{close[0]}` meant to be it?" if close else "")
