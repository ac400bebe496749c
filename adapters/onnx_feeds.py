"""What onnxruntime is fed for a call of the document: of a model by its recipe, of an operation by its own.

The adapters of ONNX files run by it, and the snippets that reproduce a failure are written by it: NumPy alone.
"""

import json
import math

import numpy as np

TYPES = {
    "int64": np.int64, "int32": np.int32, "bool": np.bool_,
    "float": np.float32, "float16": np.float16, "double": np.float64,
}  # fmt: skip


def read(folder):
    """The recipe in a folder."""
    return json.loads((folder / "recipe.json").read_text(encoding="utf-8"))


# -- a model --------------------------------------------------------------------------------------


def model_feeds(recipe, tokens, attention_mask, positions, past, before):
    """Inputs by name; `before` tokens have left `past`. Raises `NotImplementedError` for what the graph has no input for."""
    inputs = recipe["inputs"]
    batch, length = tokens.shape
    feeds = {inputs["tokens"]["name"]: tokens.astype(TYPES[inputs["tokens"]["dtype"]])}
    mask = np.ones((batch, before + length), bool) if attention_mask is None else attention_mask
    if inputs["attention_mask"] is not None:
        feeds[inputs["attention_mask"]["name"]] = mask.astype(TYPES[inputs["attention_mask"]["dtype"]])
    elif not mask.all():
        raise NotImplementedError("the graph has no input for a mask")
    if recipe["padded_behind"] and not mask.all():
        raise NotImplementedError(
            "the graph's attention is told how long each sequence is, so padding has to stand behind it"
        )
    if recipe["counts_padding"] and not mask.all():
        raise NotImplementedError("the graph has no input for positions, and counts padding as tokens")
    counted = np.maximum(np.cumsum(mask, axis=1) - 1, 0)[:, -length:]
    wanted = counted if positions is None else np.broadcast_to(positions, (batch, length))
    if inputs["positions"] is not None:
        if inputs["positions"]["rank"] == 1:
            if (wanted != wanted[:1]).any():
                raise NotImplementedError("the graph has one list of positions for all sequences")
            wanted = wanted[0]
        feeds[inputs["positions"]["name"]] = wanted.astype(TYPES[inputs["positions"]["dtype"]])
    elif (wanted != counted).any():
        raise NotImplementedError("the graph has no input for positions")
    if recipe["rows"] is not None and max(before + length, int(wanted.max()) + 1) > recipe["rows"]:
        raise NotImplementedError(f"the graph's tables are of {recipe['rows']} positions")
    for pair, arrays in zip(inputs["past"], past or (), strict=True):
        for entry, array in zip(pair, arrays, strict=True):
            feeds[entry["name"]] = array
    return feeds


def empty_past(recipe, batch, kv_heads, width):
    """A past of no tokens: (keys, values) of each layer."""
    made = []
    for pair in recipe["inputs"]["past"]:
        shapes = [(batch, e["heads"] or kv_heads, 0, e["width"] or width) for e in pair]
        made.append(tuple(np.zeros(s, TYPES[e["dtype"]]) for s, e in zip(shapes, pair, strict=True)))
    return made


def replaced(recipe, folder, params):
    """Initializers that hold given parameters, by name; the rest of each is the file's own.

    A `factor` is what the file's weights hold besides the document's: a scale folded into the queries.
    """
    made = {}
    for name, array in params.items():
        for entry in recipe["parameters"][name]:
            initializer = entry["initializer"]
            if initializer not in made:
                made[initializer] = _raw(entry["file"], folder)
            own = made[initializer]
            view = own.T if entry["transposed"] else own
            values = np.asarray(array) * entry["factor"] if "factor" in entry else np.asarray(array)
            if entry["index"] is None:
                view[...] = values.reshape(view.shape)
            elif view.ndim == 2 and entry["axis"] == 1:
                view[:, entry["index"]] = values
            else:
                view = view if view.ndim == 2 else own.reshape(-1)
                view[entry["index"]] = values
    return made


def _raw(file, folder):
    """A weight of the file: written into the folder, or where the model has it."""
    if isinstance(file, str):
        return np.load(folder / file, allow_pickle=False)
    return np.array(np.memmap(file["path"], file["dtype"], "r", file["offset"], tuple(file["shape"])))


# -- an operation ---------------------------------------------------------------------------------


def operation_feeds(operation, given):
    """Inputs by name, of the arguments of the document. Raises `NotImplementedError` for what is built in otherwise."""
    prepared = PREPARE[operation["name"]](operation, dict(given))
    feeds, bound = {}, {}
    for name, entry in operation["inputs"].items():
        array = np.asarray(prepared[name])
        if entry["rank"] is not None and array.ndim != entry["rank"]:
            raise NotImplementedError(f"the graph's {name} has {entry['rank']} axes")
        for axis, (declared, size) in enumerate(zip(entry["sizes"] or (), array.shape, strict=False)):
            wanted = bound.setdefault(declared, size) if isinstance(declared, str) else declared
            if wanted not in (None, size):
                raise NotImplementedError(
                    f"the graph declares axis {axis} of its {name} to be {declared}, {wanted} here, not {size}"
                )
        feeds[entry["name"]] = array.astype(TYPES[entry["dtype"]])
    return feeds


def operation_shape(operation, given):
    """[batch, query, heads, -1] of an output in which the heads stand side by side; None where it is as it should be."""
    if operation["name"] != "attention" or operation["inputs"]["q"]["rank"] != 3:
        return None
    q = np.asarray(given["q"])
    return (len(q), q.shape[2], q.shape[1], -1)


def _same(operation, name, value):
    """Refuse another value than the one that is built in."""
    built_in = operation["fixed"].get(name, value)
    if not math.isclose(built_in, value, rel_tol=1e-6):
        raise NotImplementedError(f"the graph has {name} = {built_in:g}")


def _softmax(operation, given):
    axis, x = given["axis"], np.asarray(given["x"])
    _same(operation, "axis", axis if operation["fixed"].get("axis", axis) == axis else axis % x.ndim)
    return given


def _norm(operation, given):
    _same(operation, "eps", given["eps"])
    if operation["name"] == "layer_norm" and "bias" not in operation["inputs"]:
        raise NotImplementedError("the graph has no input for a bias")
    return given


def _rope(operation, given):
    x, positions, inputs = np.asarray(given["x"]), np.asarray(given["positions"]), operation["inputs"]
    batch, length = len(x), x.shape[2]
    pairs = x.shape[3] // 2
    frequency = float(given["theta"]) ** (-np.arange(pairs) / pairs)
    made = {"x": x}
    if "cos" in inputs:
        places = np.arange(int(positions.max()) + 1) if "positions" in inputs else positions
        angles = places[:, None] * frequency
        if "positions" not in inputs and inputs["cos"]["rank"] == 3:
            angles = np.broadcast_to(angles, (batch, *angles.shape))
        made.update(cos=np.cos(angles), sin=np.sin(angles))
    if "positions" in inputs:
        made["positions"] = np.broadcast_to(positions, (batch, length))
    return made


def _attention(operation, given):
    q, k, v = (np.asarray(given[name]) for name in "qkv")
    mask, is_causal = given.get("mask"), given.get("is_causal", False)
    inputs, fixed = operation["inputs"], operation["fixed"]
    if fixed.get("is_causal", is_causal) != is_causal:
        raise NotImplementedError(f"the graph has is_causal = {fixed['is_causal']}")
    if is_causal and fixed and q.shape[2] != k.shape[2]:
        raise NotImplementedError("the operator's triangle begins at the top left; it takes a past as inputs")
    if is_causal and "is_causal" not in fixed:
        if "mask" not in inputs:
            raise NotImplementedError("the graph is not told whether it is causal")
        # Its mask is given both, since no input of its own says it.
        queries, keys = q.shape[2], k.shape[2]
        triangle = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
        mask = triangle[None, None] if mask is None else np.asarray(mask) & triangle
    made = {"q": q, "k": k, "v": v}
    if inputs["q"]["rank"] == 3:
        if fixed.get("heads") != [q.shape[1], k.shape[1]]:
            raise NotImplementedError(f"the graph has {fixed.get('heads')} query and key heads")
        made = {n: t.transpose(0, 2, 1, 3).reshape(len(t), t.shape[2], -1) for n, t in made.items()}
    if "mask" in inputs:
        shape = (len(q), q.shape[1], q.shape[2], k.shape[2])
        visible = np.broadcast_to(True if mask is None else mask, shape)
        made["mask"] = (
            visible if inputs["mask"]["dtype"] == "bool" else np.where(visible, 0.0, -np.inf).astype(q.dtype)
        )
    elif mask is not None:
        raise NotImplementedError("the graph has no input for a mask")
    return made


PREPARE = {
    "softmax": _softmax,
    "layer_norm": _norm,
    "rms_norm": _norm,
    "rope": _rope,
    "attention": _attention,
}
