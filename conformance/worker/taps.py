"""The `tap` that a submission calls to make an intermediate tensor visible."""

from __future__ import annotations

from typing import Any

from numpy import array

from .frameworks import NotATensor, NumPy, Seen, describe, name_of

MAX_TAPS = 4096
MAX_NAME = 100
MAX_NOTES = 20


class Allowance:
    """What the taps of one request may use together, so that its answer stays within its bounds."""

    def __init__(self, size: int) -> None:
        self.taps = MAX_TAPS
        self.notes = MAX_NOTES
        self.size = size  # bytes of values
        self.text = 500_000  # bytes of JSON


class Taps:
    """Collects copies of tapped tensors; the last call of a name counts.

    Nothing that a submission gives to `tap` fails its call: what cannot be used becomes a note.
    """

    def __init__(self, framework: NumPy, allowance: Allowance) -> None:
        self.seen: dict[str, Seen] = {}
        self.notes: list[str] = []
        self._framework = framework
        self._allowance = allowance
        self._open = True

    def tap(self, name: Any, tensor: Any) -> Any:
        """Records a copy of `tensor` under `name`; returns `tensor` as it is."""
        if self._open:
            try:
                self._record(name, tensor)
            except Exception as error:
                self._note(f"a tap could not be recorded: {name_of(error)}")
        return tensor

    def close(self) -> None:
        """Ends the recording: a thread of the submission may still call `tap`."""
        self._open = False

    def _record(self, name: Any, tensor: Any) -> None:
        left = self._allowance
        if type(name) is not str or not 0 < len(name) <= MAX_NAME:
            what = describe(name) if type(name) is not str else f"one of {len(name)}"
            self._note(f"a tap's name has to be a string of 1 to {MAX_NAME} characters; {what} came")
            return
        name = name.encode("utf-8", "replace").decode("utf-8")  # no lone surrogates
        before = self.seen.pop(name, None)
        if before is not None and before.data is not None:
            left.size += before.data.nbytes
        if before is None:
            left.taps -= 1
            left.text -= 60 + 6 * len(name)
        if left.taps < 0 or left.text < 0:
            self._note(f"more than {MAX_TAPS} taps, or too long names: {name} is left out")
            return
        try:
            seen = self._framework.look(tensor, left.size, floats_only=False)
        except NotATensor as error:
            self._note(f"tap {name}: {error} came; give an array")
            return
        if seen.data is None:
            self._note(f"tap {name} of shape {list(seen.shape)} is left out: the taps have too many bytes")
        else:
            data = array(seen.data)
            left.size -= data.nbytes
            seen = seen._replace(data=data)
        left.text -= 12 * len(seen.shape)
        self.seen[name] = seen

    def _note(self, text: str) -> None:
        if self._allowance.notes > 0:
            self._allowance.notes -= 1
            self.notes.append(text)
