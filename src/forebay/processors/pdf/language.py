"""Which language a text is in."""

from __future__ import annotations

from functools import cache
from typing import Final

from eld import LanguageDetector

_WINDOW: Final = 350  # more is not looked at by the detector


def language_of(text: str) -> str | None:
    """Its ISO 639-1 code, of the first part of it that the detector trusts its answer for; None if there is none."""
    words = " ".join(text.split())
    for start in dict.fromkeys((len(words) // 3, 0, len(words) * 2 // 3)) if len(words) > _WINDOW else (0,):
        found = _detector().detect(words[start : start + _WINDOW])
        if found.language and found.is_reliable():
            return str(found.language)
    return None


@cache
def _detector() -> LanguageDetector:
    return LanguageDetector()
