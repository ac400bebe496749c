"""Whole-process time and memory of grading the NumPy reference, beside `import numpy` alone.

    python benchmarks/grade_numpy.py [--variant llama] [--repeat 5]

Seconds depend on the machine; the ratios to what stands beside them in the same run do less so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Cost(NamedTuple):
    """Of a command and the children that it waited for: wall seconds, MB of the largest, seconds of processor."""

    seconds: float
    memory: float
    processor: float


def measured(command: list[str]) -> Cost:
    """What a command costs. Where others use the machine too, the processor's seconds say more than those of the wall."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with status {os.waitstatus_to_exitcode(status)}")
    return Cost(seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", default="llama")
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        grade = [
            sys.executable, "-m", "conformance", "run", str(ROOT / "adapters/numpy_reference.py"),
            "--variant", given.variant, "--dtype", "float32", "-o", folder, "--quiet",
        ]  # fmt: skip
        runs = {
            "conformance run": grade,
            "conformance --help": [sys.executable, "-m", "conformance", "--help"],
            "import numpy": [sys.executable, "-c", "import numpy"],
        }
        table = {}
        for name, command in runs.items():
            measured(command)  # warm: files in the cache, bytecode compiled
            results = [measured(command) for _ in range(given.repeat)]
            table[name] = (statistics.median(r[0] for r in results), max(r[1] for r in results))
        lines = [json.loads(line) for line in (Path(folder) / "results.jsonl").read_text().splitlines()]
    verdicts = sum(line["kind"] == "verdict" for line in lines)
    inside = lines[-1]["seconds_inside"]
    baseline = table["import numpy"][0]
    print(f"{'':22}{'seconds':>9}{'peak MB':>9}{'× import numpy':>16}")
    for name, (seconds, memory) in table.items():
        print(f"{name:22}{seconds:9.3f}{memory:9.0f}{seconds / baseline:16.1f}")
    total = table["conformance run"][0]
    print(f"\n{verdicts} verdicts of {given.variant} in float32: {verdicts / total:.0f} a second")
    print(f"inside the submission: {inside:.3f} s, {100 * inside / total:.0f} % of the whole")


if __name__ == "__main__":
    main()
