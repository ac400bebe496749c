"""Templates as Jinja compiled them, kept where Python keeps what it compiles: most of a small report's time is that."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2 import compiler
from jinja2.bccache import Bucket

FOLDER = Path(__file__).parent / "__pycache__"


class Compiled(jinja2.BytecodeCache):
    """Kept beside the bytecode of this package, under the same conditions; where it cannot be, nothing is lost.

    Jinja itself asks whether what is kept was made of the same text, and by the same Python.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        """What was kept of a template, if anything was."""
        with suppress(OSError, EOFError, ValueError, TypeError), _file(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template: whole, or not at all."""
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):  # also where files have no times: a zip archive
            FOLDER.mkdir(exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=FOLDER)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    bucket.write_bytecode(file)
                Path(name).replace(_file(bucket))
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise


def _file(bucket: Bucket) -> Path:
    return FOLDER / f"{bucket.key}.{sys.implementation.cache_tag}-{_made_by()}.jinja"


@functools.cache
def _made_by() -> str:
    """Jinja's compiler, and the module that says how it is to compile, by when they were written."""
    makers = (Path(str(compiler.__file__)), Path(__file__).with_name("page.py"))
    return "-".join(f"{maker.stat().st_mtime_ns:x}" for maker in makers)
