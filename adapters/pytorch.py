"""Any `torch.nn.Module`, graded as it is, with a map: `conformance run pytorch my_file.py:GPT --map map.yaml`.

The map (docs/module-maps.md) says how the module is built, which parameter is which, and how it is
called. It has been checked before it comes here, as JSON in the arguments.
"""

import inspect
import json
import sys

import torch
from module_map import Lines, MapError, Misfit, ModuleMap, Source, hub_variant, shapes_of

framework = "torch"

_given = json.loads(sys.argv[2])
_lines = Lines(_given["file"], _given["lines"])
_plan = _given["map"]
_operation = _plan.get("operation", "model")
dtype = _plan.get("dtype", "float32")
variant = hub_variant(_plan, _given["hub"], _lines) if _given["hub"] else _plan["variant"]
fully_masked = _plan.get("fully_masked")

if _plan.get("device", "cpu").startswith("cuda") and not torch.cuda.is_available():
    raise MapError(f"{_lines.at('device')}the map says device: {_plan['device']}, and this PyTorch sees none")

_kind = Source(_plan["python"]).make if _plan.get("python") else ModuleMap
_source = Source(sys.argv[1])
_map = _kind(_source, _plan, _lines)


# A library's module is what is graded here, and its lines are the ones to show.
graded_files = [_source.file] if _source.file else []


def _fields(config):
    """The config as a dict, for expressions."""
    return dict(vars(config))


def _takes(*names):
    """Those of the optional inputs that the map hands on."""
    call = _plan["call"]
    handed = set(call)
    if "mask" in call:  # padding is in it
        handed.add("attention_mask")
    if "embeddings" in call:  # learned positions are in them
        handed.add("positions")
    return [name for name in names if name in handed]


def _with_signature(function, names, optional):
    """What a map does not hand on, the function must not seem to take."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature(
        [inspect.Parameter(name, kind) for name in names]
        + [inspect.Parameter(name, kind, default=None) for name in optional]
    )
    return function


def _dtype(params, default):
    floating = [value.dtype for value in params.values() if value.is_floating_point()]
    return floating[0] if floating else default


def _held(config, params, dtype):
    """The module with its parameters. That it cannot be made of a case's sizes is no fault of its forward pass."""
    try:
        return _map.held(config, params, dtype)
    except Misfit as error:
        raise NotImplementedError(f"the map does not fit the module at this case's sizes: {error}") from None


def _model():
    cached = ["cache"] if _plan.get("cache", {}).get("protocol", "none") != "none" else []

    class Model:
        """The mapped module, with one set of parameters."""

        def __init__(self, config, params):
            self.config = _fields(config)
            self.dtype = _dtype(params, torch.float32)
            self.held = _held(self.config, params, self.dtype)

        def forward(self, tokens, cache=None, tap=None, **given):
            output, past = _map.call(
                self.held, {"tokens": tokens, **given}, self.config, self.dtype, cache, tap
            )
            return (output, past) if cached else output

    tapped = ["tap"] if _plan.get("taps") else []
    optional = [*_takes("attention_mask", "positions", "source"), *cached, *tapped]
    _with_signature(Model.forward, ["self", "tokens"], optional)
    return Model


def _layer():
    """`block` or `multi_head_attention`."""
    needed = [
        name for name, entry in _plan["call"].items() if isinstance(entry, dict) and entry.get("required")
    ]

    def layer(x, params, config, tap=None, **given):
        for name in needed:
            if given.get(name) is None:
                raise NotImplementedError(f"this module takes a {name} in every call")
        fields = {**_fields(config), "n_layers": 1}
        held = _held(fields, params, x.dtype)
        return _map.call(held, {"x": x, **given}, fields, x.dtype, None, tap)[0]

    tapped = ["tap"] if _plan.get("taps") else []
    return _with_signature(
        layer, ["x", "params", "config"], [*_takes("context", "attention_mask", "positions"), *tapped]
    )


def _operation_of(names):
    """A norm or a feed-forward network: tensors are its parameters, the rest its config."""

    def operation(x, **given):
        params = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        fields = {name: value for name, value in given.items() if name not in params}
        fields["d_model"] = x.shape[-1]
        wide = [value for name, value in params.items() if name in ("w_1", "w_gate")]
        fields["d_ff"] = wide[0].shape[-1] if wide else None
        held = _held(fields, params, x.dtype)
        return _map.call(held, {"x": x}, fields, x.dtype, None, None)[0]

    return _with_signature(operation, ["x", *names], [])


_OPERATIONS = {
    "layer_norm": ("weight", "bias", "eps"),
    "rms_norm": ("weight", "eps"),
    "ffn": ("w_1", "b_1", "w_2", "b_2"),
    "swiglu": ("w_gate", "w_up", "w_down"),
}

if _operation == "model":
    Model = _model()
elif _operation in ("block", "multi_head_attention"):
    globals()[_operation] = _layer()
else:
    globals()[_operation] = _operation_of(_OPERATIONS[_operation])


def parameter_shapes(config):
    """The module's own parameters, tied ones once, by the canonical names that they are made of."""
    fields = _fields(config)
    return shapes_of(_map.build(fields, torch.float32), _plan["parameters"], fields, _lines)


def _probe():
    """The map tried on one config before anything is graded: a fault of it is said once, here.

    What the module itself raises is no fault of the map, and is graded.
    """
    for probe in _given["probes"]:
        config, params = (
            probe["config"],
            # All different, so that two values for one tied parameter show.
            {name: torch.full(shape, 1 + i / 64) for i, (name, shape) in enumerate(probe["params"].items())},
        )
        try:
            held = _map.held(config, params, torch.float32)
            given = {
                name: torch.zeros(1, 2, config["d_model"])
                for name in ("x", "context")
                if name in _plan["call"]
            }
            if _operation == "model":
                given = {name: torch.zeros(1, 2, dtype=torch.int64) for name in ("tokens", *_takes("source"))}
            _map.check(held, given, config)
            _map.call(held, given, config, torch.float32, None, None)
        except MapError:
            raise
        except Exception:
            continue


with torch.inference_mode():
    _probe()
