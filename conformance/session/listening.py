"""A session that remembers what its target printed."""

from typing import Any

from conformance.session.calls import Call
from conformance.session.outcomes import Outcome
from conformance.session.session import Session

PRINTED = 16_000
"""Characters kept of what a target prints while it is called."""


class Listening(Session):
    """A session that keeps what the target prints while it is called: each text once, within bounds."""

    def __init__(self, *given: Any, **named: Any) -> None:
        """As `Session`."""
        super().__init__(*given, **named)
        self.heard: dict[str, None] = {}
        self.left_out = 0

    def call(self, call: Call, dtype: str) -> Outcome:
        """As `Session`; an outcome that is remembered was heard already."""
        outcome = super().call(call, dtype)
        text = outcome.printed.strip("\n")
        if text and text not in self.heard:
            room = PRINTED - sum(map(len, self.heard))
            if room > 0:
                self.heard[text if len(text) <= room else text[:room] + "…"] = None
            self.left_out += max(len(text) - room, 0) if room > 0 else len(text)
        return outcome

    @property
    def printed(self) -> str:
        """All of it, and how much was left out."""
        more = [f"… {self.left_out} characters left out …"] if self.left_out else []
        return "\n".join([*self.heard, *more])
