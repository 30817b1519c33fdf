"""Verbs of a parser that is stuck in C code when it is to convert a document, or in trouble with its language."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from forebay.model.payload import Json
from forebay.processors.pdf.verbs import VERBS as REAL


def _stuck(arguments: dict[str, Any], files: list[int]) -> Json:
    ctypes.CDLL(None).sleep(60)
    return None


def _broken(arguments: dict[str, Any], files: list[int]) -> Json:
    raise KeyError("no such model")


def _dead(arguments: dict[str, Any], files: list[int]) -> Json:
    os._exit(3)


VERBS = REAL | {"convert": _stuck}
STUCK_LANGUAGE = REAL | {"language": _stuck}
BROKEN_LANGUAGE = REAL | {"language": _broken}
DEAD_LANGUAGE = REAL | {"language": _dead}
