"""Whole-process time and memory of `inspect` and `run` on an ONNX file, beside bare inference and polygraphy.

    python benchmarks/grade_onnx.py [model.onnx] [--large] [--repeat 3]

Without a file a tiny Llama is exported, or with --large a GPT-2 of 124 million weights (PyTorch, transformers and
onnxscript are needed). Polygraphy is measured where it is installed: one comparison of the file with itself on
onnxruntime. Seconds depend on the machine; the ratios to what stands beside them in the same run do less so, and
those of processor time least: whatever else runs only adds to it, so the least of all rounds is shown, and each round
measures everything once. The last two columns are the memory of all processes of a command together (proportional set
size), where the system tells.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from grade_numpy import ROOT, Cost, measured

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

    return write(Export("llama", "sdpa", 20), folder, lambda of: write(of, folder, _no_base))


def _no_base(of: Any) -> Path:
    raise AssertionError(f"{of} is made of no other export")


def exported_large(folder: Path) -> Path:
    """A GPT-2 of the usual size, its weights drawn, as PyTorch exports it with its weights beside it."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model("gpt2", attn_implementation="sdpa")
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits

    path = folder / "gpt2.onnx"
    free = {0: "batch", 1: "seq"}
    torch.onnx.export(
        Plain(),
        (torch.randint(0, 100, (2, 6)), torch.ones(2, 6, dtype=torch.int64)),
        str(path),
        dynamo=True,
        opset_version=20,
        external_data=True,
        verbose=False,
        input_names=["input_ids", "attention_mask"],
        output_names=["logits"],
        dynamic_shapes=(free, free),
    )
    return path


def together(command: list[str]) -> float:
    """MB of a command and all that it starts, at their most: looked at now and then, which slows them down."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0.0
    while process.poll() is None:
        most = max(most, sum(map(_resident, _family(process.pid))))
        time.sleep(0.3)
    return most


def _family(pid: int) -> list[int]:
    """A process and those below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                found += _family(int(child))
    return found


def _resident(pid: int) -> float:
    """MB of a process, shared pages by how many share them; 0 once it has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return 0.0


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make = exported_large if given.large else exported
        model = str((given.model or make(Path(folder))).resolve())
        ours = [sys.executable, "-m", "conformance"]
        runs = {
            "bare onnxruntime": [sys.executable, "-c", BARE, model],
            "conformance inspect": [*ours, "inspect", model],
            "conformance run": [*ours, "run", model, "-o", folder, "--quiet"],
        }
        polygraphy = shutil.which("polygraphy")
        if polygraphy is not None:
            runs["polygraphy run"] = [polygraphy, "run", model, "--onnxrt", "--onnxrt"]
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as it is installed, its bytecode is there
        results: dict[str, list[Cost]] = {name: [] for name in runs}
        for turn in range(given.repeat + 1):
            for name, command in runs.items():
                cost = measured(command)
                if turn:  # the first is to warm: files in the cache, bytecode compiled
                    results[name].append(cost)
        table = {
            name: Cost(
                min(r.seconds for r in costs),
                together(runs[name]) or max(r.memory for r in costs),
                min(r.processor for r in costs),
            )
            for name, costs in results.items()
        }
    bare = table["bare onnxruntime"]
    print(f"{'':22}{'seconds':>9}{'× bare':>8}{'of processor':>14}{'× bare':>8}{'peak MB':>9}{'× bare':>8}")
    for name, cost in table.items():
        print(
            f"{name:22}{cost.seconds:9.2f}{cost.seconds / bare.seconds:8.1f}{cost.processor:14.2f}"
            f"{cost.processor / bare.processor:8.1f}{cost.memory:9.0f}{cost.memory / bare.memory:8.1f}"
        )


if __name__ == "__main__":
    main()
