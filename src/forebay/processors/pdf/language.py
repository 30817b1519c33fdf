"""Which language a text is in."""

from __future__ import annotations

from functools import cache
from typing import Final

from eld import LanguageDetector

_ENOUGH: Final = 400


def language_of(text: str) -> str | None:
    """Its ISO 639-1 code; None where the detector itself does not trust its answer."""
    sample = " ".join(text[: 2 * _ENOUGH].split())[:_ENOUGH]
    if not sample:
        return None
    found = _detector().detect(sample)
    return str(found.language) if found.language and found.is_reliable() else None


@cache
def _detector() -> LanguageDetector:
    return LanguageDetector()
