"""Office documents to hand in, made by hand so that every word in them is known, and some that mean harm."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import openpyxl
from pptx import Presentation
from pptx.util import Inches

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'wordprocessingml.document.main+xml"/></Types>'
)
_RELATION = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)
_STYLES = "".join(
    f'<w:style w:type="paragraph" w:styleId="H{n}"><w:name w:val="heading {n}"/></w:style>' for n in (1, 2, 3)
)


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as opened:
        for name, content in files.items():
            opened.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, compresslevel=1)
    return raw.getvalue()


def paragraph(text: str, *, heading: int | None = None) -> str:
    style = f'<w:pPr><w:pStyle w:val="H{heading}"/></w:pPr>' if heading else ""
    return f'<w:p>{style}<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def table(rows: Sequence[Sequence[str]]) -> str:
    cells = ("".join(f"<w:tc>{paragraph(each)}</w:tc>" for each in row) for row in rows)
    return "<w:tbl>" + "".join(f"<w:tr>{each}</w:tr>" for each in cells) + "</w:tbl>"


def docx(*body: str, document: str | bytes | None = None, more: Mapping[str, str | bytes] | None = None) -> bytes:
    """`document` takes the place of the whole main part."""
    main = document or f'<?xml version="1.0"?><w:document {_W}><w:body>{"".join(body)}</w:body></w:document>'
    return zipped(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": _RELATION,
            "word/document.xml": main,
            "word/styles.xml": f'<?xml version="1.0"?><w:styles {_W}>{_STYLES}</w:styles>',
            **(more or {}),
        }
    )


def xlsx(sheets: Mapping[str, Iterable[Sequence[object]]]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    raw = io.BytesIO()
    book.save(raw)
    return raw.getvalue()


def pptx(*slides: tuple[str, Sequence[str]], notes: str = "", cells: Sequence[Sequence[str]] = ()) -> bytes:
    shown = Presentation()
    for title, lines in slides:
        slide = shown.slides.add_slide(shown.slide_layouts[1])
        slide.shapes.title.text = title
        frame = slide.placeholders[1].text_frame
        frame.text = lines[0]
        for line in lines[1:]:
            added = frame.add_paragraph()
            added.text = line.lstrip()
            added.level = len(line) - len(line.lstrip())
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
        if cells:
            drawn = slide.shapes.add_table(
                len(cells), len(cells[0]), Inches(1), Inches(1), Inches(4), Inches(2)
            )  # fmt: skip
            for at, row in enumerate(cells):
                for place, each in enumerate(row):
                    drawn.table.cell(at, place).text = each
    raw = io.BytesIO()
    shown.save(raw)
    return raw.getvalue()


@cache
def zip_bomb() -> bytes:
    """Small, and 300 MB when it is unpacked."""
    return docx(paragraph("x"), more={f"word/media/{n}.bin": bytes(50_000_000) for n in range(6)})


def lying_zip() -> bytes:
    """Its directory says that a file is small which is not."""
    raw = bytearray(docx(paragraph("x" * 5_000_000)))
    at = raw.rfind(b"word/document.xml") - 46
    raw[at + 24 : at + 28] = (100).to_bytes(4, "little")
    return bytes(raw)


def entity_bomb() -> bytes:
    """Ten entities, each ten times the one before: a billion letters."""
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    main = (
        f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "{"lol" * 100}">{entities}]>'
        f"<w:document {_W}><w:body>{paragraph('&e9;')}</w:body></w:document>"
    )
    return docx(document=main)


def deep_docx(levels: int = 20_000) -> bytes:
    nested = "<w:ins>" * levels + paragraph("x") + "</w:ins>" * levels
    return docx(document=f'<?xml version="1.0"?><w:document {_W}><w:body>{nested}</w:body></w:document>')


def deep_html(levels: int = 100_000) -> bytes:
    return b"<html><body>" + b"<div>" * levels + b"x" + b"</div>" * levels


def wide_xlsx() -> bytes:
    """Two million cells and more, by rows that each have something at their end."""
    rows = "".join(f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(1, 130))
    return _xlsx_with(rows)


def full_xlsx(rows: int = 2001) -> bytes:
    """A thousand cells a row, each with a number: too many to be read in the time that a document has."""
    return _xlsx_with(f"<row>{'<c><v>1</v></c>' * 1000}</row>" * rows)


def tall_xlsx() -> bytes:
    """One cell, in the last row that there can be; it is read."""
    return _xlsx_with('<row r="1048576"><c r="A1048576"><v>7</v></c></row>')


def _xlsx_with(rows: str) -> bytes:
    made = io.BytesIO(xlsx({"Wide": [["x"]]}))
    with zipfile.ZipFile(made) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    files["xl/worksheets/sheet1.xml"] = (
        '<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f"<sheetData>{rows}</sheetData></worksheet>"
    ).encode()
    return zipped(files)
