"""Two targets on the same cases: what each makes of them, tensor by tensor, and where they part.

Neither is the measure of the other. Two tensors agree where they differ by no more than the lower of
the two dtypes allows; the program itself only says how far that is, and which of the two it is with.
A target may be anything that opens and answers calls as a session does.
"""

from conformance.comparing.cases import Comparing
from conformance.comparing.findings import (
    AGREE,
    BOTH_RAISE,
    NOT_COMPARED,
    PART,
    Compared,
    Ending,
    Met,
    ending,
)
from conformance.comparing.planning import Choice, Plan, Side, planned

__all__ = [
    "AGREE",
    "BOTH_RAISE",
    "NOT_COMPARED",
    "PART",
    "Choice",
    "Compared",
    "Comparing",
    "Ending",
    "Met",
    "Plan",
    "Side",
    "ending",
    "planned",
]
