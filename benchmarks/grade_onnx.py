"""Whole-process time and memory of `inspect` and `run` on an ONNX file, beside bare inference and polygraphy.

    python benchmarks/grade_onnx.py [model.onnx] [--repeat 3]

Without a file a tiny Llama is exported (PyTorch, transformers and onnxscript are needed). Polygraphy is measured where
it is installed: one comparison of the file with itself on onnxruntime. Seconds depend on the machine; the ratios to
what stands beside them in the same run do less so.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from grade_numpy import ROOT, measured

BARE = """
import sys
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
kinds = {"tensor(int64)": np.int64, "tensor(float)": np.float32, "tensor(float16)": np.float16}
feeds = {}
for value in session.get_inputs():
    past = "past" in value.name
    sizes = [s if isinstance(s, int) else (0 if past and i == 2 else 5 if i else 2) for i, s in enumerate(value.shape)]
    feeds[value.name] = np.ones(sizes, kinds[value.type])
session.run(None, feeds)
"""


def exported(folder: Path) -> Path:
    """A tiny Llama as PyTorch exports it."""
    sys.path.insert(0, str(ROOT / "tests"))
    from graphs.exported import Export, write

    return write(Export("llama", "sdpa", 20), folder)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = str((given.model or exported(Path(folder))).resolve())
        ours = [sys.executable, "-m", "conformance"]
        runs = {
            "bare onnxruntime": [sys.executable, "-c", BARE, model],
            "conformance inspect": [*ours, "inspect", model],
            "conformance run": [*ours, "run", model, "-o", folder, "--quiet"],
        }
        polygraphy = shutil.which("polygraphy")
        if polygraphy is not None:
            runs["polygraphy run"] = [polygraphy, "run", model, "--onnxrt", "--onnxrt"]
        table = {}
        for name, command in runs.items():
            measured(command)  # warm: files in the cache, bytecode compiled
            results = [measured(command) for _ in range(given.repeat)]
            table[name] = (statistics.median(r[0] for r in results), max(r[1] for r in results))
    baseline = table["bare onnxruntime"][0]
    print(f"{'':22}{'seconds':>9}{'peak MB':>9}{'× bare':>9}")
    for name, (seconds, memory) in table.items():
        print(f"{name:22}{seconds:9.2f}{memory:9.0f}{seconds / baseline:9.1f}")


if __name__ == "__main__":
    main()
