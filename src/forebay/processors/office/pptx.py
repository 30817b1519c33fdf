"""Makes Markdown of slides: the title of each is a heading, its text a list or paragraphs, its notes a quotation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pptx import Presentation

from forebay.processors.office import zips
from forebay.processors.office.plain import line
from forebay.processors.office.tables import table
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

_DEEPEST: Final = 20


def markdown(raw: bytes) -> list[str]:
    return ["\n".join(_slide(slide)) + "\n" for slide in Presentation(zips.checked(raw)).slides]


def _slide(slide: Any) -> Iterator[str]:  # noqa: ANN401 - what shapes can do depends on their kind
    title = slide.shapes.title
    named = line(title.text_frame.text if title is not None else "")
    if named:
        yield f"# {named}\n"
    for shape in slide.shapes:
        if title is None or shape.shape_id != title.shape_id:
            yield from _shape(shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            yield "\n".join(f"> {line(each)}" for each in notes.splitlines()) + "\n"


def _shape(shape: Any, depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - same
    if depth > _DEEPEST:
        raise Refused(ErrorClass.DECOMPRESSION_LIMIT, f"A slide nests more than {_DEEPEST} groups.")
    if getattr(shape, "shapes", None) is not None:
        for inner in shape.shapes:
            yield from _shape(inner, depth + 1)
    elif getattr(shape, "has_table", False) and shape.has_table:
        yield table([[each.text for each in row.cells] for row in shape.table.rows])
    elif getattr(shape, "has_text_frame", False) and shape.has_text_frame:
        yield from _paragraphs(shape)


def _paragraphs(shape: Any) -> Iterator[str]:  # noqa: ANN401 - same
    """What stands where a layout has its text is a list, as it is shown."""
    said = [(each.level, line(each.text)) for each in shape.text_frame.paragraphs]
    said = [(level, text) for level, text in said if text]
    if shape.is_placeholder and len(said) > 1:
        yield "\n".join(f"{'  ' * level}- {text}" for level, text in said) + "\n"
    else:
        yield from (f"{text}\n" for _, text in said)
