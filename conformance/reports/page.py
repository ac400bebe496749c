"""What all pages share: templates, a policy that allows their own style and script alone, texts in two languages."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from conformance.language.program import Text
from conformance.reports.compiled import Compiled

_TEMPLATES = Path(__file__).parent / "templates"
_INDENT = re.compile(r"^ +", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


@functools.cache
def part(name: str) -> str:
    """The text of a file that goes into a page as it is."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@functools.cache
def template(name: str) -> jinja2.Template:
    """A template; what is put into it is escaped, and what is missing is an error."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_unindented), bytecode_cache=Compiled(),
    )  # fmt: skip
    return environment.get_template(name)


def _unindented(name: str) -> str:
    # The template is indented for its reader; without, a page is a tenth smaller.
    return _INDENT.sub("", part(name))


def policy(style: str, script: str) -> str:
    """A content security policy for a page with this style and this script, and nothing else."""

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return f"default-src 'none'; style-src {source(style)}; script-src {source(script)}; base-uri 'none'; form-action 'none'"


@functools.lru_cache(maxsize=4096)
def both(limit: int, text: Text | str) -> Markup:
    """A text in both languages, of which the page shows one; what stands in backticks is code."""
    if isinstance(text, str):
        return coded(text, limit)
    if text.en == text.zh:
        return coded(text.en, limit)
    return Markup('<i lang="en">{}</i><i lang="zh">{}</i>').format(
        coded(text.en, limit), coded(text.zh, limit)
    )


@functools.lru_cache(maxsize=4096)
def escaped(text: str) -> str:
    """A text as it stands in a page."""
    return str(escape(text))


def coded(text: str, limit: int) -> Markup:
    """A text of at most `limit` characters; what stands in backticks is code."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    parts = _CODE.split(text)  # every second one stood in backticks
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts))
