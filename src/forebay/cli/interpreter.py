"""Sets up the interpreter of a process that is Forebay's own; in others the settings belong to the host program."""

from __future__ import annotations

import gc
import sys
from typing import Final

_SWITCH_S: Final = 0.001
_GARBAGE: Final = 20_000  # new objects between two looks for garbage


def hand_over_soon() -> None:
    """Let the thread that has an answer of the ledger's wait less behind a busy loop."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))


def collect_rarely() -> None:
    """Drop the garbage that is there, then look less often, and no longer among the objects that are left.

    Each task makes and drops some twenty objects, and those of all running tasks would be looked at again and again.
    With thousands of listeners, a look among all objects holds up every client for a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    usual, *older = gc.get_threshold()
    if usual:  # else it is switched off
        gc.set_threshold(max(usual, _GARBAGE), *older)
