"""Makes a Word document of the texts that the PDFs have: headings, paragraphs and lists, the same bytes each time."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape

_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_WORDS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_KIND = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_LINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PARTS = ("document", "styles", "numbering")


def word(texts: Iterable[str]) -> bytes:
    """Blocks are parted by an empty line, "# " begins a heading, "- " an item of a list."""
    body = "".join(paragraph for text in texts for paragraph in _paragraphs(text))
    overrides = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_KIND}.{"document.main" if name == "document" else name}'
        '+xml"/>'
        for name in _PARTS
    )
    files = {
        "[Content_Types].xml": (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" '
            f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{overrides}</Types>'
        ),
        "_rels/.rels": _relations({"officeDocument": "word/document.xml"}),
        "word/_rels/document.xml.rels": _relations({"styles": "styles.xml", "numbering": "numbering.xml"}),
        "word/document.xml": f"<w:document {_WORDS}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": (
            f'<w:styles {_WORDS}><w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/>'
            '<w:rPr><w:b/><w:sz w:val="34"/></w:rPr></w:style></w:styles>'
        ),
        "word/numbering.xml": (
            f'<w:numbering {_WORDS}><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/>'
            '<w:lvlText w:val="•"/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
            "</w:numbering>"
        ),
    }
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as made:
        for name, content in files.items():
            made.writestr(zipfile.ZipInfo(name), _HEAD + content, zipfile.ZIP_DEFLATED)
    return raw.getvalue()


def _relations(targets: dict[str, str]) -> str:
    links = "".join(f'<Relationship Id="{name}" Type="{_LINK}/{name}" Target="{to}"/>' for name, to in targets.items())
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{links}</Relationships>'
    )


def _paragraphs(text: str) -> Iterator[str]:
    for block in text.strip().split("\n\n"):
        if block.startswith("# "):
            yield _paragraph(block[2:], '<w:pStyle w:val="Heading1"/>')
        elif block.startswith("- "):
            for line in block.splitlines():
                yield _paragraph(line[2:], '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')
        else:
            yield _paragraph(" ".join(block.split()), "")


def _paragraph(text: str, look: str) -> str:
    return f'<w:p><w:pPr>{look}</w:pPr><w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'
