"""What is worked out for one target serves the next, and changes no verdict."""

import pytest

from conformance.cli.options import open_pack
from conformance.known import Known
from conformance.plan.selection import parse_selection
from conformance.results.store import Writer, read_results
from conformance.runner import Options, run
from conformance.targets import Target

SOURCE = """
import numpy as np
variant = "llama"
def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight
def softmax(x, axis):
    e = np.exp(x - x.max())
    return e / e.sum(axis=axis, keepdims=True)
"""
SELECT = "q008.rms-norm*,q007.softmax*"


@pytest.fixture(scope="module")
def pack():
    return open_pack(None)


def verdicts(pack, folder, known):
    target = folder / "mine.py"
    target.write_text(SOURCE)
    options = Options(parse_selection([SELECT], pack))
    with Writer(folder) as writer:
        run(pack, Target("mine.py", target), options, writer, known=known)
    lines = read_results(folder).verdicts
    return [(v["claim"], v["case"], v["verdict"]) for v in lines], [v["margin"] for v in lines]


def test_a_prepared_run_says_the_same_and_computes_less(pack, tmp_path, monkeypatch):
    from conformance.plan.scenario import Scenario

    known = Known.of(pack, 0)
    known.prepare(["llama"], ["float32"], parse_selection([SELECT], pack))
    readings = []
    read = Scenario.read
    monkeypatch.setattr(
        Scenario, "read", lambda self, *a, **k: readings.append(self.key) or read(self, *a, **k)
    )
    plain, margins = verdicts(pack, tmp_path, None)
    first, readings[:] = len(readings), []
    same, again = verdicts(pack, tmp_path, known)
    assert same == plain
    assert {verdict for *_, verdict in plain} == {"pass", "fail"}
    assert [m for m in again if isinstance(m, float)] == pytest.approx(
        [m for m in margins if isinstance(m, float)], rel=1e-5
    )
    assert len(readings) < first


def test_what_is_known_of_another_seed_is_not_used(pack, tmp_path):
    other = Known.of(pack, 1)
    assert verdicts(pack, tmp_path, other) == verdicts(pack, tmp_path, None)
    assert other.exact == {}
