"""What is made ready for a scenario is what would have been made for each target."""

import numpy as np
import pytest

from conformance.cli.options import open_pack
from conformance.judging.bench import Bench
from conformance.judging.common import Question
from conformance.judging.program_bench import NoSession, offer_of
from conformance.known import Known
from conformance.plan.selection import parse_selection
from conformance.session.requests import ready, request_of

SELECT = "q007.softmax*,q005.logits*,q005.decode*"


@pytest.fixture(scope="module")
def pack():
    return open_pack(None)


@pytest.fixture(scope="module")
def known(pack):
    known = Known.of(pack, 0)
    known.done = known.prepare(["llama"], ["float32"], parse_selection([SELECT], pack))
    return known


def scenarios(known):
    for item, _ in known.done:
        scenario = known.scenarios.of(item.case, item.variant, {})
        if scenario is not None:
            yield item, scenario


def test_a_request_made_ahead_is_the_request_that_is_made_when_it_is_needed(known, pack):
    alone = Bench(NoSession(), offer_of([]))
    models = 0
    for _, scenario in scenarios(known):
        tap = scenario.operation.taps
        ahead, fresh = (
            known.bench(NoSession(), alone.offer).call(scenario, tap, 0),
            alone.call(scenario, tap, 0),
        )
        ready(ahead, "float32")
        models += scenario.operation.model
        assert (ahead.digest(), fresh.requests) == (fresh.digest(), {})
        for held in (False, True) if scenario.operation.model else (False,):
            one, other = (
                request_of(ahead, "float32", "a key", held),
                request_of(fresh, "float32", "a key", held),
            )
            assert one[0] == other[0]
            assert [bytes(part) for part in one[1]] == [bytes(part) for part in other[1]]
            one[0]["timeout"] = 3.0  # what a session adds stays with its own request
            assert "timeout" not in request_of(ahead, "float32", "a key", held)[0]
    assert models > 3


def test_where_a_tensor_counts_is_the_same_for_each_target(known):
    alone = Bench(NoSession(), offer_of([]))
    masked = 0
    for item, scenario in scenarios(known):
        shared = Question(item.claim, scenario, item.dtype, known.bench(NoSession(), alone.offer))
        for i, step in enumerate(alone.expected(scenario)):
            for tensor in (*step.outputs.values(), *step.taps.values()):
                one = shared.counted(i, tensor, item.claim.where if tensor in step.outputs.values() else None)
                other = Question(item.claim, scenario, item.dtype, Bench(NoSession(), alone.offer)).counted(
                    i, tensor, item.claim.where if tensor in step.outputs.values() else None
                )
                assert (one is None) == (other is None)
                assert one is None or np.array_equal(one, other)
                masked += one is not None
    assert masked


def test_two_variants_that_compute_the_same_are_told_of_their_own(pack):
    """Their keys may be equal; the config that a target is given is not."""
    known = Known.of(pack, 0)
    bench = known.bench(NoSession(), offer_of([]))
    case = next(
        case for case in pack.cases.values() if case.operation == "multi_head_attention" and not case.when
    )
    for name in ("minimal", "gpt2", "llama", "minimal"):
        scenario = known.scenarios.of(case, pack.variants[name], {})
        assert bench.call(scenario, True, 0).config["variant"] == name
