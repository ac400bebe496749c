"""Rules for every test of the suite."""

import os
import re
import signal
from collections.abc import Generator
from typing import Any

import pytest

# Before any library reads them. Two processes on two cores are faster with one thread each than with two, and a test
# never talks to a model hub.
for _name, _value in {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}.items():
    os.environ.setdefault(_name, _value)

# A shell starts what runs in the background with Ctrl-C ignored, and every process below inherits that: tests of
# Ctrl-C would then test nothing, wherever CI happens to be started from.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How people word it, and `pytest.importorskip`.
_LIBRARY_MISSING = re.compile(
    r"could not import|cannot import|no module named|import ?error"
    r"|not (be )?(installed|importable|available)|isn't (installed|importable|available)"
    r"|missing (library|package|module|dependenc)|(library|package|module|dependency) is missing"
    r"|\b(needs?|requires?|without|no) `?(numpy|onnx|onnxruntime|torch|pytorch|transformers|x.transformers"
    r"|ml.dtypes|hypothesis|safetensors|jax|flint|python-flint|build|hatchling)\b",
    re.IGNORECASE,
)


def _library_that_is_missing(skip: BaseException | None, longrepr: Any) -> str | None:
    """The reason of a skip, if it was for want of a library; `None` for any other skip."""
    reason = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)
    if _LIBRARY_MISSING.search(reason):
        return reason
    # `except ImportError: pytest.skip("whatever it says")`
    seen = skip
    while seen is not None:
        if isinstance(seen, ImportError):
            return f"{reason} ({seen})"
        seen = seen.__cause__ or seen.__context__
    return None


def _fail_instead(report: Any, call: pytest.CallInfo[Any] | None) -> None:
    """Turns the report of a skip for want of a library into a failure, when CONFORMANCE_CI is 1."""
    if os.environ.get("CONFORMANCE_CI") != "1" or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    skip = call.excinfo.value if call is not None and call.excinfo is not None else None
    reason = _library_that_is_missing(skip, report.longrepr)
    if reason is not None:
        report.outcome = "failed"
        report.longrepr = (
            f"skipped for want of a library, which counts as a failure where CONFORMANCE_CI=1: {reason}\n"
            "Add the library to the extra `test` in pyproject.toml, or give the skip its real reason."
        )


# The outermost wrappers, so that they see what every other plugin has made of the report.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_instead(report, call)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_instead(report, getattr(report, "call", None))
    return report
