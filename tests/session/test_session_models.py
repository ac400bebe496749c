import numpy as np
from session_helpers import CONFIG, EMBED, SOFTMAX, model, softmax, tokens

from conformance.session import ModelCall, NotOffered, Raised, Returned, Step, Unusable

MODEL = """
class Model:
    made = 0
    def __init__(self, config, params):
        Model.made += 1
        print("made", Model.made)
        self.embed = params["embed"]
    def forward(self, tokens, cache=None, tap=None):
        if tap:
            tap("x", self.embed[tokens])
        past = [] if cache is None else cache
        assert all(type(t) is int for t in past)
        ids = past + tokens[0].tolist()
        logits = self.embed[ids][None, len(past):] * len(ids)
        return (logits, ids) if cache is not None or tokens.shape[1] == 1 else (logits, ids)
"""


def steps(*lengths: int, sequence: str = "main") -> list[Step]:
    ids, result = iter(range(6)), []
    for length in lengths:
        step = tokens(*[next(ids) for _ in range(length)])
        result.append(Step(step.inputs, sequence, use_cache=True))
    return result


def test_a_model_with_a_cache_gets_it_back_step_by_step(submit):
    session = submit(MODEL)
    outcome = session.call(model(*steps(2, 1, 3)), "float64")
    assert isinstance(outcome, Returned)
    assert len(outcome.outputs) == 3
    np.testing.assert_array_equal(outcome.outputs[0].tensors["logits"], EMBED[None, :2] * 2)
    np.testing.assert_array_equal(outcome.outputs[1].tensors["logits"], EMBED[None, 2:3] * 3)
    np.testing.assert_array_equal(outcome.outputs[2].tensors["logits"], EMBED[None, 3:6] * 6)


def test_interleaved_sequences_have_caches_of_their_own(submit):
    session = submit(MODEL)
    a, b = steps(2, 1, sequence="a"), steps(1, 1, sequence="b")
    outcome = session.call(model(a[0], b[0], a[1], b[1]), "float32")
    factors = [output.tensors["logits"].max() for output in outcome.outputs]
    assert factors == [EMBED[1, 3] * 2, EMBED[0, 3], EMBED[2, 3] * 3, EMBED[1, 3] * 2]


def test_a_cache_is_passed_on_once(submit):
    session = submit(
        """
        class Model:
            def __init__(self, config, params): pass
            def forward(self, tokens, cache=None):
                print(cache)
                if tokens[0, 0] == 9:
                    raise ValueError("here")
                return np.zeros((1, 1, 6)), "cache after %d" % tokens[0, 0]
        """
    )
    cached = [Step(tokens(i).inputs, use_cache=True) for i in (1, 2, 3)]
    outcome = session.call(model(cached[0], tokens(7), cached[1], cached[2]), "float32")
    assert outcome.printed.splitlines() == ["None", "None", "cache after 1", "cache after 2"]


def test_an_instance_is_kept_and_its_parameters_are_not_sent_again(submit):
    session = submit(MODEL)
    assert session.call(model(tokens(1, 2)), "float32").printed == "made 1\n"
    assert session.call(model(tokens(3, 4)), "float32").printed == ""
    other = ModelCall(CONFIG, {"embed": EMBED * 2}, (tokens(1, 2),))
    outcome = session.call(other, "float32")
    assert outcome.printed == "made 2\n"
    np.testing.assert_array_equal(outcome.outputs[0].tensors["logits"], EMBED[None, 1:3] * 4)
    assert session.call(model(tokens(1, 2)), "float64").printed == "made 3\n"
    for factor in (3, 4, 5):  # four are kept: this drops the first
        session.call(ModelCall(CONFIG, {"embed": EMBED * factor}, (tokens(1),)), "float32")
    assert session.call(model(tokens(5)), "float32").printed == "made 7\n"
    assert session.call(ModelCall(CONFIG, {"embed": EMBED * 5}, (tokens(2),)), "float32").printed == ""


def test_an_instance_that_changed_its_parameters_is_reported_and_not_used_again(submit):
    session = submit(
        """
        class Model:
            def __init__(self, config, params):
                self.embed = params["embed"]
            def forward(self, tokens):
                self.embed *= 2
                return self.embed[tokens]
        """
    )
    for first in (1, 2, 3):
        outcome = session.call(model(tokens(first)), "float32")
        assert outcome.outputs[-1].modified == ("params.embed",)
        np.testing.assert_array_equal(outcome.outputs[0].tensors["logits"], EMBED[None, [first]] * 2)


def test_parameters_changed_by_the_construction_are_reported_each_time(submit):
    session = submit(
        """
        class Model:
            def __init__(self, config, params):
                params["embed"] += 1
                self.embed = params["embed"]
            def forward(self, tokens):
                return self.embed[tokens]
        """
    )
    for first in (1, 2):
        outcome = session.call(model(tokens(first)), "float32")
        assert outcome.outputs[-1].modified == ("params.embed",)
        np.testing.assert_array_equal(outcome.outputs[0].tensors["logits"], EMBED[None, [first]] + 1)


def test_an_instance_that_raised_is_made_anew(submit):
    session = submit(
        """
        class Model:
            def __init__(self, config, params):
                self.used = False
            def forward(self, tokens):
                assert not self.used
                self.used = True
                raise ValueError("no")
        """
    )
    for first in (1, 2):
        outcome = session.call(model(tokens(first)), "float32")
        assert (outcome.type, outcome.step) == ("ValueError", 0)


def test_logits_of_an_earlier_step_survive_a_buffer_that_is_used_again(submit):
    session = submit(
        """
        class Model:
            def __init__(self, config, params):
                self.logits = np.zeros((1, 1, 6), np.float32)
            def forward(self, tokens):
                self.logits[:] = tokens[0, 0]
                return self.logits
        """
    )
    outcome = session.call(model(tokens(1), tokens(2)), "float32")
    assert [output.tensors["logits"][0, 0, 0] for output in outcome.outputs] == [1, 2]


def test_only_given_inputs_are_passed_and_one_that_is_not_taken_is_not_offered(submit):
    session = submit(
        """
        class Model:
            def __init__(self, config, params): pass
            def forward(self, tokens, attention_mask=None, **more):
                print(attention_mask is None, sorted(more))
                return np.zeros((1, 3, 6))
        """
    )
    assert session.call(model(), "float32").printed == "True []\n"
    inputs = {**tokens(1, 2, 3).inputs, "positions": np.arange(3), "attention_mask": np.ones((1, 3), bool)}
    assert session.call(model(Step(inputs)), "float32").printed == "False ['positions']\n"

    session = submit(
        """
        class Model:
            def __init__(self, config, params): pass
            def forward(self, tokens): return np.zeros((1, 3, 6))
        """,
        file="other.py",
    )
    outcome = session.call(model(Step(inputs)), "float32")
    assert isinstance(outcome, NotOffered)
    assert outcome.reason == "`Model.forward` takes no `positions`"
    outcome = session.call(model(*steps(1)), "float32")
    assert outcome.reason == "`Model.forward` takes no `cache`"


def test_taps_of_each_step(submit):
    session = submit(MODEL)
    outcome = session.call(model(*steps(2, 1), tap=True), "float32")
    assert [output.taps["x"].shape for output in outcome.outputs] == [(1, 2, 4), (1, 1, 4)]


def test_what_a_model_returns_instead_of_logits(submit):
    def returned(what: str, *asked: Step, cache: str = ", cache=None") -> Unusable:
        source = f"""
class Model:
    def __init__(self, config, params): pass
    def forward(self, tokens{cache}):
        return {what}
"""
        outcome = submit(source).call(model(*asked), "float32")
        assert isinstance(outcome, Unusable), outcome
        return outcome

    cached = steps(1)
    assert returned("np.zeros((1, 1, 6))", *cached).expected == "(logits, cache)"
    assert returned("np.zeros((1, 1, 6)), None", *cached).got == "(logits, None)"
    assert returned("np.zeros((1, 1, 6)), 1, 2", *cached).got == "a tuple of 3"
    assert returned("[1, 2]", *cached).got == "a list"
    assert returned("'text', 1", *cached).got == "a str"
    assert returned("np.zeros((1, 1, 6)), 1", cache="").got == "a tuple of 2"
    assert returned("tokens", cache="").got == "an array of dtype int64"
    assert returned("None").got == "None"


def test_a_model_may_be_called_or_made_by_a_function(submit):
    session = submit(
        """
        class Model:
            def __init__(self, config, params): pass
            def __call__(self, tokens): return np.zeros((1, 3, 6))
        """
    )
    assert session.offer.functions["Model.forward"].parameters == ("tokens",)
    assert isinstance(session.call(model(), "float32"), Returned)
    session = submit(
        """
        def Model(config, params):
            return lambda tokens: np.zeros((1, 3, 6))
        """,
        file="factory.py",
    )
    assert "Model.forward" not in session.offer.functions
    assert isinstance(session.call(model(), "float32"), Returned)


def test_a_model_that_cannot_be_made(submit):
    session = submit("class Model:\n    def __init__(self, params): pass")
    outcome = session.call(model(), "float32")
    assert isinstance(outcome, Raised)
    assert "called as Model(config=…, params=…)" in outcome.message
    assert outcome.step is None
    session = submit("def Model(config, params):\n    return 3", file="three.py")
    assert session.call(model(), "float32").got == "an int"


def test_models_and_operations_take_turns(submit):
    session = submit(MODEL + SOFTMAX)
    for turn in range(3):
        assert isinstance(session.call(softmax(turn), "float32"), Returned)
        assert isinstance(session.call(model(tokens(turn)), "float32"), Returned)
    assert session.starts == 1
