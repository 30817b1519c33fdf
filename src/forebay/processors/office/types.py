"""The media types of documents that become Markdown, and what has to be installed for each."""

from __future__ import annotations

from typing import Final

_OPEN_XML: Final = "application/vnd.openxmlformats-officedocument"
DOCX: Final = f"{_OPEN_XML}.wordprocessingml.document"
XLSX: Final = f"{_OPEN_XML}.spreadsheetml.sheet"
PPTX: Final = f"{_OPEN_XML}.presentationml.presentation"
HTML: Final = "text/html"
MARKDOWN: Final = "text/markdown"
TEXT: Final = "text/plain"

NEEDED: Final[dict[str, tuple[str, ...]]] = {
    DOCX: ("mammoth", "html_to_markdown"),
    XLSX: ("openpyxl",),
    PPTX: ("pptx",),
    HTML: ("html_to_markdown",),
    MARKDOWN: (),
    TEXT: (),
}
"""The packages that each is converted by."""
