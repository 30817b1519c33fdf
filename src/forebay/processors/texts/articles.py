"""The verb that cuts Markdown into articles."""

from __future__ import annotations

import json
from typing import Any

from forebay.errors import TooLarge
from forebay.model.payload import Json
from forebay.processors.pdf.files import contents_of, write
from forebay.processors.pdf.refused import Refused
from forebay.rules.articles import articles
from forebay.rules.verdict import ErrorClass


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Writes a line of JSON for each, with its text, and says how many there are."""
    markdown, output = files
    text = contents_of(markdown).decode()
    try:
        found = articles(text, max_size=arguments["max_size"], page_starts=arguments["page_starts"])
    except TooLarge as error:
        raise Refused(ErrorClass.DECOMPRESSION_LIMIT, error.what) from None
    most: int = arguments["max_articles"]
    if len(found) > most:
        raise Refused(ErrorClass.DECOMPRESSION_LIMIT, f"The document has {len(found):,} articles, more than {most:,}.")
    at = 0
    for each in found:
        line = _line(
            ordinal=each.ordinal,
            title=each.title,
            group=each.group,
            page=each.page,
            page_end=each.page_end,
            text=text[each.start : each.end],
        )
        write(output, line, at)
        at += len(line)
    return len(found)


def _line(**fields: Json) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
