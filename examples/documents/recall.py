"""Measures how much of a known text was found, word by word."""

from __future__ import annotations

import string
from collections import Counter

_AROUND = string.punctuation + "„“”‚‘’«»–—•"  # noqa: RUF001 - as they stand in texts


def recall(truth: str, found: str) -> float:
    """The share of the truth's words that were found, each as often as it stands there; order does not matter."""
    wanted = _words(truth)
    return (wanted & _words(found)).total() / wanted.total() if wanted else 1.0


def _words(text: str) -> Counter[str]:
    return Counter(word for each in text.split() if (word := each.strip(_AROUND)))
