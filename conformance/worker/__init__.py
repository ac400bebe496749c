"""The worker: the one part of the project that runs inside the submission's own interpreter.

This folder stands alone. It is started by path (`python conformance/worker/__main__.py FD`), needs
Python 3.9 and NumPy 1.21, and never imports the package `conformance`. It answers requests that
arrive on an inherited socket; see `protocol.py` for the form and `main.py` for the requests.
"""
