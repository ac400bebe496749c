"""A pack with few published cases, its goldens, and ways to spoil them."""

import re
import shutil
from pathlib import Path

from conformance.golden.build import build
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack

CASES = ("softmax-scores-with-mask", "rope-plain", "attention-long", "mha-worked-example")
"""One file; two by layout; a long one; one for each variant that fits. Together they take a second."""


def small_pack(folder: Path) -> Pack:
    """The bundled pack with `CASES` published and no others."""
    shutil.copytree(bundled("spec") / "forward-pass", folder)
    for path in (folder / "cases").glob("*.yaml"):
        text = re.sub(r"^ *published: true\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for case in CASES:
            text = re.sub(rf"^(  - id: {case}\n)", r"\1    published: true\n", text, flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8")
    return load_pack(folder)


def build_small(pack: Pack, folder: Path) -> None:
    """All of its goldens, and the tolerances of its cases in float32."""
    build(pack, folder, CASES, ["float32"])


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def flip(path: Path, bit: int) -> None:
    """Change one bit of a file; counted from the end if negative."""
    data = bytearray(path.read_bytes())
    place = bit % (8 * len(data))
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(bytes(data))
