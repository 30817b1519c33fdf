"""Waits for tasks and jobs to end, and says how they did."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forebay.app.finished import Finished
from forebay.app.plain import remedy
from forebay.cli import output
from forebay.errors import BadInput
from forebay.ids import printable
from forebay.model.names import check_duration
from forebay.model.task import Status

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay


def check_wait(timeout_s: float | None, *, wait: bool) -> None:
    """Called before anything is done, so that a bad value leaves no trace."""
    if timeout_s is None:
        return
    if not wait:
        raise BadInput("--wait-timeout is given without --wait.", remedy="Leave it out, or give --wait too.")
    check_duration("--wait-timeout", timeout_s)


def wait_all(app: Forebay, ids: Sequence[str], timeout_s: float | None) -> list[Finished]:
    """All of them within the time, or WaitTimeout."""
    sys.stdout.flush()  # whoever reads the ids shall have them before the waiting begins
    ends_at = None if timeout_s is None else time.monotonic() + timeout_s
    return [
        app.wait(each, timeout_s=None if ends_at is None else max(0.0, round(ends_at - time.monotonic(), 3)))
        for each in ids
    ]


def tell(ended: Sequence[Finished], *, quiet: bool = False) -> int:
    """0 if all were completed, else 1."""
    for each in ended if not quiet else ():
        error = f": {each.error_class}: {each.error_text} {remedy(each.error_class)}" if each.error_class else ""
        output.note(printable(f"{each.id} {each.status}{error}").rstrip())
    return 0 if all(each.status is Status.COMPLETED for each in ended) else 1
