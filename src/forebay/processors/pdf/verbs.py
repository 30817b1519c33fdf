"""The verbs of a parser child by name; each is imported when it is first asked for."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from typing import Any

from forebay.model.payload import Json

Verb = Callable[[dict[str, Any], list[int]], Json]


def _of(module: str, package: str = "pdf") -> Verb:
    def verb(arguments: dict[str, Any], files: list[int]) -> Json:
        answer: Json = import_module(f"forebay.processors.{package}.{module}").run(arguments, files)
        return answer

    return verb


VERBS: dict[str, Verb] = {
    "inspect": _of("inspect"),
    "split": _of("split"),
    "read": _of("read"),
    "render": _of("render"),
    "recognized": _of("recognized"),
    "searchable": _of("searchable"),
    "sizes": _of("sizes"),
    "fits": _of("fits"),
    "merge_tagged": _of("merge_tagged"),
    "check_tagged": _of("check_tagged"),
    "convert": _of("convert", "office"),
    "articles": _of("articles", "texts"),
    "language": _of("language", "texts"),
    "keywords": _of("keywords", "texts"),
}


def warm() -> None:
    """Before the child is shut off: what nearly every document needs, kept in compiled form where that is allowed.

    And qpdf needs random numbers for an encrypted document, and keeps their device; a library for office documents
    wants the system's list of media types.
    """
    mimetypes.init()
    pikepdf = import_module("pikepdf")
    with pikepdf.Pdf.new() as pdf:
        pdf.save(BytesIO(), encryption=pikepdf.Encryption(user="", owner="-"))
    import_module("forebay.processors.pdf.read")
    import_module("forebay.processors.pdf.language").language_of("warm")
