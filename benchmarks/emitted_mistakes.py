"""Every mistake of the pack made in an ONNX file, and the file graded alone: caught? named? anything else named?

Prints a line for each, and how many of each kind. `python benchmarks/emitted_mistakes.py [MISTAKE …]`; all of them
take an hour. A mistake is made in the first of some variants in which it changes anything.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from conformance.exporting.agreement import compared
from conformance.exporting.files import write
from conformance.exporting.made import ExportError, Model
from conformance.exporting.program_export import export_program
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack
from conformance.results.store import Writer, read_results
from conformance.runner import Options, run
from conformance.targets import resolve_target

VARIANTS = ("gpt2", "llama", "minimal")


def outcome(pack: Pack, name: str) -> tuple[str, str]:
    """What became of a mistake in its first form, and what there is to say."""
    mistake = pack.program.mistakes[name]
    said = "about none of these variants"
    for variant in VARIANTS:
        made = Model(pack, pack.variants[variant], {}, mistake)
        try:
            scenario = made.scenario()
            if not pack.program.changed_by(mistake, mistake.forms()[0], scenario.choices) & scenario.entered:
                continue
            model, _ = export_program(made, True, "float32", 18)
            if all(t.agrees for t in compared(model, replace(made, mistake=None), "float32", True)):
                said = f"{variant}: changes nothing at these sizes"
                continue
        except (ExportError, ValueError) as error:
            said = f"{variant}: {str(error)[:100]}"
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            write(model, file, external=False)
            with Writer(Path(folder) / "report") as writer:
                run(pack, resolve_target([str(file)]), Options(), writer)
            end = read_results(Path(folder) / "report").end or {}
        named = [cause["mistakes"] for cause in end["causes"]]
        if end["conforms"]:
            return "conforms", variant
        if not named:
            return "caught, not named", variant
        if named[0][0] == name:
            return "named" if len(named) == 1 else "named, and others", f"{variant}: {named}"
        return "named in a tie" if name in named[0] else "wrongly named", f"{variant}: {named}"
    return "not made", said


def main() -> None:
    """The table."""
    pack = load_pack(bundled("spec") / "forward-pass")
    counts: Counter[str] = Counter()
    for name in sys.argv[1:] or list(pack.program.mistakes):
        kind, said = outcome(pack, name)
        counts[kind] += 1
        print(f"{kind:20} {name:44} {said}", flush=True)
    print(", ".join(f"{kind}: {count}" for kind, count in counts.most_common()))


if __name__ == "__main__":
    main()
