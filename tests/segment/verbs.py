"""Verbs of a parser that is stuck in C code when it is to convert a document."""

from __future__ import annotations

import ctypes
from typing import Any

from forebay.model.payload import Json
from forebay.processors.pdf.verbs import VERBS as REAL


def _stuck(arguments: dict[str, Any], files: list[int]) -> Json:
    ctypes.CDLL(None).sleep(60)
    return None


VERBS = REAL | {"convert": _stuck}
