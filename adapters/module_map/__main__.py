"""`python adapters/module_map my_file.py:GPT` prints a first map of a module."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from module_map.draft import draft
    from module_map.errors import MapError

    try:
        sys.stdout.write(draft(sys.argv[1]))
    except MapError as error:
        sys.exit(str(error))
