import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.session import Limits, Session

# The interpreter that runs the submissions of these tests; any with NumPy.
PYTHON = os.environ.get("SUBMISSION_PYTHON") or sys.executable
NAMES = ("softmax", "attention", "rms_norm", "multi_head_attention", "block", "Model")

Open = Callable[..., Session]


@pytest.fixture
def submit(tmp_path: Path) -> Iterator[Open]:
    """Writes an adapter and gives a session with it, closed at the end; `opened=False` leaves it unopened."""
    sessions = []

    def write(source: str, *, file: str = "adapter.py", opened: bool = True, **more: Any) -> Session:
        path = tmp_path / file
        path.write_text("import numpy as np\n" + textwrap.dedent(source), encoding="utf-8")
        more.setdefault("limits", Limits(timeout=5.0, import_timeout=20.0))
        more.setdefault("python", PYTHON)
        session = Session(path, names=NAMES, **more)
        sessions.append(session)
        if opened:
            session.open()
        return session

    yield write
    for session in sessions:
        session.close()
