"""Errors of a session, by the side at fault."""


class TargetError(Exception):
    """The submission as a whole cannot be graded: it can't be imported, or declares nonsense.

    Attributes:
        message: what happened, with file and line where they are known.
        hint: what its author can do.
        printed: what it printed, bounded.
        traceback: the traceback of its own frames, '' when there is none.
    """

    def __init__(self, message: str, hint: str = "", printed: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.printed = printed
        self.traceback = traceback


class EngineError(Exception):
    """Not the submission's fault: the interpreter, the system or this project failed.

    Attributes:
        message: what happened.
        hint: what to do.
        printed: what the interpreter printed, bounded.
    """

    def __init__(self, message: str, hint: str = "", printed: str = "") -> None:
        super().__init__(message if not hint else f"{message}; {hint}")
        self.message = message
        self.hint = hint
        self.printed = printed
