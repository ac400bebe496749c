"""The form of a map, closed: an unknown key is an error with the nearest known one.

`spec/schema/map.schema.json` is generated from here; docs/module-maps.md explains it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from conformance.pack.documents import Document, Scalar

Operation = Literal["model", "block", "multi_head_attention", "layer_norm", "rms_norm", "ffn", "swiglu"]
Dtype = Literal["float64", "float32", "float16", "bfloat16"]
Where = str | int | list[str | int]
"""An index, a key or an attribute of what was returned, or a path of them."""


class MadeDocument(Document, frozen=True):
    """A class and its keyword arguments; text that begins with `=` is computed from the config.

    `attributes` are set on what it made, for a config that a function gives with defaults.
    """

    class_: str = msgspec.field(name="class")
    arguments: dict[str, Any] = {}
    attributes: dict[str, Any] = {}


class RefusalDocument(Document, frozen=True):
    """Sizes that the module is not made for: their claims are `unsupported`."""

    when: str
    because: str


class BuildDocument(Document, frozen=True):
    """How the module is built: a config object handed to its class, keyword arguments, or both."""

    config: MadeDocument | None = None
    arguments: dict[str, Any] = {}
    refuse: list[RefusalDocument] = []


class InputDocument(Document, frozen=True):
    """Which arguments take an input, and in what form.

    `as` is of masks; `rows` of positions: [B, T] instead of [T]; `always` passes it where nothing
    gives it, too.
    """

    argument: str | list[str]
    as_: Literal["visible", "hidden", "ones", "additive", "lowest", ""] = msgspec.field(name="as", default="")
    rows: bool = True
    always: bool = False
    required: bool = False
    with_context: bool = False


Input = str | list[str] | InputDocument


class CallDocument(Document, frozen=True):
    """The arguments of a call, by the contract's names for what they take."""

    method: str = ""
    tokens: Input | None = None
    embeddings: Input | None = None
    x: Input | None = None
    context: Input | None = None
    source: Input | None = None
    attention_mask: Input | None = None
    positions: Input | None = None
    causal: Input | None = None
    mask: Input | None = None
    constants: dict[str, Any] = {}


class ReturnsDocument(Document, frozen=True):
    """Where the graded tensor is in what the module returns, and which positions it has."""

    at: Where | None = None
    positions: Literal["all", "last"] = "all"


class CacheDocument(Document, frozen=True):
    """By which protocol the module remembers what it has read."""

    protocol: Literal["none", "returned", "object", "inside"]
    argument: str = ""
    result: Where | None = None
    make: str | None = None
    reset: str = ""
    start: str = ""
    arguments: dict[str, Any] = {}


class TapDocument(Document, frozen=True):
    """A submodule whose result (or input) is a tensor of the contract."""

    module: str
    of: Literal["result", "input"] = "result"
    at: Where | None = None
    split: str = ""
    part: list[Any] | None = None


class HubDocument(Document, frozen=True):
    """What a `config.json` of the library says about the variant.

    `choices` are choices as expressions over its fields; `refuse` what no variant is.
    """

    choices: dict[str, str] = {}
    refuse: list[RefusalDocument] = []
    defaults: dict[str, Any] = {}


class MapDocument(Document, frozen=True):
    """A whole map."""

    variant: str | dict[str, Scalar] | list[str | dict[str, Scalar]]
    parameters: dict[str, str]
    call: CallDocument
    operation: Operation = "model"
    dtype: Dtype | list[Dtype] = "float32"
    fully_masked: Literal["zero", "mean", "unmasked", "error", "avoids"] | None = None
    device: str = "cpu"
    python: str = ""
    build: BuildDocument = BuildDocument()
    returns: Where | ReturnsDocument = ReturnsDocument()
    cache: CacheDocument = CacheDocument("none")
    taps: dict[str, str | TapDocument] = {}
    hub: HubDocument = HubDocument()
