"""A hash of all that a tolerance depends on: while it is the same, so is every stored one.

A tolerance's key names its inputs, parameters, sizes, choices and dtype, and the expression of a
claim. What remains is hashed here: the program, the noise, and the code that reads one in the other.
Cases and claims are not: one that is new is measured, and all the others stay as they are.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import conformance
from conformance.noise import default_generator
from conformance.pack.model import Pack

SOURCES = (
    "noise.py",
    "tolerance.py",
    "language/*.py",
    "plan/scenario.py",
    "plan/scenarios.py",
    "plan/draws.py",
    "plan/relevance.py",
    "judging/spreads.py",
    "judging/holds.py",
    "golden/coding.py",
    "golden/tolerances.py",
)
"""Of the package; beside the evaluator, whatever makes a key or a σ."""
PACK_FILES = ("axes.yaml", "tensors.yaml", "operations.yaml", "program/*.yaml")


def dependence(pack: Pack) -> str:
    """The hash, in hexadecimal. Raises `OSError` where a source cannot be read."""
    total = hashlib.sha256()
    for folder, patterns in ((Path(conformance.__file__).parent, SOURCES), (pack.folder, PACK_FILES)):
        for pattern in patterns:
            paths = sorted(folder.glob(pattern))
            if not paths:
                raise FileNotFoundError(f"{folder / pattern} is not there")
            for path in paths:
                total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    # NumPy promises no stream for ever; a version number would say too little or too much.
    random = default_generator("0" * 64)
    total.update(
        random.random(16).astype("<f8").tobytes() + random.standard_normal(16).astype("<f8").tobytes()
    )
    return total.hexdigest()
