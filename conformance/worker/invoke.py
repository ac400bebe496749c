"""Calling the submission: arguments in, results looked at, never an exception out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from numpy import array

from .config import Config
from .failures import Ended, describe_error, is_out_of_memory, message_of
from .frameworks import Autograd, Impossible, NotATensor, Seen, describe, name_of
from .load import Target
from .protocol import unflatten
from .recorder import Recorder
from .signatures import Signature, fit, signature_of
from .statements import Table
from .taps import Allowance, Taps
from .tracer import Tracer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_now = time.perf_counter

SHAPES = "parameter_shapes"  # returns no tensor but shapes; see `Invoker._shapes`


class Given(NamedTuple):
    """An array handed to the submission, beside the values that it had."""

    name: str
    array: Any
    raw: Array


class Held(NamedTuple):
    """A model instance that was kept, and what its construction got."""

    forward: Callable[..., Any]
    signature: Signature
    params: list[Given]
    modified: list[str]  # params that the construction changed


class Answer(NamedTuple):
    """JSON for the parent, and the arrays that it may ask for, in the order announced."""

    meta: dict[str, Any]
    arrays: list[Array | None]


class Invoker:
    """Calls one target. Models are kept between calls until the parent says to forget them."""

    def __init__(self, target: Target, tensor_bytes: int) -> None:
        self._target = target
        self._limit = tensor_bytes
        self._models: dict[str, Held] = {}
        self._tables: dict[str, Table] = {}  # of the files that were traced
        self._start_over("", ())

    def _start_over(self, dtype: str, arrays: Sequence[Array]) -> None:
        """State of one request."""
        self._dtype = dtype
        self._raw = arrays
        self._seconds = 0.0  # in the submission's code
        self._step: int | None = None
        self._kept: list[Array | None] = []  # what the parent may ask for
        self._allowance = Allowance(self._limit)
        self._tracer: Tracer | None = None

    def call(self, request: Mapping[str, Any], arrays: Sequence[Array]) -> Answer:
        """Serves one request; `arrays` are the values that the request's JSON refers to."""
        self._start_over(request["dtype"], arrays)
        if request.get("trace"):
            sources, arrays_of = self._target.sources, self._target.framework
            self._tracer = Tracer(Recorder(sources, arrays_of, self._tables, request["trace"]))
        try:
            with self._target.framework.inference():
                outputs = self._model(request) if request["call"] == "model" else [self._operation(request)]
            answer: dict[str, Any] = {"is": "returned", "outputs": outputs}
        except Ended as ended:
            answer = dict(ended.answer)
            self._kept = []
        except Impossible as reason:
            answer = {"is": "not_offered", "reason": str(reason)}
        answer["seconds"] = self._seconds
        if self._step is not None:
            answer["step"] = self._step
        if self._tracer is not None:
            answer["trace"], recorded = self._tracer.recorder.finish()
            self._kept += recorded
            self._tracer = None
        return Answer(answer, self._kept)

    def _operation(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request.get("gradient"):
            with self._target.framework.differentiable() as autograd:
                return self._gradient(request, autograd, **request["gradient"])
        name = request["function"]
        given: list[Given] = []
        arguments = self._arguments(request, given)
        signature = self._target.signatures[name]
        taps = self._taps(request, signature, arguments)
        fit(name, signature, arguments, request["optional"], self._target.sources)
        result = self._run(self._target.functions[name], arguments, signature, taps)
        if name == SHAPES:
            taps = Taps(self._target.framework, self._allowance)
            result = self._shapes(result, taps)
        names = request["returns"]
        if issubclass(type(result), tuple) and 1 < tuple.__len__(result) <= len(names):
            found = list(tuple.__iter__(result))
        else:
            found = [result]
        tensors = [self._look(names[i], value, names) for i, value in enumerate(found)]
        return self._output(tensors, taps, self._modified(given))

    def _arguments(self, request: Mapping[str, Any], given: list[Given]) -> dict[str, Any]:
        """The arguments of an operation, its config among them."""
        arguments = self._values(request["arguments"], given)
        if request["config"] is not None:
            arguments["config"] = Config(unflatten(request["config"], self._plain))
        return arguments

    def _gradient(
        self, request: Mapping[str, Any], autograd: Autograd, by: str, weights: Any
    ) -> dict[str, Any]:
        """A gradient by autograd in the place of an operation's result."""
        name = request["function"]
        arguments = self._arguments(request, [])
        signature = self._target.signatures[name]
        fit(name, signature, arguments, request["optional"], self._target.sources)
        leaf, arguments[by] = autograd.leaf(arguments[by])
        result = self._run(self._target.functions[name], arguments, signature, None)
        if issubclass(type(result), tuple) and tuple.__len__(result):
            result = tuple.__getitem__(result, 0)
        found = autograd.gradient(result, leaf, self._values(weights, [])["weights"])
        return self._output([self._look("gradient", found, ["gradient"])], None, [])

    def _shapes(self, result: Any, taps: Taps) -> Any:
        """Each parameter's shape as a tap; their total, a float array, stands for the output."""
        total = 0.0
        try:
            for name, shape in dict(result).items():
                sizes = [int(size) for size in shape]
                product = 1
                for size in sizes:
                    product *= size
                total += product
                taps.tap(name, self._target.framework.make(array(sizes or [1], dtype="int64"), self._dtype))
        except Exception:
            raise self._unusable("a dict of parameter names and shapes", describe(result)) from None
        return self._target.framework.make(array([total]), "float64")

    def _model(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        for key in request["forget"]:
            self._models.pop(key, None)
        held = self._models.get(request["key"])
        if held is None:
            held = self._construct(request)
            if self._tracer is None:  # under a trace every model is made anew, and not kept
                self._models[request["key"]] = held
        caches: dict[str, Any] = {}
        outputs = []
        last = len(request["steps"]) - 1
        for position, step in enumerate(request["steps"]):
            self._step = position
            given: list[Given] = []
            arguments = self._values(step["inputs"], given)
            optional = [name for name in arguments if name != "tokens"]
            if step["use_cache"]:
                if not held.signature.takes("cache"):
                    raise Ended("not_offered", reason="`Model.forward` takes no `cache`")
                # Taken out, so that a cache is handed on once, whatever happens in between.
                arguments["cache"] = caches.pop(step["sequence"], None)
            taps = self._taps(request, held.signature, arguments)
            fit("Model.forward", held.signature, arguments, optional, self._target.sources)
            result = self._run(held.forward, arguments, held.signature, taps)
            logits = self._logits(result, step, held.signature, caches)
            modified = self._modified(given)
            if position == last:
                modified += held.modified + self._modified(held.params)
            # A model may write every step's logits into the same array: keep them as they are now.
            outputs.append(self._output([logits], taps, modified, copy=position < last))
        self._step = None
        return outputs

    def _construct(self, request: Mapping[str, Any]) -> Held:
        params: list[Given] = []
        arguments = {
            "config": Config(unflatten(request["config"], self._plain)),
            "params": self._values(request["params"], params, "params"),
        }
        signature = self._target.signatures["Model"]
        fit("Model", signature, arguments, (), self._target.sources)
        instance = self._run(self._target.functions["Model"], arguments, signature, None)
        forward: Any = None
        try:
            forward = getattr(instance, "forward", None) or instance
            forward_signature = signature_of(forward)
        except Exception as error:
            raise Ended("raised", **describe_error(error, self._target.sources)) from None
        if not callable(forward):
            raise self._unusable("a model with a method `forward`", describe(instance))
        modified = self._modified(params)
        kept = [item for item in params if item.name not in modified]
        return Held(forward, forward_signature, kept, modified)

    def _logits(
        self, result: Any, step: Mapping[str, Any], signature: Signature, caches: dict[str, Any]
    ) -> tuple[str, Seen]:
        is_pair = issubclass(type(result), tuple) and tuple.__len__(result) == 2
        if step["use_cache"]:
            if not is_pair:
                raise self._unusable("(logits, cache)", _tuple_or(result))
            result, cache = tuple.__iter__(result)
            if cache is None:
                raise self._unusable("(logits, cache)", "(logits, None)")
            caches[step["sequence"]] = cache
        elif is_pair and signature.takes("cache"):
            result = tuple.__getitem__(result, 0)
        expected = "logits, a float array"
        if signature.takes("cache"):
            expected = "logits, or (logits, cache), the logits being a float array"
        return self._look("logits", result, ["logits"], expected)

    def _values(self, tree: Any, given: list[Given], path: str = "") -> dict[str, Any]:
        """The arguments of a call: arrays made for it, each noted in `given`."""

        def make(index: int, name: str) -> Any:
            raw = self._raw[index]
            made = self._target.framework.make(raw, self._dtype)
            given.append(Given(name, made, raw))
            return made

        values = unflatten(tree, make, path)
        assert isinstance(values, dict)
        return values

    def _plain(self, index: int, name: str) -> Any:
        return array(self._raw[index])

    def _taps(
        self, request: Mapping[str, Any], signature: Signature, arguments: dict[str, Any]
    ) -> Taps | None:
        if not (request["tap"] and signature.takes("tap")):
            return None
        taps = Taps(self._target.framework, self._allowance)
        arguments["tap"] = taps.tap
        return taps

    def _run(
        self,
        function: Callable[..., Any],
        arguments: dict[str, Any],
        signature: Signature,
        taps: Taps | None,
    ) -> Any:
        """Runs the submission's code; only here its exceptions can arise."""
        start, tracer = _now(), self._tracer
        if tracer is not None:
            tracer.start(self._step)
        try:
            return function(**arguments)
        except NotImplementedError as error:
            text = message_of(error)
            raise Ended(
                "not_offered", reason="it raised NotImplementedError" + (text and ": " + text)
            ) from None
        except BaseException as error:  # SystemExit and KeyboardInterrupt too
            if is_out_of_memory(error):
                raise Ended("memory", message=message_of(error)) from None
            told = describe_error(error, self._target.sources)
            if told["file"] is None and signature.file is not None:
                # It failed before its first line, or is no Python function.
                told.update(file=signature.file, line=signature.line)
                told["text"] = self._target.sources.line(signature.file, signature.line)
            raise Ended("raised", **told) from None
        finally:
            if tracer is not None:
                tracer.stop()
            self._seconds += _now() - start
            if taps is not None:
                taps.close()

    def _look(self, name: str, value: Any, names: Sequence[str], expected: str = "") -> tuple[str, Seen]:
        if not expected:
            kind = "torch tensor" if self._target.framework.name == "torch" else "numpy array"
            expected = f"{name}, a {kind} of floats"
            if len(names) > 1:
                expected += f" (or the tuple ({', '.join(names)}))"
        try:
            return name, self._target.framework.look(value, self._limit)
        except NotATensor as error:
            got = _tuple_or(value) if issubclass(type(value), tuple) else str(error)
            raise self._unusable(expected, got) from None
        except MemoryError as error:
            raise Ended("memory", message=message_of(error)) from None
        except BaseException as error:
            got = f"{describe(value)} that raised {name_of(error)} when it was looked at: {message_of(error)[:200]}"
            raise self._unusable(expected, got) from None

    def _unusable(self, expected: str, got: str) -> Ended:
        return Ended("unusable", expected=expected, got=got)

    def _modified(self, given: Sequence[Given]) -> list[str]:
        """Names of the arrays that no longer have the values they came with."""
        changed = []
        for item in given:
            try:
                same = self._target.framework.unchanged(item.array, item.raw, self._dtype)
            except Exception:  # e.g. resized, or made to require gradients
                same = False
            if not same:
                changed.append(item.name)
        return changed

    def _output(
        self,
        tensors: Sequence[tuple[str, Seen]],
        taps: Taps | None,
        modified: list[str],
        copy: bool = False,
    ) -> dict[str, Any]:
        """JSON of one output; its arrays go to `_kept` in the order announced."""
        for _, seen in tensors:
            self._kept.append(array(seen.data) if copy and seen.data is not None else seen.data)
        tapped = [] if taps is None else list(taps.seen.items())
        self._kept += [seen.data for _, seen in tapped]
        return {
            "tensors": [[name, seen.declared, seen.wire, seen.shape] for name, seen in tensors],
            "taps": [[name, seen.declared, seen.wire, seen.shape] for name, seen in tapped],
            "modified": modified,
            "notes": [] if taps is None else taps.notes,
        }


def _tuple_or(value: Any) -> str:
    """Like `describe`, with the length of a tuple."""
    if issubclass(type(value), tuple):
        return f"a tuple of {tuple.__len__(value)}"
    return describe(value)
