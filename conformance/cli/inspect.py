"""`conformance inspect`: what an ONNX graph does, without its weights."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli import Exit
from conformance.cli.options import lang_option, map_option


@click.command(epilog="Example: conformance inspect model.onnx --format json")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What is printed.",
)
@lang_option("text")
@map_option("YAML that says which input and output is what, where names do not tell.")
@click.pass_context
def command(
    context: click.Context, /, model: Path, output_format: str, lang: str, map_file: Path | None
) -> None:
    """What a graph does, without its weights: MODEL is read, never run.

    Attentions with their scale, mask and softmax axis, norms, RoPE, residual sources, sizes, and the variant that
    follows. What cannot be read is called unknown.
    """
    context.exit(_inspect(model, output_format, lang, map_file))


def _inspect(model: Path, output_format: str, lang: str, map_file: Path | None) -> int:
    from conformance.onnx.child import ReadingFailed
    from conformance.onnx.inspection import inspect
    from conformance.onnx.maps import read_map
    from conformance.onnx.reading import Unreadable
    from conformance.onnx.tree import tree
    from conformance.targets import TargetUsageError

    try:
        names = read_map(map_file) if map_file is not None else {}
    except TargetUsageError as error:
        click.echo(f"usage: {error}", err=True)
        return Exit.USAGE
    if not model.is_file():
        what = "is a folder" if model.is_dir() else "does not exist"
        click.echo(f"target: {model} {what}", err=True)
        return Exit.NOTHING_GRADABLE
    try:
        facts = inspect(model, names)
    except Unreadable as error:
        click.echo(f"target: {error.message}" + (f"\n  {error.hint}" if error.hint else ""), err=True)
        return Exit.NOTHING_GRADABLE
    except ReadingFailed as failed:
        click.echo(f"target: {model.name}: {failed}", err=True)
        return Exit.NOTHING_GRADABLE
    if output_format == "json":
        import json

        import msgspec

        from conformance.results.records import jsonable

        click.echo(json.dumps(jsonable(msgspec.to_builtins(facts)), indent=2, ensure_ascii=False))
    else:
        click.echo(_encodable(tree(facts, lang)), nl=False)
    if not facts.attentions:
        said = {
            "en": f"{model.name} has no attention that could be read as one",
            "zh": f"{model.name} 中没有能读作注意力的部分",
        }
        click.echo(f"target: {said[lang]}", err=True)
        return Exit.NOTHING_GRADABLE
    return Exit.CONFORMS


def _encodable(text: str) -> str:
    """The text in what the terminal can show."""
    import sys

    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.translate(str.maketrans("├└─│→…", "++-|>.")).encode("ascii", "replace").decode()
    return text
