"""A first map of a module, as YAML: what could be inferred, with a comment wherever it was guessed.

Run as a program by `conformance new FILE --framework torch --inspect my_file.py:GPT`, in a process
of its own, since it runs the module.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import torch

from .build import Source
from .errors import MapError, listed
from .names import CONFIGS, FIELDS, HEADS, OFF, SIZES, TOKENS, VALUES
from .roles import Guess, guesses, kind_of_norm, layer_of
from .usage import Watch, watched

WIDTHS = (8, 48, 80)
"""Widths at which a module is built once more, to see what grows with it."""


class Built(NamedTuple):
    """The module, and the `build` of the map that makes it."""

    module: Any
    config: str
    arguments: dict[str, Any]


def draft(words: str) -> str:
    """The text of a map for `my_file.py:GPT`. Raises MapError where the module cannot be built or run."""
    source = Source(words)
    built = _built(source)
    tokens = torch.arange(14).reshape(2, 7) % SIZES.vocab
    name, forward = _tokens(built.module)
    try:
        watch, result = watched(built.module, {name: tokens})
    except Exception as error:
        raise MapError(
            f"the module was built, but {name}=int64 [2, 7] made it raise {type(error).__name__}: {error}"
        ) from None
    shapes = {n: tuple(p.shape) for n, p in built.module.named_parameters()}
    found = guesses(list(watch.uses.values()), shapes, SIZES)
    unused = [n for n in shapes if n not in watch.uses and (layer_of(n) or ("", 0))[1] == 0]
    lines = [
        f"# A first map of {words}, from one run of it. Check what says GUESS.",
        *_variant(built, watch, found),
    ]
    lines += [
        "build:",
        *_build(built),
        *_refusals(source, built, found),
        "parameters:",
        *_parameters(found, unused),
    ]
    if _tied(built.module):
        lines += [f"  {n}: embed" for n in _tied(built.module)]
    lines += ["call:", f"  tokens: {name}", *_others(forward, name)]
    return "\n".join([*lines, *_returns(result)]) + "\n"


def _built(source: Source) -> Built:
    parameters = _parameters_of(source.make)
    required = [p for p in parameters if p.default is p.empty]
    if len(required) == 1 and required[0].name in CONFIGS:
        kind = _config_class(source, required[0])
        if kind is None:
            return _built_by_asking(source)
        arguments = _matched(_parameters_of(kind), f"{kind.__name__}")
        return Built(_made(source.make, kind(**_values(arguments))), kind.__name__, arguments)
    arguments = _matched(parameters, source.words)
    return Built(_made(source.make, **_values(arguments)), "", arguments)


def _built_by_asking(source: Source) -> Built:
    """With a config that answers by the names it is asked for, by key or by attribute."""
    asked = Asked()
    module = _made(source.make, asked)
    return Built(module, "builtins:dict" if asked.by_key else "types:SimpleNamespace", dict(asked.found))


class Asked:
    """A config of unknown form: whatever the module asks it for, it gives what the name means."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.by_key = False

    def __getitem__(self, name: str) -> Any:
        """As a dict."""
        self.by_key = True
        return self.answer(name)

    def __getattr__(self, name: str) -> Any:
        """As an object."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.answer(name)

    def get(self, name: str, otherwise: Any = None) -> Any:
        """As a dict; what has no meaning is left at its default."""
        self.by_key = True
        return self.answer(name) if field_of(name) or name.lower() in OFF else otherwise

    def answer(self, name: str) -> Any:
        """The value for a name. Raises MapError where it means nothing."""
        parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
        if name.lower().endswith("bias"):
            self.found[name] = True
        elif name.lower() == "dtype":
            self.found[name] = {"import": "torch:get_default_dtype"}
            return torch.get_default_dtype()
        else:
            self.found |= _matched([parameter], "the config")
        return _values({name: self.found[name]})[name]


def _made(kind: Any, *given: Any, **arguments: Any) -> Any:
    try:
        module = kind(*given, **arguments)
    except Exception as error:
        shown = ", ".join(f"{n}={v}" for n, v in arguments.items()) or listed([str(g) for g in given])
        raise MapError(
            f"{kind.__name__}({shown[:300]}) raised {type(error).__name__}: {error}; write its `build` by hand"
        ) from None
    if not isinstance(module, torch.nn.Module):
        raise MapError(f"{kind.__name__} gave a {type(module).__name__}, not a torch.nn.Module")
    return module.eval()


def _config_class(source: Source, parameter: inspect.Parameter) -> Any:
    """The class of a config: the annotation, or the one class of the file that sounds like it; None for none."""
    space = vars(source.module)
    annotation = (
        space.get(parameter.annotation) if isinstance(parameter.annotation, str) else parameter.annotation
    )
    if isinstance(annotation, type) and annotation not in (parameter.empty, dict):
        return annotation
    kinds = [
        v
        for n, v in space.items()
        if isinstance(v, type) and re.search(r"(Config|Args|Cfg|Hparams|Params)$", n)
    ]
    kinds = [kind for kind in kinds if kind.__module__ == source.module.__name__] or kinds
    if not kinds:
        return None
    if len(kinds) != 1:
        names = listed([kind.__name__ for kind in kinds]) or "none"
        raise MapError(
            f"which class makes `{parameter.name}` is not clear (candidates: {names}); write `build: {{config: …}}` by hand"
        )
    return kinds[0]


def _parameters_of(kind: Any) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):
        raise MapError(f"the arguments of {kind} cannot be read; write its `build` by hand") from None
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not plain and not dataclasses.is_dataclass(kind):  # a class whose attributes are the config
        fields = {n: v for n, v in vars(kind).items() if not n.startswith("_") and not callable(v)}
        plain = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=v) for n, v in fields.items()]
    return plain


def _matched(parameters: Sequence[inspect.Parameter], where: str) -> dict[str, Any]:
    """Arguments by what their names mean. Raises MapError for a required one that means nothing."""
    found: dict[str, Any] = {}
    for parameter in parameters:
        name = parameter.name.lower()
        field = field_of(name)
        if field:
            found[parameter.name] = f"= {field}"
        elif name in OFF:
            found[parameter.name] = 0.0
        elif parameter.default is parameter.empty:
            raise MapError(
                f"{where} requires `{parameter.name}`, and what that is cannot be told from its name; write its `build` by hand"
            )
    return found


def field_of(name: str) -> str | None:
    """What an argument of this name means: a field of the contract's config."""
    return next((field for field, names in FIELDS.items() if name.lower() in names), None)


def _values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {n: VALUES[v[2:]] if isinstance(v, str) else v for n, v in arguments.items()}


def _tokens(module: Any) -> tuple[str, list[inspect.Parameter]]:
    parameters = list(inspect.signature(module.forward).parameters.values())
    named = [p for p in parameters if p.name in TOKENS] or parameters[:1]
    if not named:
        raise MapError("forward takes no argument")
    return named[0].name, parameters


def _others(parameters: Sequence[inspect.Parameter], tokens: str) -> Iterator[str]:
    for parameter in parameters:
        name = parameter.name
        if name == tokens:
            continue
        if re.search(r"(attention_mask|padding_mask|pad_mask)$", name):
            form = "hidden" if "padding" in name or "pad_mask" in name else "ones"
            yield f"  attention_mask: {{argument: {name}, as: {form}}}  # GUESS: visible, hidden, ones, additive or lowest?"
        elif re.search(r"^(position_ids|positions|pos_ids)$", name):
            yield f"  positions: {{argument: {name}}}"
        elif re.search(r"(past|cache|kv)", name) or name == "start_pos":
            yield f"  # `{name}` looks like a cache: see `cache` in docs/module-maps.md"


def _returns(result: Any) -> Iterator[str]:
    if isinstance(result, torch.Tensor):
        if result.dim() == 2 or (result.dim() == 3 and result.shape[1] == 1):
            yield "returns: {positions: last}"
        return
    items: list[tuple[Any, Any]] = []
    if isinstance(result, Mapping):
        items = list(result.items())
    elif isinstance(result, (tuple, list)):
        items = list(enumerate(result))
    else:
        items = list(vars(result).items())
    for name, value in items:
        if isinstance(value, torch.Tensor) and value.shape[-1] == SIZES.vocab:
            last = ", positions: last" if value.dim() == 2 or value.shape[1] == 1 else ""
            yield f"returns: {{at: {name}{last}}}" if last else f"returns: {name}"
            return
    yield f"# returns: ?  # it returned a {type(result).__name__} without a tensor [batch, query, vocab]"


def _build(built: Built) -> Iterator[str]:
    indent = "  "
    if built.config:
        yield from ("  config:", f"    class: {built.config}", "    arguments:")
        indent = "      "
    else:
        yield "  arguments:"
        indent = "    "
    for name, value in built.arguments.items():
        yield f"{indent}{name}: {value}"


def _parameters(found: Sequence[Guess], unused: Sequence[str]) -> Iterator[str]:
    for guess in found:
        if guess.made_of == "?":
            yield f"  # {guess.parameter}: ?  # {guess.why}"
        else:
            yield f"  {guess.parameter}: {guess.made_of}" + (f"  # GUESS: {guess.why}" if guess.why else "")
    known = {guess.parameter for guess in found}
    for name in unused:
        general = re.sub(r"\.0\.", ".{i}.", name, count=1)
        if general not in known and name not in known:
            yield f"  {general}: keep  # GUESS: this run did not use it"


def _tied(module: Any) -> list[str]:
    """Further names of the parameter that the tokens are looked up in."""
    plain = dict(module.named_parameters())
    return [
        n
        for n, p in module.named_parameters(remove_duplicate=False)
        if n not in plain and p.shape[0] == SIZES.vocab
    ]


def _variant(built: Built, watch: Watch, found: Sequence[Guess]) -> Iterator[str]:
    """The variant that the run looks like."""
    module, operations = built.module, set(watch.operations)
    text = " ".join(guess.made_of for guess in found)
    norms = [
        m
        for m in module.modules()
        if "norm" in type(m).__name__.lower() and next(m.parameters(recurse=False), None) is not None
    ]
    layer = [name for name in watch.uses if (layer_of(name) or ("", 1))[1] == 0]
    shapes = {name: parameter.dim() for name, parameter in module.named_parameters()}
    complex_ = bool({"view_as_complex", "polar", "complex"} & operations)
    turning = (
        complex_
        or {"cos", "sin"} & operations
        or any(re.search("cos|freq", n) for n, _ in module.named_buffers())
    )
    position = "learned" if "position_embed" in text else "rope" if turning else "none"
    yield "variant:  # GUESS: norms, positions, activation and biases as this run looked; docs/module-maps.md lists the choices"
    yield "  base: minimal"
    yield f"  norm: {kind_of_norm(norms)}"
    yield f"  norm_eps: {_eps(norms):.12f}".rstrip("0")
    yield f"  norm_bias: {'norm1.bias' in text}".lower()
    yield f"  norm_placement: {'pre' if layer and shapes[layer[0]] == 1 else 'post'}"
    yield f"  final_norm: {'final_norm' in text}".lower()
    yield f"  position: {position}"
    if position == "rope":
        layout = "interleaved" if complex_ or watch.pairs else "half"
        yield f"  rope_layout: {layout}  # GUESS: pairs (i, i + Dh/2) are half, (2i, 2i + 1) interleaved"
    yield f"  ffn: {_activation(operations, 'w_gate' in text)}"
    bias = "all" if "attention.b_" in text else "ffn" if "ffn.b_" in text else "none"
    mixed = bias == "all" and "attention.b_q" not in text
    yield f"  bias: {bias}" + (
        "  # but q, k and v have none, which no variant is: build it with them" if mixed else ""
    )
    yield f"  tie_embeddings: {'lm_head' not in text}".lower()
    ratio = _ratio(module, found)
    if ratio is not None:
        yield f"  ff_ratio: {ratio:g}  # its feed-forward network is so many times wider than the model, whatever a case asks for"
    if any(value == "= n_kv_heads" for value in built.arguments.values()):
        yield "  grouped_heads: true"


def _ratio(module: Any, found: Sequence[Guess], width: int = SIZES.width) -> float | None:
    """How many times wider than the model the feed-forward network is; None where an argument says it."""
    shapes = {} if module is None else dict(module.named_parameters())
    for guess in found:
        if "ffn.w_1" in guess.made_of or "ffn.w_gate" in guess.made_of:
            matrix = shapes.get(guess.parameter.replace("{i}", "0"))
            if matrix is None or width not in matrix.shape:
                return None
            shape = list(matrix.shape)
            shape.remove(width)
            parts = 2 if "ffn.w_up" in guess.made_of else 1
            return None if shape[0] == parts * SIZES.hidden else shape[0] / parts / width
    return None


def _refusals(source: Source, built: Built, found: Sequence[Guess]) -> Iterator[str]:
    """`refuse` where the feed-forward network does not grow with the model: of one width, or rounded to a multiple."""
    ratio = _ratio(built.module, found)
    if ratio is None:
        return
    others = {width: _ratio(_built_at(source, built, width), found, width) for width in WIDTHS}
    if all(other is None or abs(other / ratio - 1) < 1e-6 for other in others.values()):
        return
    yield "  refuse:"
    yield f"    - when: = d_model != {SIZES.width}"
    yield (
        "      because: its feed-forward network does not grow with the model, and no argument says how wide it is"
        "  # GUESS: better let an argument `d_ff` say so"
    )


def _built_at(source: Source, built: Built, width: int) -> Any:
    """The module once more, of another width; None where it cannot be made so."""
    values = {**VALUES, "d_model": width, "d_head": width // HEADS, "d_ff": 2 * width - 4}
    given = {n: values[v[2:]] if isinstance(v, str) else v for n, v in built.arguments.items()}
    if "builtins:dict" in built.config or any(isinstance(v, dict) for v in given.values()):
        given = {n: torch.get_default_dtype() if isinstance(v, dict) else v for n, v in given.items()}
    try:
        if not built.config:
            return source.make(**given)
        return source.make(source.find(built.config)(**given))
    except Exception:  # whatever the module raises of sizes that nobody asked it for
        return None


def _eps(norms: Sequence[Any]) -> float:
    """What the norms add inside the root, by the names that it usually has."""
    values = (
        getattr(norm, name, None)
        for norm in norms
        for name in ("eps", "epsilon", "variance_epsilon", "norm_eps")
    )
    return next((value for value in values if isinstance(value, float)), 1e-5)


def _activation(operations: AbstractSet[str], gated: bool) -> str:
    gelu = "gelu" in operations or "erf" in operations
    if gated:
        return "geglu" if gelu else "geglu_tanh" if "tanh" in operations else "swiglu"
    return "gelu" if gelu else "gelu_tanh" if "tanh" in operations else "relu"
