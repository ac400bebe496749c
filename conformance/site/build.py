"""Writes the site: an index, a page for each question, the mistakes, the tensors, the coverage."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from markupsafe import Markup

from conformance import __version__
from conformance.pack.model import RUNGS, Pack
from conformance.reports import page
from conformance.reports.formats import write_text
from conformance.reports.words import word
from conformance.results.store import StoreError
from conformance.site.mathml import equation
from conformance.site.pages import Formula, patches, questions, unsettled

LONGEST = 4_000
"""Characters of a text; the pack's own are all shorter."""


def build(pack: Pack, folder: Path, lang: str = "en") -> list[Path]:
    """Writes all pages, which need nothing but each other; returns them. Raises `StoreError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be made: {error.strerror}; choose another place with -o") from None
    asked = questions(pack)
    made: dict[str, tuple[str, dict[str, Any]]] = {"index.html": ("site-index.html", {})}
    for question in asked:
        made[question.file] = ("site-question.html", {"question": question})
    made["mistakes.html"] = ("site-mistakes.html", {"patches": patches(pack)})
    made["tensors.html"] = ("site-tensors.html", {"tensors": _tensors(pack)})
    made["coverage.html"] = ("site-coverage.html", {"unsettled": unsettled(tuple(pack.statements.values()))})
    paths = []
    for name, (template, fields) in made.items():
        path = folder / name
        write_text(path, _page(pack, template, lang, name, questions=asked, **fields))
        paths.append(path)
    return paths


def _page(pack: Pack, template: str, lang: str, name: str, **fields: Any) -> str:
    style, script = page.part("page.css") + page.part("site.css"), page.part("page.js")
    homes = {claim.id: f"{claim.question.lower()}.html#{claim.id}" for claim in pack.claims.values()}
    asked = fields["questions"]
    stated = {name: f"coverage.html#{name}" for name in pack.statements}
    stated |= {statement.id: f"{q.file}#{statement.id}" for q in asked for statement, _ in q.statements}
    return page.template(template).render(
        stated=stated, pack=pack, lang=lang, heading="claims site", target=f"{pack.id} {pack.version}", style=Markup(style),
        script=Markup(script), policy=page.policy(style, script), version=__version__, w=word, here=name, homes=homes,
        t=functools.partial(page.both, LONGEST), RUNGS=RUNGS, **fields,
    )  # fmt: skip


def _tensors(pack: Pack) -> list[tuple[Any, list[tuple[str, Formula]]]]:
    """Each named tensor with its equations: function and formula."""
    found = []
    for tensor in pack.program.tensors.values():
        own = []
        for function in tensor.functions:
            stage = pack.program.functions[function].equation(tensor.name)
            for key, expression in () if stage is None else stage.alternatives.items():
                own.append((function, Formula(equation(tensor.name, expression), key)))
        found.append((tensor, own))
    return found
