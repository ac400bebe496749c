"""Start of the worker: checks the interpreter, then hands over to `main.serve`.

Run by path, with the number of the inherited socket as its only argument. The folder is registered
as a package under a private name and leaves `sys.path`, so that neither a submission's
`protocol.py` or `load.py` can take the place of ours, nor ours of the submission's.

The code must be understood by interpreters that are too old, which is why it is so plain. The exit
statuses 90 to 92 tell the parent that the interpreter, not the submission, is at fault.
"""

import os
import sys

if __name__ == "__main__":
    if sys.version_info < (3, 9):
        sys.stderr.write("Python %d.%d is too old: 3.9 or newer is needed\n" % sys.version_info[:2])
        sys.exit(90)

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]

    try:
        import numpy
    except Exception as error:  # a broken NumPy raises all sorts of things
        sys.stderr.write("NumPy cannot be imported: %s: %s\n" % (type(error).__name__, error))
        sys.exit(91)
    if tuple(int(part) for part in numpy.__version__.split(".")[:2]) < (1, 21):
        sys.stderr.write("NumPy %s is too old: 1.21 or newer is needed\n" % numpy.__version__)
        sys.exit(92)

    import importlib
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        "_conformance_worker",
        os.path.join(here, "__init__.py"),
        submodule_search_locations=[here],
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = package
    # Our own modules may be kept as bytecode (the start is 20 ms faster); the submission's are not.
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    spec.loader.exec_module(package)
    main = importlib.import_module("_conformance_worker.main")
    sys.dont_write_bytecode = kept
    main.serve(int(sys.argv[1]))
