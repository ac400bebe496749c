"""`conformance spec`: the claims of a pack."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli import Exit
from conformance.cli.options import lang_option, open_pack, pack_option

_lang = lang_option("texts")


@click.group(epilog="Example: conformance spec show q007.sums-to-one")
def command() -> None:
    """List, show, check and render the claims."""


@command.command("list", epilog="Example: conformance spec list --select rung:operation")
@pack_option
@_lang
@click.option(
    "--select", multiple=True, metavar="EXPR", help="Only these claims; see `conformance run --help`."
)
@click.pass_context
def list_claims(context: click.Context, pack: Path | None, lang: str, select: tuple[str, ...]) -> None:
    """One line a claim: id, level, rung, statements and title."""
    from conformance.cli.grading_errors import guarded
    from conformance.plan.selection import parse_selection

    with guarded(context):
        opened = open_pack(pack)
        selection = parse_selection(select, opened)
        for claim in opened.claims.values():
            if selection.includes(claim, None, "float32"):
                title = claim.title.zh if lang == "zh" else claim.title.en
                click.echo(
                    f"{claim.id:44} {claim.level:6} {claim.rung:9} {' '.join(claim.statements):16} {title}"
                )


@command.command(epilog="Example: conformance spec show q007.sums-to-one --lang zh")
@click.argument("identifier", metavar="ID")
@pack_option
@_lang
@click.pass_context
def show(context: click.Context, identifier: str, pack: Path | None, lang: str) -> None:
    """A claim, a statement, a case, a mistake or a tensor, with all that the pack says of it."""
    from conformance.cli.grading_errors import guarded
    from conformance.cli.spec_show import describe

    with guarded(context):
        for line in describe(open_pack(pack), identifier, lang):
            click.echo(line)


@command.command(epilog="Example: conformance spec check --pack my-pack")
@pack_option
@click.pass_context
def check(context: click.Context, pack: Path | None) -> None:
    """Validate a pack: every fault with its file and line."""
    from conformance.checked_pack import undecided
    from conformance.cli.grading_errors import guarded
    from conformance.cli.spec_check import trial_errors
    from conformance.language.errors import PackErrors

    with guarded(context):
        opened = open_pack(pack, mistakes=True)
        faults = (*undecided(opened), *trial_errors(opened))
        if faults:
            raise PackErrors(faults)
        click.echo(
            f"{opened.id} {opened.version}: {len(opened.statements)} statements, {len(opened.claims)} claims, "
            f"{len(opened.cases)} cases, {len(opened.program.functions)} functions, "
            f"{len(opened.program.mistakes)} mistakes. No fault found."
        )
        context.exit(Exit.CONFORMS)


@command.command(epilog="Example: conformance spec render -o site")
@click.option(
    "-o", "--output", "folder", default="conformance-site", show_default=True, type=click.Path(path_type=Path),
    help="Where the pages go.",
)  # fmt: skip
@pack_option
@_lang
@click.pass_context
def render(context: click.Context, folder: Path, pack: Path | None, lang: str) -> None:
    """The pack as a small site in both languages: what a course hands out with the assignment."""
    from conformance.cli.grading_errors import guarded
    from conformance.site.build import build

    with guarded(context):
        pages = build(open_pack(pack, mistakes=True), folder, lang)
        click.echo(f"{len(pages)} pages: {pages[0]}")
