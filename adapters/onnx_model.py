"""Runs an ONNX file as a model of the document; `conformance run model.onnx` grades it through this file.

Two arguments: the model, and a folder with `recipe.json`, which says what its inputs, outputs, weights
and inner values are (`conformance/onnx/recipe.py` writes it), and with the weights themselves.

The file is graded as it is. Only where a case asks for other weights are those put in place of the
file's own, under the same names, before the session is made.
"""

import hashlib
import os
import sys
from pathlib import Path

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnxruntime
from onnx_feeds import empty_past, model_feeds, read, replaced

MODEL, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
RECIPE = read(FOLDER)
INPUTS, OUTPUTS, TAPS = RECIPE["inputs"], RECIPE["outputs"], RECIPE["taps"]
LEVELS = {
    "disabled": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
USUAL = "all"
LARGE = RECIPE["large"]
OTHERS_HELD = 4
"""Sessions with other weights than the file's own that are held; those with its own are few, and used again."""
BEYOND_THE_RUNTIME = {
    "batch_size must be 1 when sequence_length > 1 and past context is given": (
        "onnxruntime's GroupQueryAttention takes several tokens behind a past of one sequence only"
    ),
}
"""What onnxruntime refuses because its operators go no further, whatever the graph."""

framework = "numpy"
dtype = RECIPE["dtype"]
variant = RECIPE["variant"]

_sessions = {}


def session(level=USUAL, tapped=False, weights=None):
    """A session with the file; `weights` replaces initializers by name."""
    digest = hashlib.sha256()
    for name in sorted(weights or {}):
        digest.update(name.encode() + weights[name].tobytes())
    key = (level, tapped, digest.hexdigest() if weights else "")
    if key not in _sessions:
        if LARGE:
            _sessions.clear()  # before the next one takes as much again
        others = [held for held in _sessions if held[2]]
        if len(others) >= OTHERS_HELD:
            del _sessions[others[0]]
        _sessions[key] = _make(level, tapped, weights or {})
    return _sessions[key]


def _make(level, tapped, weights):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = LEVELS[level]
    options.use_deterministic_compute = True
    # Protocol buffers that follow each other are one message: what is appended belongs to the graph.
    extra = b"".join(_field(5, _tensor(name, array)) for name, array in weights.items())
    if tapped:
        names = sorted({tap["value"] for tap in TAPS.values()} - set(_declared()))
        extra += b"".join(_field(12, _field(1, name.encode())) for name in names)
    if not extra:
        return onnxruntime.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(MODEL.parent)
    )
    model = _without(memoryview(MODEL.read_bytes()), frozenset(weights)) + _field(7, extra)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _without(data, names):
    """A model without the initializers of these names."""
    if not names:
        return bytes(data)
    pieces = []
    for number, start, content, end in _fields(data, 0, len(data)):
        if number != 7:
            pieces.append(bytes(data[start:end]))
            continue
        kept = [
            bytes(data[begin:stop])
            for inner, begin, body, stop in _fields(data, content, end)
            if inner != 5 or _name(data, body, stop) not in names
        ]
        pieces.append(_field(7, b"".join(kept)))
    return b"".join(pieces)


def _name(data, start, end):
    """The name of a tensor."""
    return next((bytes(data[c:e]).decode() for n, _, c, e in _fields(data, start, end) if n == 8), "")


def _fields(data, start, end):
    """(number, start, content, end) of each field of a message."""
    at = start
    while at < end:
        begin = at
        key, at = _number(data, at)
        content = at
        if key & 7 == 0:
            _, at = _number(data, at)
        elif key & 7 == 2:
            length, content = _number(data, at)
            at = content + length
        else:
            at += 8 if key & 7 == 1 else 4
        yield key >> 3, begin, content, at


def _number(data, at):
    """(number, where it ends)."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _tensor(name, array):
    """An initializer."""
    code = {"float32": 1, "float16": 10, "float64": 11}[array.dtype.name]
    dims = b"".join(_varint(1 << 3) + _varint(size) for size in array.shape)
    content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return dims + _varint(2 << 3) + _varint(code) + _field(8, name.encode()) + _field(9, content)


def _declared():
    return [OUTPUTS["logits"], *(name for pair in OUTPUTS["present"] for name in pair)]


def _field(number, content):
    """A field of a protocol buffer that holds bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _run(use, asked, feeds):
    """The outputs that are asked for. What a large graph took for a long text, it gives back."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    if LARGE:
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    try:
        return use.run(asked, feeds, options)
    except Exception as error:
        for words, meaning in BEYOND_THE_RUNTIME.items():
            if words in str(error):
                raise NotImplementedError(meaning) from None
        raise


class _Runner:
    """What a model with a cache and one without share."""

    def __init__(self, config, params):
        """`params` are those that differ from the file's own."""
        self.config = config
        self.level = getattr(config, "optimisation", USUAL) if "optimisation" in vars(config) else USUAL
        # Of a large file one session is held; what is asked as usual and what is asked of inner values share it.
        shared = LARGE and "optimisation" not in vars(config)
        self.always_tapped = config.tapped if "tapped" in vars(config) else shared
        self.weights = replaced(RECIPE, FOLDER, params)

    def run(self, tokens, attention_mask, positions, past, tap):
        """Logits and the present of each layer. `past` is how many tokens came before, and what they left.

        Whoever calls a model counts its tokens; a cache that has lost some does not change that.
        """
        batch, length = tokens.shape
        before, past = past
        feeds = model_feeds(RECIPE, tokens, attention_mask, positions, past, before)
        names = _declared()
        use = session(self.level, tap is not None or self.always_tapped, self.weights)
        inner = sorted({entry["value"] for entry in TAPS.values()}) if tap is not None else []
        asked = [*names, *(name for name in inner if name not in names)]
        results = dict(zip(asked, _run(use, asked, feeds), strict=True))
        if tap is not None:
            for name, entry in TAPS.items():
                array = results[entry["value"]]
                if entry["flat"] == "query":
                    array = array.reshape(length, batch, -1).swapaxes(0, 1)
                elif entry["flat"]:
                    array = array.reshape(batch, length, -1)
                tap(name, array if entry["order"] is None else array.transpose(entry["order"]))
            tap("logits", results[OUTPUTS["logits"]])
        present = [tuple(results[name] for name in pair) for pair in OUTPUTS["present"]]
        return results[OUTPUTS["logits"]], (before + length, present)

    def empty(self, batch):
        """A past of no tokens."""
        return 0, empty_past(RECIPE, batch, self.config.n_kv_heads, self.config.d_head)


if INPUTS["past"] and len(OUTPUTS["present"]) == len(INPUTS["past"]):

    class Model(_Runner):
        """The file, with its caches."""

        def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
            """Logits, and the cache."""
            past = self.empty(len(tokens)) if cache is None else cache
            return self.run(tokens, attention_mask, positions, past, tap)

else:

    class Model(_Runner):
        """The file, without caches; a past that it insists on is empty."""

        def forward(self, tokens, attention_mask=None, positions=None, tap=None):
            """Logits."""
            return self.run(tokens, attention_mask, positions, self.empty(len(tokens)), tap)[0]


session(tapped=LARGE)  # whatever the runtime has against the file, it says here
