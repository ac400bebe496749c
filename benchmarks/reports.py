"""Time and size of reports: a run of 1,000 verdicts in every format, and a matrix of 500 targets by 150 claims.

Usage: python benchmarks/reports.py

The runs are made up: one claim in ten is broken, with arrays, a mistake and a place, as a run writes them.
Aims: a run within a second, a matrix within three and under 5 MB. On a machine that does other things as well,
the seconds of the processor tell more than those of the clock; both are printed.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from conformance.reports import formats
from conformance.reports.entries import Entry, Heading, entry_of
from conformance.reports.matrix import joined, render_entries
from conformance.results.store import FILE, read_results

SAYS = {
    "en": "The weights of a query are a distribution over the keys. " * 3,
    "zh": "一个查询的权重是键上的分布。" * 3,
}
MISTAKES = [
    "scale-by-model-width",
    "softmax-over-query",
    "mask-after-softmax",
    "norm-shared",
    "rope-other-layout",
]


def lines(claims: int, cases: int, seed: int) -> list[dict[str, Any]]:
    """A results file, line by line."""
    random.seed(seed)
    mistake = random.choice(MISTAKES)
    found: list[dict[str, Any]] = [
        {
            "kind": "run", "schema": 1, "pack": "forward-pass", "pack_version": "0.1.0", "target": f"student-{seed}.py",
            "variants": ["llama"], "dtypes": ["float32"], "seed": 0, "tool_version": "0", "isolation": "", "environment": {},
        }
    ]  # fmt: skip
    rungs = ["operation", "layer", "model", "decode"]
    for i in range(claims):
        rung, name = rungs[4 * i // claims], f"q00{5 + i % 4}.claim-number-{i}"
        same = {"rung": rung, "level": "MUST", "statements": [f"Q{5 + i % 4}.{i % 12}"]}
        found.append(
            {
                "kind": "claim", "id": name, **same, "question": f"Q00{5 + i % 4}", "title": {"en": f"Claim {i}", "zh": f"断言 {i}"},
                "says": SAYS, "equation": "weights = softmax(masked_scores, over=key)",
                "tensors": {"weights": ["batch", "head", "query", "key"]},
            }
        )  # fmt: skip
        broken = random.random() < 0.1
        found += [
            {"kind": "verdict", "claim": name, **same, "case": f"case-{case}", **_verdict(broken, mistake)}
            for case in range(cases)
        ]
    end = {
        "kind": "end", "conforms": False, "counts": {}, "graded_statements": ["Q5.1"], "testable_statements": 57,
        "first_broken": None, "seconds": 1,
        "causes": [{"mistakes": [mistake], "says": SAYS, "where": None, "claims": ["x"]}],
    }  # fmt: skip
    return [*found, end]


def _verdict(broken: bool, mistake: str) -> dict[str, Any]:
    verdict: dict[str, Any] = {
        "variant": "llama", "dtype": "float32", "verdict": "fail" if broken else "pass", "summary": SAYS,
        "margin": 1e4 if broken else 0.1, "close": False, "diagnosis": [], "where": None, "evidence": None, "reproduce": "",
        "seconds": 0.01,
    }  # fmt: skip
    if broken:
        values = [
            [[[round(random.random(), 6) for _ in range(7)] for _ in range(5)] for _ in range(4)]
            for _ in range(3)
        ]
        verdict |= {
            "diagnosis": [{"mistake": mistake, "fit": 0.1, "says": SAYS}],
            "where": {"file": "model.py", "line": 41, "text": "scores = q @ k.T / np.sqrt(d)", "variable": "scores"},
            "evidence": {
                "tensor": "weights", "index": {"batch": 1, "head": 1, "query": 2, "key": 3}, "got": 0.1, "expected": 0.2,
                "tolerance": 1e-6,
                "arrays": {"axes": ["batch", "head", "query", "key"], "fixed": {}, "got": values, "expected": values},
            },
            "reproduce": "import numpy as np\n" * 20,
        }  # fmt: skip
    return verdict


def write(folder: Path, found: list[dict[str, Any]]) -> Path:
    """A results file in a folder of its own."""
    folder.mkdir()
    (folder / FILE).write_text("".join(json.dumps(line) + "\n" for line in found), encoding="utf-8")
    return folder


def main() -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as home:
        run = write(Path(home) / "run", lines(250, 4, 0))
        print(f"{'1,000 verdicts as':24} {'seconds':>8} {'of CPU':>8} {'kB':>8}")
        for name in formats.FORMATS:
            formats.renderer(name)  # the import, which is paid once
            begun, busy = time.perf_counter(), time.process_time()
            text = formats.render(read_results(run), name)
            taken = f"{time.perf_counter() - begun:8.2f} {time.process_time() - busy:8.2f}"
            print(f"{name:24} {taken} {len(text.encode()) / 1e3:8.0f}")
        folders = [write(Path(home) / str(i), lines(150, 1, i)) for i in range(500)]
        begun, busy = time.perf_counter(), time.process_time()
        entries: list[Entry] = []
        headings: list[dict[str, Heading]] = []
        for folder in folders:
            entry, known = entry_of(read_results(folder))
            entries.append(entry)
            headings.append(dict(known))
        read = time.process_time() - busy
        text = render_entries(entries, joined(headings))
        taken = f"{time.perf_counter() - begun:8.2f} {time.process_time() - busy:8.2f}"
        print(
            f"{'matrix, 500 × 150':24} {taken} {len(text.encode()) / 1e3:8.0f}   ({read:.2f} s of it to read the files)"
        )


if __name__ == "__main__":
    main()
