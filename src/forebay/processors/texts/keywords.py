"""The verb that finds the keywords of a text."""

from __future__ import annotations

from typing import Any

from forebay.model.payload import Json
from forebay.processors.pdf.files import contents_of
from forebay.rules.keywords import keywords


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    text = contents_of(files[0]).decode()
    return [*keywords(text, language=arguments["language"], most=arguments["most"])]
