"""`python adapters/module_map my_file.py:GPT` prints a first map of a module."""

import contextlib
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from module_map.draft import draft
    from module_map.errors import MapError

    try:
        with contextlib.redirect_stdout(sys.stderr):  # a module may print
            text = draft(sys.argv[1])
        sys.stdout.write(text)
    except MapError as error:
        sys.exit(str(error))
