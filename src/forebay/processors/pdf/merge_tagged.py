"""Joins tagged PDFs into one: all pages, and all their structure under one root."""

from __future__ import annotations

import io
import os
from collections import Counter
from typing import Any, Final

import pikepdf
from pikepdf import Array, Dictionary, Name, Object, Page, Pdf, Stream, String

from forebay.model.payload import Json
from forebay.processors.pdf.opening import said
from forebay.processors.pdf.refused import Refused
from forebay.processors.pdf.structure import Structure
from forebay.rules.verdict import ErrorClass

_BUFFER: Final = 1 << 20
_NUMBERED: Final = ("/StructParents", "/StructParent")


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """The parts lie in one file, in the order of their pages; those that are not tagged come as they are."""
    parts, output = files
    try:
        with Pdf.new() as target:
            count = _join(target, arguments["parts"], parts)
            with os.fdopen(os.dup(output), "wb") as file:
                file.truncate(0)
                target.save(
                    file,
                    min_version=arguments.get("min_version", "1.7"),
                    deterministic_id=True,
                    object_stream_mode=pikepdf.ObjectStreamMode.generate,
                )
    except MemoryError:
        raise Refused(ErrorClass.DECOMPRESSION_LIMIT, "The parts need more memory than a parser may use.") from None
    except (pikepdf.PdfError, RuntimeError, ValueError, TypeError) as error:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"The parts cannot be merged: {said(error)}.") from None
    return {"page_count": count, "size": os.fstat(output).st_size}


class _Window(io.RawIOBase):
    """Some of a file, as a file of its own."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        super().__init__()
        self._fd, self._offset, self._size, self._at = fd, offset, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - as io has it
        wanted = min(len(buffer), max(0, self._size - self._at))
        data = os.pread(self._fd, wanted, self._offset + self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, to: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + to)
        return self._at

    def tell(self) -> int:
        return self._at


def _join(target: Pdf, parts: list[dict[str, Any]], fd: int) -> int:
    structure = Structure(target)
    layers = _Layers(target)
    languages: Counter[str] = Counter()
    tops: list[tuple[str, list[Object]]] = []
    for part in parts:
        window = io.BufferedReader(_Window(fd, part["offset"], part["size"]), _BUFFER)
        # Not closed here: its streams are read when the target is written, which keeps it alive.
        source = Pdf.open(window, access_mode=pikepdf.AccessMode.stream)
        found = structure.prepare(source) if part["tagged"] else None
        renumber(source, {} if found is None else found.keys)
        for page in source.pages:
            target.pages.append(Page(target.copy_foreign(page.obj)))
        layers.add(source)
        if found is not None:
            language = str(source.Root.get("/Lang", ""))
            languages[language] += len(source.pages)
            tops.append((language, structure.add(found)))
    language = languages.most_common(1)[0][0] if languages else ""
    _finish(target, structure, tops, language, whole=all(part["tagged"] for part in parts))
    layers.finish()
    return len(target.pages)


def _finish(
    target: Pdf, structure: Structure, tops: list[tuple[str, list[Object]]], language: str, *, whole: bool
) -> None:
    """The language of most pages is the document's; that of others stays with their elements."""
    for own, added in tops:
        for element in added:
            if own and own != language and "/Lang" not in element:
                element["/Lang"] = String(own)
    if language:
        target.Root["/Lang"] = String(language)
    if tops:
        target.Root["/StructTreeRoot"] = structure.root()
        target.Root["/MarkInfo"] = Dictionary(
            Marked=True, Suspects=structure.suspect or not whole, UserProperties=structure.user_properties
        )


def renumber(source: Pdf, keys: dict[int, int]) -> None:
    """What leads from a page, a form or an annotation into the parent tree; what would lead nowhere goes."""
    for item in source.objects:
        if isinstance(item, (Dictionary, Stream)):
            _renumber(item, keys)
    for page in source.pages:
        notes = page.obj.get("/Annots")
        for note in notes if isinstance(notes, Array) else ():
            if isinstance(note, Dictionary) and not note.is_indirect:
                _renumber(note, keys)


def _renumber(item: Object, keys: dict[int, int]) -> None:
    for name in _NUMBERED:
        if name not in item:
            continue
        key = item[name]
        new = keys.get(key) if isinstance(key, int) else None
        if new is None:
            del item[name]
        else:
            item[name] = new


class _Layers:
    """Optional content: each part has its own groups, and the document all of them."""

    def __init__(self, target: Pdf) -> None:
        self._target = target
        self._groups: list[Object] = []
        self._usual: dict[str, list[Any]] = {"/ON": [], "/OFF": [], "/Order": [], "/Locked": []}
        self._base: Object | None = None

    def add(self, source: Pdf) -> None:
        layers = source.Root.get("/OCProperties")
        if not isinstance(layers, Dictionary):
            return
        copied = self._target.copy_foreign(layers if layers.is_indirect else source.make_indirect(layers))
        self._groups += _listed(copied, "/OCGs")
        usual = copied.get("/D")
        if isinstance(usual, Dictionary):
            self._base = self._base or usual.get("/BaseState")
            for name, values in self._usual.items():
                values.extend(_listed(usual, name))

    def finish(self) -> None:
        if not self._groups:
            return
        usual = Dictionary({name: Array(values) for name, values in self._usual.items() if values})
        if isinstance(self._base, Name):
            usual["/BaseState"] = self._base
        self._target.Root["/OCProperties"] = Dictionary(OCGs=Array(self._groups), D=usual)


def _listed(holder: Object, name: str) -> list[Any]:
    found = holder.get(name)
    return list(found) if isinstance(found, Array) else []
