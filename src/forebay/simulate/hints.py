"""How a 429 says when to come again, in headers."""

from __future__ import annotations

import math

from forebay.simulate.clock import Clock
from forebay.simulate.fault import Fault


def retry_headers(fault: Fault, clock: Clock) -> dict[str, str]:
    """When to come again, in the form that the fault asks for."""
    match fault.form:
        case "seconds":
            return {"retry-after": str(math.ceil(fault.after))}
        case "ms":
            return {"retry-after-ms": str(math.ceil(fault.after * 1000))}
        case "date":
            # Dates have no fractions: the next full second, so that nobody comes back too early.
            return {"retry-after": clock.http_date(math.ceil(clock.wall(clock.now() + fault.after)) - clock.wall(0))}
        case "nonsense":
            return {"retry-after": "soon"}
        case _:
            return {}
