"""The verb that finds the language of a text by itself."""

from __future__ import annotations

from typing import Any

from forebay.model.payload import Json
from forebay.processors.pdf.files import contents_of
from forebay.processors.pdf.language import language_of


def run(arguments: dict[str, Any], files: list[int]) -> Json:  # noqa: ARG001 - the shape of all verbs
    """Its code, or None where the detector does not call itself reliable."""
    return language_of(contents_of(files[0]).decode())
