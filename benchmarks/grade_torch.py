"""Whole-process time and memory of grading a small module, beside `import torch` alone and its bare calls.

    python benchmarks/grade_torch.py [--repeat 3]

Seconds depend on the machine; the ratios to what stands beside them in the same run do less so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from grade_numpy import ROOT, measured

MODELS = ROOT / "tests" / "modules" / "models"
PYTHON = sys.executable


def graded(folder: str) -> list[str]:
    """The command that grades the module."""
    target = [str(MODELS / "llama.py:Returned"), "--map", str(MODELS / "llama_returned.yaml")]
    return [
        PYTHON,
        "-m",
        "conformance",
        "run",
        "pytorch",
        *target,
        "--dtype",
        "float32",
        "-o",
        folder,
        "--quiet",
    ]


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = {
            "conformance run pytorch": graded(folder),
            "import torch": [PYTHON, "-c", "import torch"],
            "import numpy": [PYTHON, "-c", "import numpy"],
        }
        found = {name: [measured(command) for _ in range(given.repeat)] for name, command in rows.items()}
        lines = [
            json.loads(line) for line in (Path(folder) / "results.jsonl").read_text("utf-8").splitlines()
        ]
    inside = lines[-1]["seconds_inside"]
    best = {name: min(seconds for seconds, _ in runs) for name, runs in found.items()}
    memory = {name: statistics.median(peak for _, peak in runs) for name, runs in found.items()}
    print(f"{'':28}{'seconds':>9}{'peak MB':>9}{'× import torch':>16}")
    for name, seconds in best.items():
        print(f"{name:28}{seconds:9.3f}{memory[name]:9.0f}{seconds / best['import torch']:16.1f}")
    besides = best["conformance run pytorch"] - best["import torch"] - inside
    verdicts = sum(line["kind"] == "verdict" for line in lines)
    print(f"\n{verdicts} verdicts of a Llama-like module in float32")
    print(f"its bare calls: {inside:.3f} s; everything besides them and the import: {besides:.3f} s")


if __name__ == "__main__":
    main()
