"""`conformance export`: the program, or a PyTorch module, as an ONNX file that has been checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from conformance.cli import Exit
from conformance.cli.options import Seed, lang_option, map_option, pack_option

if TYPE_CHECKING:
    from conformance.exporting.files import Step

PROGRAM = "program"


@click.command(epilog="Example: conformance export program --variant llama --cache -o llama.onnx")
@click.argument("target", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write.",
)
@click.option("--cache", is_flag=True, help="With a past that comes in and a present that goes out.")
@click.option("--opset", type=click.IntRange(18, 24), default=None, help="Default: 18.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16", "bfloat16", "float64"]),
    default="float32",
    show_default=True,
    help="Of weights and results.",
)
@click.option("--external-data", "external", is_flag=True, help="Weights in FILE.data, beside the file.")
@click.option(
    "--variant", metavar="NAME", default=None, help="Which model it is; a module's map says it, too."
)
@click.option(
    "--mistake",
    metavar="ID[:FORM]",
    default=None,
    help="Of the program: a mistake of the pack is made in it, in its first form or another.",
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=N",
    help="n_layers, n_heads, n_kv_heads, d_head, d_ff, vocab_size, … instead of a small model's.",
)
@click.option(
    "--weights",
    metavar="FILE",
    default=None,
    type=click.Path(path_type=Path),
    help="Of a module: its checkpoint, a state dict (.pt, .safetensors) or a folder; without, weights are random.",
)
@click.option("--seed", type=Seed(), default=0, show_default=True, help="Of the random weights.")
@click.option(
    "--report",
    default="conformance-report",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Of a module: where results.jsonl and report.html go.",
)
@click.option("--force", is_flag=True, help="Write the file also when it is wrong, and say what is.")
@lang_option("lines that it prints")
@map_option("How a module is built, filled and called (YAML).")
@click.option("--python", metavar="EXE", default=None, help="The interpreter that has the module's PyTorch.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds for the exporter.",
)
@pack_option
@click.pass_context
def command(context: click.Context, /, target: Sequence[str], **given: Any) -> None:
    """Write an ONNX file and check it before it gets its name.

    TARGET is `program`, the pack's own equations with random weights, or a PyTorch module as `run` grades it:
    `hf:CLASS`, or `pytorch my_file.py:GPT --map map.yaml`. Exit status: 0 written, 1 wrong and so not written,
    3 it cannot be exported.
    """
    from conformance.cli.grading_errors import guarded, say
    from conformance.exporting.made import ExportError

    with guarded(context):
        try:
            context.exit((_program if target[0] == PROGRAM else _module)(target, given))
        except ExportError as error:
            say("usage", str(error))
            context.exit(Exit.USAGE)
        except OSError as error:
            say("export", f"{error.filename or given['path']}: {error.strerror or error}")
            context.exit(Exit.USAGE)


def _program(target: Sequence[str], given: dict[str, Any]) -> int:
    import secrets

    from conformance.cli.options import open_pack
    from conformance.exporting.files import write
    from conformance.exporting.made import ExportError, Model, mistake_of, sizes_of
    from conformance.exporting.program_export import export_program
    from conformance.plan.variants import resolve

    if len(target) > 1:
        raise ExportError(f"program takes no further arguments; got {' '.join(target[1:])}")
    for name in ("map_file", "python", "weights"):
        if given[name] is not None:
            raise ExportError(f"--{name.partition('_')[0]} is of modules; the program takes none")
    if given["variant"] is None:
        raise ExportError("--variant is missing: which model of the program is to be written, such as llama")
    pack = open_pack(given["pack"])
    (variant,) = resolve(pack, [], [given["variant"]]).variants
    mistake, form = mistake_of(pack, given["mistake"]) if given["mistake"] else (None, 0)
    seed = secrets.randbelow(2**31) if given["seed"] is None else given["seed"]
    made = Model(pack, variant, sizes_of(pack, given["sizes"]), mistake, form, seed)
    model, steps = export_program(made, given["cache"], given["dtype"], given["opset"] or 18)
    path: Path = given["path"]
    lang: str = given["lang"]
    nodes = f"{len(model.graph.node)} {'nodes' if lang == 'en' else '个节点'}"
    click.echo(f"{path}: {variant.name}, opset {given['opset'] or 18}, {given['dtype']}, {nodes}")
    if mistake is not None:
        click.echo(f"{'mistake':<10}{mistake.id}: {getattr(mistake.says, lang)}")
    for step in steps:
        click.echo(step.line(lang))
    return _written(path, steps, given["force"], lang, lambda: write(model, path, given["external"]))


def _module(target: Sequence[str], given: dict[str, Any]) -> int:
    import tempfile

    from conformance.cli.grading_errors import say
    from conformance.cli.options import open_pack
    from conformance.exporting.checkpoint import weights_of_folder, with_weights
    from conformance.exporting.files import moved
    from conformance.exporting.made import ExportError, Model, sizes_of
    from conformance.exporting.module import OPSET, ExporterFailed, Request, exported, variant_of_module
    from conformance.exporting.module_export import checks
    from conformance.session import Limits
    from conformance.targets import resolve_target

    if given["mistake"] is not None:
        raise ExportError("--mistake is of the program; a module has its own")
    pack = open_pack(given["pack"])
    named = resolve_target(target, given["map_file"], pack)
    limits = Limits(timeout=60.0, memory_mb=8192)
    variant = variant_of_module(pack, named, given["variant"], given["python"], limits)
    path: Path = given["path"]
    made = Model(pack, variant, sizes_of(pack, given["sizes"]), seed=given["seed"] or 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.with_name(path.name + ".log")
    opset = given["opset"] or OPSET
    checkpoint = given["weights"] or weights_of_folder(target[0])
    with tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as name:
        folder = Path(name)
        file = folder / path.name
        python, timeout = given["python"], given["timeout"]
        try:
            if checkpoint is not None:
                made = with_weights(made, named, checkpoint, folder, log, python, timeout)
            external, dtype = given["external"], given["dtype"]
            request = Request(named, made, given["cache"], dtype, opset, external, python, timeout, file)
            result = exported(request, folder, log)
        except ExportError:
            log.unlink(missing_ok=True)
            raise
        except ExporterFailed as error:
            more = log.is_file() and log.stat().st_size > 0
            say("target", f"{named.name}: {error}", f"the full log is in {log}" if more else "")
            if not more:
                log.unlink(missing_ok=True)
            return Exit.NOTHING_GRADABLE
        click.echo(f"{path}: {named.name}, {variant.name}")
        if checkpoint is not None:
            numbers = sum(array.size for array in made.own.parameters.values()) if made.own else 0
            said = {
                "en": f"{numbers:,} numbers of {checkpoint}",
                "zh": f"{checkpoint} 中的 {numbers:,} 个数",
            }[given["lang"]]
            click.echo(f"{'weights':<10}{said}")
        steps = []
        for step in checks(request, result, str(path), given["report"]):
            click.echo(step.line(given["lang"]))
            steps.append(step)
        code = _written(path, steps, given["force"], given["lang"], lambda: moved(file, path))
    if code == Exit.CONFORMS:
        log.unlink(missing_ok=True)
    return code


def _written(path: Path, steps: Sequence[Step], force: bool, lang: str, write: Callable[[], None]) -> int:
    """Write a file that is right, or forced."""
    right = all(step.passed for step in steps)
    if right or force:
        write()
    if not right:
        wrong = ", ".join(step.name for step in steps if not step.passed)
        forced = {"en": f"is written, though wrong ({wrong})", "zh": f"已写出，但有错（{wrong}）"}
        kept = {"en": "is not written; --force writes it all the same", "zh": "没有写出；--force 可强制写出"}
        click.echo(f"export: {path} {(forced if force else kept)[lang]}", err=True)
    return Exit.CONFORMS if right else Exit.DOES_NOT_CONFORM
