"""From a small PyTorch module to a checked file: the time, split by what it goes to, and the size.

Prints a table. `python benchmarks/export.py [TARGET …]`; default: hf:LlamaForCausalLM with and without a cache, and
the program itself. Needs PyTorch, onnxscript and transformers.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from conformance.exporting.graph import Type
from conformance.exporting.made import Model
from conformance.exporting.module import OPSET, Request, exported, variant_of_module
from conformance.exporting.module_export import checks
from conformance.exporting.program_export import export_program
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack
from conformance.session import Limits
from conformance.targets import resolve_target

DTYPE: Type = "float32"


def module(pack: Pack, words: list[str], cache: bool) -> None:
    """One module: seconds of each step, and the bytes of the file beside those of its weights."""
    target = resolve_target(words, None, pack)
    variant = variant_of_module(pack, target, None, None, Limits(timeout=60.0))
    made = Model(pack, variant, {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        request = Request(target, made, cache, DTYPE, OPSET, False, None, 600.0, folder / "model.onnx")
        begun = time.perf_counter()
        result = exported(request, folder, folder / "log")
        outside = time.perf_counter() - begun - result.seconds
        steps = list(checks(request, result, "model.onnx", folder / "report"))
        size = result.file.stat().st_size
    seconds = {step.name: step.seconds for step in steps}
    print(
        f"\n{target.name}{', with a cache' if cache else ''}: {sum(seconds.values()) + outside:.1f} s in all"
    )
    print(f"  {'module':<10}{outside:8.2f} s   starting PyTorch, building, the module's own numbers")
    for step in steps:
        print(
            f"  {step.name:<10}{step.seconds:8.2f} s   {'' if step.passed else 'FAILS: '}{step.said.en[:90]}"
        )
    weights = result.parameters * 4
    print(f"  {size:,} bytes, {weights:,} of them weights: {size - weights:,} for the graph")


def program(pack: Pack, variant: str, cache: bool) -> None:
    """The program emitted and checked."""
    begun = time.perf_counter()
    model, steps = export_program(Model(pack, pack.variants[variant], {}), cache, DTYPE, OPSET)
    total = time.perf_counter() - begun
    checking = sum(step.seconds for step in steps)
    weights = sum(len(w.raw_data) for w in model.graph.initializer)
    print(f"\nprogram --variant {variant}{' --cache' if cache else ''}: {total:.2f} s in all")
    print(f"  emitted in {total - checking:.2f} s, checked in {checking:.2f} s")
    print(f"  {model.ByteSize():,} bytes, {weights:,} of them weights and constants")


def main() -> None:
    """The table."""
    pack = load_pack(bundled("spec") / "forward-pass")
    program(pack, "llama", cache=True)
    given = sys.argv[1:] or ["hf:LlamaForCausalLM"]
    module(pack, given, cache=False)
    if not sys.argv[1:]:
        module(pack, given, cache=True)


if __name__ == "__main__":
    main()
