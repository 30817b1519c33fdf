"""Decides how the chunks of a document are numbered, known again, and made smaller when one cannot be read whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from forebay.errors import BadInput
from forebay.model.payload import Json
from forebay.rules.verdict import ErrorClass

SPLIT_VERSION = 1
"""Belongs to the key of a result: raise it when the same pages would be cut out of a document in another way."""
MAX_PAGES = 1_000_000
_MAX_DEPTH = 20
PAGES_INDEX = (_MAX_DEPTH + 10) * MAX_PAGES
"""Where the chunks of pages begin to be counted in a job whose first chunks are articles."""
ARTICLES_INDEX = PAGES_INDEX - 1
"""Of the chunk that makes articles of pages."""

# Of several pages these may be the fault of one, which smaller chunks will find.
_OF_A_PAGE = frozenset(
    {
        ErrorClass.REPLAN,
        ErrorClass.REFUSED,
        ErrorClass.INVALID_PDF,
        ErrorClass.CORRUPTED_CONTENT,
        ErrorClass.UNSUPPORTED_FORMAT,
        ErrorClass.PAGE_TOO_LARGE,
        ErrorClass.DECOMPRESSION_LIMIT,
        ErrorClass.PARSER_CRASHED,
        ErrorClass.PARSER_TIMEOUT,
        ErrorClass.PARSER_MEMORY,
        ErrorClass.HANDLER_MEMORY,
    }
)


def replans(error_class: str, *, page_count: int, retry_count: int) -> bool:
    """Whether a chunk that failed so is cut in halves; a timeout has to come back before it is the chunk's fault."""
    if page_count < 2:  # noqa: PLR2004 - one page cannot be halved
        return False
    return error_class in _OF_A_PAGE or (error_class == ErrorClass.TIMEOUT and retry_count > 0)


def smaller(page_count: int, most: int | None = None) -> int:
    """How many pages each piece of a replanned chunk has; a provider that said how many it takes is believed."""
    half = (page_count + 1) // 2
    return half if most is None else max(1, min(half, most))


def piece_index(depth: int, page_start: int) -> int:
    """The index of a piece of a replanned chunk: pieces of the same depth do not overlap, and chunks are fewer."""
    if not 0 < depth <= _MAX_DEPTH or not 0 < page_start <= MAX_PAGES:
        raise BadInput(f"There is no piece {depth}:{page_start}.", remedy="Count depths and pages from 1.")
    return depth * MAX_PAGES + page_start


def result_key(
    document: str,
    pages: tuple[int, int],
    *,
    processor: str,
    version: str,
    options: Mapping[str, Json],
) -> str:
    """What a result is known by: the same pages of the same bytes, read in the same way."""
    known = [document, *pages, SPLIT_VERSION, processor, version, dict(options)]
    return hashlib.sha256(json.dumps(known, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


OVER = "over"


def is_over(entry_json: str | None) -> bool:
    """Whether the last entry that tells how a result is being made says that it came to nothing, and will not."""
    return OVER in json.loads(entry_json or "{}")


def entry_key(key: str, number: int) -> str:
    """What the entries are known by that tell, one after the other, how a result is being made."""
    return hashlib.sha256(f"{key} under way {number}".encode()).hexdigest()


def cut_key(key: str) -> str:
    """What it is known by that a chunk was cut smaller, where its result would be known by `key`."""
    return hashlib.sha256(f"{key} cut".encode()).hexdigest()


def ran_key(task_id: str, token: int) -> str:
    """What the time is known by that an attempt ran."""
    return hashlib.sha256(f"{task_id} {token} ran".encode()).hexdigest()


def next_key(key: str, lost: str) -> str:
    """What a result is known by after the one that was known by `key` was lost."""
    return hashlib.sha256(f"{key} {lost}".encode()).hexdigest()
