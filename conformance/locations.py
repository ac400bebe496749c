"""Where the specification, the goldens and the bundled adapters are.

In a checkout they are folders at the top of the repository; a wheel carries them inside the package. Nothing else in
the project may compute these paths: whatever asks here works in both.
"""

import re
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["BundledFolder", "MissingDataError", "bundled"]

BundledFolder: TypeAlias = Literal["spec", "golden", "adapters"]

_PACKAGE = Path(__file__).resolve().parent
_DISTRIBUTION = re.compile(r'^name\s*=\s*"transformer-conformance"\s*$', re.MULTILINE)


class MissingDataError(FileNotFoundError):
    """A folder that belongs to this installation is not there; the message says how to get it back."""


def bundled(name: BundledFolder) -> Path:
    """Finds a folder that comes with the tool.

    Args:
        name: `spec`, `golden` or `adapters`.

    Returns:
        The absolute path of an existing directory: `conformance/_data/<name>` in an installed wheel, `<name>` at the
        top of the repository in a checkout or an editable installation.

    Raises:
        MissingDataError: The folder is not there, so this copy of the tool is incomplete.
    """
    return _find(name, package=_PACKAGE)


def _find(name: str, package: Path) -> Path:
    if (data := package / "_data").is_dir():
        # Only a wheel has this folder.
        folder = data / name
        advice = "reinstall it: python -m pip install --force-reinstall --no-deps transformer-conformance"
    elif _is_our_checkout(package.parent):
        folder = package.parent / name
        advice = f"bring it back: git -C {package.parent} checkout -- {name}"
    else:
        # Never a guess: a folder named `adapters` beside an installed package belongs to another project.
        raise MissingDataError(
            f"{package} is neither an installed wheel (it has no folder _data) nor part of a checkout of "
            f"transformer-conformance, so its {name}/ cannot be found; install it with pip, or run it from a clone"
        )
    if not folder.is_dir():
        raise MissingDataError(f"this installation is incomplete, {folder} is missing; {advice}")
    return folder


def _is_our_checkout(root: Path) -> bool:
    """Whether `root` is our repository, not a site-packages folder into which someone spilled a pyproject.toml."""
    try:
        text = (root / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return _DISTRIBUTION.search(text) is not None
