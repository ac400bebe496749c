"""The canonical parameters into a module's own, completely: nothing left over on either side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch

from .errors import Lines, MapError, Misfit, listed
from .expressions import LAYER, Canonical, Made, Value, at_layer, names_in, parsed
from .transforms import FILLS, TRANSFORMS


def expanded(entries: Mapping[str, str], layers: int, lines: Lines) -> dict[str, tuple[Value, str]]:
    """Each parameter of the module with its expression and the entry that says so; `{i}` counts the layers."""
    result: dict[str, tuple[Value, str]] = {}
    for name, text in entries.items():
        numbers: Iterable[int | None] = range(layers) if LAYER.search(name) else [None]
        for number in numbers:
            own, words = (t if number is None else at_layer(t, number) for t in (name, text))
            try:
                value = every(parsed(words), layers)
            except ValueError as error:
                raise MapError(f"{lines.at('parameters', name)}{error}") from None
            result[own] = value, name
    return result


def every(value: Value, layers: int) -> Value:
    """`stack(layers.{i}.attention.w_q)` where the module keeps all layers in one tensor."""
    if not isinstance(value, Made):
        return value
    arguments: list[Value] = []
    for argument in value.arguments:
        if value.transform == "stack" and any(LAYER.search(name) for name in names_in(argument)):
            arguments += [_at_layer(argument, i) for i in range(layers)]
        else:
            arguments.append(every(argument, layers))
    return Made(value.transform, tuple(arguments))


def _at_layer(value: Value, layer: int) -> Value:
    if isinstance(value, Canonical):
        return Canonical(at_layer(value.name, layer))
    if isinstance(value, Made):
        return Made(value.transform, tuple(_at_layer(argument, layer) for argument in value.arguments))
    return value


def fill(
    module: Any,
    entries: Mapping[str, str],
    params: Mapping[str, Any],
    config: Mapping[str, Any],
    lines: Lines,
    taken: Collection[str] = (),
) -> None:
    """Gives every parameter of `module` its value.

    An entry whose both sides are absent (a bias that this variant lacks) says nothing. Of the canonical
    parameters those that are `taken` need no entry: the call itself uses them.

    Raises:
        MapError: a parameter that nothing set, or a canonical one that nothing took (both are
            listed), a shape that does not fit, or an expression that is none.
    """
    own = dict(module.named_parameters(remove_duplicate=False))
    used: set[str] = set(taken)
    done: dict[int, str] = {}  # tied parameters are set once, whatever name they go by
    lacking: dict[str, list[str]] = {}
    for name, (value, entry) in expanded(entries, int(config.get("n_layers", 1)), lines).items():
        at = lines.at("parameters", entry)
        needed = names_in(value)
        fills = isinstance(value, Canonical) and value.name in FILLS
        absent = [] if fills else [n for n in needed if n not in params]
        if name not in own:
            if not fills and len(absent) < len(needed):
                lacking[name] = [n for n in needed if n in params]
            continue
        if absent:
            if len(absent) == len(needed):
                continue  # told below: nothing set it
            raise MapError(f"{at}{name} is made of {listed(absent)}, which this variant does not have")
        parameter = own[name]
        if parameter.is_meta or not parameter.is_floating_point():
            kind = (
                "on the meta device, without values" if parameter.is_meta else f"of dtype {parameter.dtype}"
            )
            raise MapError(
                f"{at}{name} is {kind}; build the module with floating-point parameters on a real device"
            )
        made = FILLS[needed[0]](parameter) if fills else evaluated(value, params, config, at)
        used.update(() if fills else needed)
        if tuple(made.shape) != tuple(parameter.shape):
            raise Misfit(_misfit(at, name, parameter, made))
        if id(parameter) in done and not torch.equal(parameter, made.to(parameter)):
            raise MapError(
                f"{at}{name} and {done[id(parameter)]} are one tied parameter, and the map gives them two values"
            )
        with torch.no_grad():
            parameter.copy_(made)
        done[id(parameter)] = name
    _complete(own, done, params, used, lacking, lines)


def shapes_of(
    module: Any, entries: Mapping[str, str], config: Mapping[str, Any], lines: Lines
) -> dict[str, tuple[int, ...]]:
    """The shape of each of the module's parameters, tied ones once, by the canonical name it is made of.

    A fused one is divided among its names by their widths; one that is made of none keeps its own
    name. Raises MapError.
    """
    values = expanded(entries, int(config.get("n_layers", 1)), lines)
    found: dict[str, tuple[int, ...]] = {}
    for name, parameter in module.named_parameters():
        needed = [n for n in names_in(values[name][0]) if n not in FILLS] if name in values else []
        widths = [_width(canonical, config) for canonical in needed]
        if len(needed) == 1:
            found[needed[0]] = tuple(parameter.shape)
        elif needed and parameter.numel() % sum(widths) == 0:
            rows = parameter.numel() // sum(widths)
            found.update((canonical, (rows, width)) for canonical, width in zip(needed, widths, strict=True))
        else:
            found["+".join(needed) or name] = tuple(parameter.shape)
    return found


def _width(name: str, config: Mapping[str, Any]) -> int:
    """How wide the output of a projection is, as a share of a fused one."""
    letter = name.rpartition("_")[2]
    if letter == "q":
        return int(config["n_heads"] * config["d_head"])
    if letter in ("k", "v"):
        return int(config["n_kv_heads"] * config["d_head" if letter == "k" else "d_value"])
    return 1


def evaluated(value: Value, params: Mapping[str, Any], config: Mapping[str, Any], at: str) -> Any:
    """The tensor (or number, or text) that an expression stands for. Raises MapError."""
    if isinstance(value, Canonical):
        return params[value.name]
    if not isinstance(value, Made):
        return value
    if value.transform not in TRANSFORMS:
        raise MapError(f"{at}there is no transform '{value.transform}'; there are {', '.join(TRANSFORMS)}")
    arguments = [evaluated(argument, params, config, at) for argument in value.arguments]
    try:
        return TRANSFORMS[value.transform](config, *arguments)
    except (ValueError, RuntimeError, TypeError, IndexError) as error:
        raise MapError(f"{at}{value.transform} cannot be applied: {error}") from None


def _misfit(at: str, name: str, parameter: Any, made: Any) -> str:
    shape, ours = list(parameter.shape), list(made.shape)
    advice = "; wrap it in transpose(…), as torch.nn.Linear keeps [out, in]" if shape == ours[::-1] else ""
    return f"{at}{name} has shape {shape}, and the map gives it {ours}{advice}"


def _complete(
    own: Mapping[str, Any],
    done: Mapping[int, str],
    params: Mapping[str, Any],
    used: set[str],
    lacking: Mapping[str, list[str]],
    lines: Lines,
) -> None:
    unset = list(dict.fromkeys(name for name, parameter in own.items() if id(parameter) not in done))
    untaken = [name for name in params if name not in used]
    if not unset and not untaken:
        return
    parts = []
    if unset:
        shown = [f"{name} {list(own[name].shape)}" for name in unset]
        parts.append(f"nothing sets these of the module's parameters: {listed(shown)}")
    if untaken:
        shown = [f"{name} {list(params[name].shape)}" for name in untaken]
        parts.append(f"nothing takes these of the variant's parameters: {listed(shown)}")
    for name, needed in lacking.items():
        if set(needed) & set(untaken):
            parts.append(f"the module has no {name}, which the map makes of {listed(needed)}")
            break
    raise MapError(f"{lines.at('parameters')}the map is not complete: {'; '.join(parts)}")
