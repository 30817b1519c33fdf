"""Decides which words of a text say what it is about: those that come often, most of all in its headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from forebay.rules.stopwords import stopwords

_LEAST_LETTERS = 4
_MOST_LETTERS = 40
_LONG = 12
_IN_HEADING = 3
_LINK = re.compile(r"\]\([^()\s]*\)|https?://\S+|&\w{1,32};")
_HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_HAN}]+|[^\W\d_{_HAN}](?:[-'’]?[^\W_{_HAN}])*")  # noqa: RUF001 - as texts have it


@dataclass(slots=True)
class _Seen:
    first: int
    weight: int = 0
    forms: Counter[str] = field(default_factory=Counter)


def keywords(text: str, *, language: str | None = None, most: int = 5) -> list[str]:
    """The best first, each as it is mostly written; the same text has the same ones, always."""
    left_out = stopwords(language)
    seen: dict[str, _Seen] = {}
    for line in _LINK.sub(" ", text).splitlines():
        weight = _IN_HEADING if line.lstrip().startswith("#") else 1
        for word in _words(line):
            known = word.casefold()
            if known in left_out:
                continue
            each = seen.setdefault(known, _Seen(len(seen)))
            each.weight += weight
            each.forms[word] += 1
    ranked = sorted(seen, key=lambda known: (-_score(known, seen[known]), seen[known].first))
    return [seen[known].forms.most_common(1)[0][0] for known in ranked[:most]]


def _score(word: str, seen: _Seen) -> float:
    return seen.weight + min(len(word), _LONG) / _LONG


def _words(line: str) -> Iterator[str]:
    """Of a script without spaces, each two neighbours."""
    for found in _WORD.finditer(line):
        word = found[0]
        if re.match(rf"[{_HAN}]", word):
            yield from (word[at : at + 2] for at in range(len(word) - 1))
        elif _LEAST_LETTERS <= len(word) <= _MOST_LETTERS or (word.isupper() and len(word) > 1):
            yield word
