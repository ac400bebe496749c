"""The form of every YAML file of a pack; `spec/schema/*.json` is generated from here.

Structs are closed: an unknown key is an error with the nearest known one, never ignored.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Number = int | float
Scalar = str | int | float | bool
Choice = dict[str, Scalar]
"""`{by: norm_placement, pre: …, post: …}`; or `{is: …, at_least: float32}`."""
When = dict[str, list[Scalar] | Scalar]


class Document(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Base of every struct here."""


class TextDocument(Document, frozen=True):
    """A text that a person reads, in English and Chinese."""

    en: str
    zh: str


class AxisDocument(Document, frozen=True):
    """An axis: the symbol of its size, where the config has it, or its parts, or a fixed length."""

    size: str = ""
    config: str = ""
    parts: list[str] = []
    length: int | None = None


class TensorDocument(Document, frozen=True):
    """A tensor by the name that reports and taps use."""

    axes: str
    of: str
    says: TextDocument
    offered: bool = True


class GivenDocument(Document, frozen=True):
    """An input: its axes, what stands for it where it is left out, and what it holds if not real numbers."""

    axes: str
    otherwise: Scalar | None = None
    kind: Literal["", "bool", "int", "real"] = ""


class ParameterDocument(Document, frozen=True):
    """A trained tensor: its axes, when the variant has it, and what random values look like."""

    axes: str
    when: When = {}
    like: str = "matrix"


class RememberedDocument(Document, frozen=True, rename={"value": "is"}):
    """State between calls: its axes, its new value, and its value before the first call."""

    axes: str
    value: Scalar
    first: Scalar | None = None


class MistakeDocument(Document, frozen=True):
    """A named patch of the program.

    `of` is the function that keys without a function of their own belong to; `free` names values
    that people choose differently, each combination being one form of the mistake.
    """

    id: str
    replace: dict[str, Scalar | Choice]
    says: TextDocument
    of: str = ""
    kind: int = 0
    free: dict[str, list[Scalar]] = {}


class FunctionDocument(Document, frozen=True, rename={"result": "is"}):
    """A function of the program."""

    result: Scalar | Choice
    gives: str
    given: dict[str, str | GivenDocument] = {}
    parameters: dict[str, str | ParameterDocument] = {}
    remember: dict[str, RememberedDocument] = {}
    let: dict[str, Scalar | Choice] = {}
    mistakes: list[MistakeDocument] = []


class ChoiceDocument(Document, frozen=True):
    """A free choice of the document: the values it may have, or that it is a number, or both.

    Where a number is allowed besides values, these are what the pack is checked with.
    """

    default: Scalar
    values: list[Scalar] = []
    number: Literal["", "positive", "fraction", "whole"] = ""


class ArgumentDocument(Document, frozen=True):
    """How an argument of a target's function is made from what a case gives."""

    axes: str = ""
    given: str = ""
    parameter: str = ""
    choice: str = ""
    position_of: str = ""
    everything: str = ""


class EitherDocument(Document, frozen=True):
    """A choice that an operation leaves open where the target declares no variant.

    `undeclared` are the values then accepted; a declared variant with the choices `when` fixes the
    value, if it is one of `among`.
    """

    undeclared: list[Scalar]
    among: list[Scalar] = []
    when: When = {}


class OperationDocument(Document, frozen=True):
    """A function that a target may offer, and what of the program it must equal."""

    rung: str
    function: str
    arguments: dict[str, str | ArgumentDocument]
    outputs: dict[str, str]
    says: TextDocument
    optional: list[str] = []
    optional_outputs: list[str] = []
    with_context: str = ""
    choices: Choice = {}
    either: dict[str, EitherDocument] = {}
    needs_variant: bool = False
    model: bool = False
    signature: str = ""
    real: dict[str, str] = {}
    undefined: str = ""


class DrawDocument(Document, frozen=True, rename={"expression": "is"}):
    """How a case makes one input. Exactly one of the forms."""

    normal: Number | None = None
    integers: list[int] | None = None
    values: Any = None
    expression: str = ""
    left_padding: list[int] | None = None
    tokens: bool = False
    start: int | None = None
    axes: str = ""
    negative: bool = False


class CaseDocument(Document, frozen=True, rename={"purpose": "for"}):
    """Sizes, inputs and parameters on which claims are decided."""

    id: str
    of: str
    purpose: TextDocument
    sizes: dict[str, int]
    given: dict[str, DrawDocument | Scalar | None] = {}
    parameters: dict[str, DrawDocument] = {}
    choices: Choice = {}
    when: When = {}
    schedule: list[int] = []
    tags: list[str] = []
    dtypes: list[str] = []
    published: bool = False


class ChangeDocument(Document, frozen=True):
    """What an experiment changes of one input or parameter."""

    resample: str = ""
    rows: list[int] | None = None
    draw: DrawDocument | None = None
    add: Scalar | None = None


class ExperimentDocument(Document, frozen=True):
    """Change something; say what must and what must not move.

    `interleave`: the case's calls take turns with those of the changed case, each with a cache of
    its own; the case alone must give the same.
    """

    change: dict[str, ChangeDocument] = {}
    interleave: bool = False
    schedule: list[int] | None = None
    twice: bool = False
    same: dict[str, str | bool] = {}
    moves: dict[str, str | bool] = {}


class ConventionDocument(Document, frozen=True):
    """A choice that the adapter declares: what the tensor then is, one of several forms each."""

    tensor: str
    where: str
    declared: str
    values: dict[str, list[str]]


class DistinctDocument(Document, frozen=True, rename={"mistake": "from"}):
    """A tensor that must not be what a named mistake makes of it."""

    tensor: str
    mistake: str


class DerivativeDocument(Document, frozen=True):
    """Secants of a tensor along random directions of an input, `step` either way."""

    tensor: str
    by: str
    step: Number


class StatisticDocument(Document, frozen=True):
    """The mean of an expression over all its elements and over many seeds."""

    tensor: str
    expression: str
    equals: Number
    seeds: int = 8


class CountDocument(Document, frozen=True):
    """How many numbers the target's own parameters of a pattern hold."""

    parameters: str
    equals: str


class RaisesDocument(Document, frozen=True):
    """An argument made unusable: `transposed`, …; the target should raise."""

    argument: str
    make: str


class RuntimeDocument(Document, frozen=True):
    """Other ways to run the same graph: at these levels of optimisation, with inner values as outputs."""

    optimisation: list[Literal["disabled", "basic", "all"]] = []
    tapped: bool = False


GraphCheck = Literal[
    "softmax-axis",
    "scale",
    "visibility",
    "padding",
    "fill",
    "residual",
    "sublayers",
    "networks",
    "heads",
    "lengths",
    "cache",
    "projections",
    "positions",
    "random",
]
"""What is asked of a graph's structure; see `conformance/judging/graph_checks.py`."""


class ClaimDocument(Document, frozen=True):
    """One statement of the source, made checkable. Exactly one kind."""

    id: str
    statements: list[str]
    of: str
    title: TextDocument
    says: TextDocument
    level: str = "MUST"
    rung: str = ""
    source: str = ""
    cases: list[str] = []
    when: When = {}
    where: str = ""
    shape: list[str] | None = None
    equation: str | None = None
    holds: str | None = None
    golden: str | None = None
    experiment: ExperimentDocument | None = None
    distinct: DistinctDocument | None = None
    derivative: DerivativeDocument | None = None
    statistic: StatisticDocument | None = None
    count: CountDocument | None = None
    raises: RaisesDocument | None = None
    convention: ConventionDocument | None = None
    untouched: bool | None = None
    graph: GraphCheck | None = None
    runtime: RuntimeDocument | None = None


class PackDocument(Document, frozen=True):
    """`pack.yaml`."""

    id: str
    version: str
    title: TextDocument
    source: TextDocument
    questions: dict[str, TextDocument]
    references: dict[str, str] = {}


class StatementDocument(Document, frozen=True):
    """A statement of the source: what it says, and how it is settled."""

    settled: str
    says: TextDocument
    reason: TextDocument | None = None


KINDS = (
    "shape",
    "equation",
    "holds",
    "golden",
    "experiment",
    "distinct",
    "derivative",
    "statistic",
    "count",
    "raises",
    "convention",
    "untouched",
    "graph",
    "runtime",
)
"""Every kind of claim; each has one module under `conformance/judging/`."""
