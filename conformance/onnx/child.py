"""A process of its own that reads an untrusted file: few resources, no time without end.

`python -m conformance.onnx.child TASK` reads one JSON request from standard input and writes one
JSON answer to standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.onnx.reading import Unreadable

MEMORY_MB = 2048
SECONDS = 60.0
ANSWER = 64 << 20
"""Bytes of an answer that are read."""


class ReadingFailed(Exception):
    """The process that read the file ended without an answer; says how."""


def ask(
    task: str, request: Mapping[str, Any], *, seconds: float = SECONDS, memory_mb: int = MEMORY_MB
) -> Any:
    """Has a process with limits do a task on an untrusted file.

    Raises `Unreadable` for what is wrong with the file, `ReadingFailed` where reading it ran out
    of time or memory.
    """
    with tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as home:
        text = json.dumps({**request, "memory_mb": memory_mb, "seconds": seconds})
        environment = {
            **{
                name: os.environ[name]
                for name in ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
                if name in os.environ
            },
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            "HOME": home,
            "TMPDIR": home,
            # No code of others runs there: it keeps bytecode as this process does.
            **({"PYTHONDONTWRITEBYTECODE": "1"} if sys.dont_write_bytecode else {}),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        try:
            done = subprocess.run(
                [sys.executable, "-m", "conformance.onnx.child", task],
                check=False,
                input=text,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                env=environment,
                cwd=home,
            )
        except subprocess.TimeoutExpired:
            raise ReadingFailed(f"reading the file took more than {seconds:g} s") from None
    return _answer(done)


def _answer(done: subprocess.CompletedProcess[str]) -> Any:
    try:
        answer = json.loads(done.stdout[:ANSWER])
    except ValueError:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        if "MemoryError" in done.stderr or done.returncode in (-9, 137):
            raise ReadingFailed("reading the file took too much memory") from None
        raise RuntimeError(f"reading the graph failed: {lines[-1][:500]}\n{done.stderr[-4000:]}") from None
    if "unreadable" in answer:
        raise Unreadable(answer["unreadable"], answer.get("hint", ""))
    return answer["answer"]


def main(task: str) -> None:
    """Serve one request; what is printed by libraries goes to standard error."""
    out = os.dup(1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.read())
    from conformance.onnx.later import SYMBOLIC, later
    from conformance.worker import limits

    later(*SYMBOLIC)
    limits.apply(request["memory_mb"])
    limits.expect_end_within(request["seconds"])
    try:
        answer = {"answer": TASKS[task](request)}
    except Unreadable as error:
        answer = {"unreadable": error.message, "hint": error.hint}
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(answer))


def _inspect(request: Mapping[str, Any]) -> Any:
    import msgspec

    from conformance.onnx.describe import describe
    from conformance.onnx.reading import read_model
    from conformance.onnx.structure import read_structure

    path = Path(request["path"])
    structure = read_structure(read_model(path), request.get("names"))
    return msgspec.to_builtins(describe(structure, path.name))


def _prepare(request: Mapping[str, Any]) -> Any:
    import msgspec

    from conformance.onnx.describe import describe
    from conformance.onnx.operation import read_operation
    from conformance.onnx.reading import read_model
    from conformance.onnx.recipe import recipe
    from conformance.onnx.structure import read_structure
    from conformance.plan.own import MANY

    path, folder = Path(request["path"]), Path(request["folder"])
    model = read_model(path)
    structure = read_structure(model, request.get("names"))
    eps = next((norm.eps for norm in structure.norms.values()), None)
    operation = read_operation(model.graph, eps) if structure.embedding is None else None
    if operation is not None:
        (folder / "recipe.json").write_text(json.dumps({"operation": operation}), encoding="utf-8")
        return {"facts": None}
    made = recipe(structure, folder, request.get("names") or {}, request.get("many", MANY))
    (folder / "recipe.json").write_text(json.dumps(made), encoding="utf-8")
    return {"facts": msgspec.to_builtins(describe(structure, path.name))}


TASKS = {"inspect": _inspect, "prepare": _prepare}


if __name__ == "__main__":
    main(sys.argv[1])
