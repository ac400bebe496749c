"""Submissions a minute of `conformance grade`, beside the bare cost of starting as many interpreters with NumPy.

    python benchmarks/grade_many.py [--copies 100] [--select EXPR]

The submissions are copies of the bundled reference as one variant. Aim: within twice the bare cost plus
the time that the submissions' own code takes. Seconds depend on the machine; the ratio does less so.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conformance.many.pool import cores
from conformance.results.store import FILE

ROOT = Path(__file__).resolve().parent.parent


def bare(copies: int) -> float:
    """Seconds to start as many interpreters that import NumPy, as many side by side as there are cores."""
    command = [sys.executable, "-c", "import numpy"]
    begun = time.perf_counter()
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(lambda _: subprocess.run(command, check=True), range(copies)))
    return time.perf_counter() - begun


def processor() -> float:
    """Seconds of processor that all children took so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=100)
    parser.add_argument("--select", default="dtype:float32")
    given = parser.parse_args()
    source = (ROOT / "adapters" / "numpy_reference.py").read_text(encoding="utf-8")
    source += '\n\nvariant = "llama"\ndtype = "float32"\n'
    with tempfile.TemporaryDirectory() as home:
        folder, out = Path(home) / "class", Path(home) / "out"
        folder.mkdir()
        for i in range(given.copies):
            (folder / f"student-{i:03}.py").write_text(source, encoding="utf-8")
        command = [sys.executable, "-m", "conformance", "grade", str(folder), "-o", str(out), "--quiet"]
        begun, before = time.perf_counter(), processor()
        subprocess.run([*command, "--select", given.select], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        seconds, worked = time.perf_counter() - begun, processor() - before
        ends = [
            json.loads(path.read_text(encoding="utf-8").splitlines()[-1]) for path in out.glob(f"*/{FILE}")
        ]
    own = sum(end["seconds_inside"] for end in ends)
    inside = own / cores()
    before = processor()
    started = bare(given.copies)
    bare_worked = processor() - before
    aim = 2 * started + inside
    print(
        f"{given.copies} submissions on {cores()} cores: {seconds:.1f} s, {60 * given.copies / seconds:.1f} a minute"
    )
    print(f"interpreters with NumPy alone: {started:.1f} s; the submissions' own code: {inside:.1f} s")
    print(f"aim (twice the one plus the other): {aim:.1f} s; it is {seconds / aim:.1f} times that")
    print(
        f"seconds of processor: {worked:.1f}, of bare interpreters {bare_worked:.1f}; "
        f"{worked / (2 * bare_worked + own):.1f} times the aim in these"
    )


if __name__ == "__main__":
    main()
