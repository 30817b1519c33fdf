"""Small PDFs, and the verbs called on them in this process."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import pypdfium2
from pikepdf import Array, Dictionary, Name, Object, Pdf, Stream
from PIL import Image

from forebay.processors.pdf.verbs import VERBS

A4 = (595, 842)
PDF = "application/pdf"
ENGLISH = (
    "The gates of the upper reservoir were shut in time, and the water that came down the valley during the night "
    "was led around the town. Nobody was hurt, and the bridge near the mill will be open again before the winter."
)


class Put(NamedTuple):
    """A line of text, its baseline at x and y."""

    x: float
    y: float
    text: str
    size: float = 11
    matrix: str = "1 0 0 1"


def fonts() -> Dictionary:
    return Dictionary(
        F=Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica, Encoding=Name.WinAnsiEncoding)
    )


def shown(puts: Sequence[Put]) -> bytes:
    parts = []
    for put in puts:
        text = put.text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        parts.append(b"BT /F %g Tf %s %g %g Tm (%s) Tj ET" % (put.size, put.matrix.encode(), put.x, put.y, text))
    return b"\n".join(parts)


def add(pdf: Pdf, content: bytes, *, size: tuple[float, float] = A4, **entries: object) -> Object:
    page = pdf.add_blank_page(page_size=size).obj
    page["/Resources"] = Dictionary(Font=fonts())
    page["/Contents"] = pdf.make_stream(content)
    for key, value in entries.items():
        page[f"/{key}"] = value
    return page


def saved(pdf: Pdf) -> bytes:
    file = io.BytesIO()
    pdf.save(file, static_id=True)
    return file.getvalue()


def paper(*pages: Sequence[Put], size: tuple[float, float] = A4, **entries: object) -> bytes:
    with Pdf.new() as pdf:
        for puts in pages:
            add(pdf, shown(puts), size=size, **entries)
        return saved(pdf)


def paragraph(text: str = ENGLISH, *, top: float = 780, left: float = 60, letters: int = 80) -> list[Put]:
    words, lines = text.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > letters:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return [Put(left, top - 14 * number, line) for number, line in enumerate(lines)]


def picture(pdf: Pdf, image: Image.Image) -> Object:
    stream = Stream(pdf, image.convert("L").tobytes())
    entries = {"Subtype": Name.Image, "Width": image.width, "Height": image.height}
    for key, value in (entries | {"ColorSpace": Name.DeviceGray, "BitsPerComponent": 8}).items():
        stream[f"/{key}"] = value
    return pdf.make_indirect(stream)


def scanned(image: Image.Image, text: bytes = b"", *, size: tuple[float, float] = A4, **entries: object) -> bytes:
    """A page that is one picture, with or without text drawn after it."""
    with Pdf.new() as pdf:
        page = add(pdf, b"q %g 0 0 %g 0 0 cm /Im Do Q\n" % size + text, size=size, **entries)
        page["/Resources"]["/XObject"] = Dictionary(Im=picture(pdf, image))
        return saved(pdf)


def drawn(document: bytes, index: int = 0, *, dpi: float = 72) -> Image.Image:
    opened = pypdfium2.PdfDocument(document)
    try:
        image: Image.Image = opened[index].render(scale=dpi / 72, grayscale=True).to_pil().convert("L")
        return image
    finally:
        opened.close()


def coded(characters: Sequence[str]) -> bytes:
    """A page with one word for each of these texts, of a font whose codes stand for them."""
    entries = "\n".join(f"<{code:04x}> <{text.encode('utf-16-be').hex()}>" for code, text in enumerate(characters, 1))
    mapping = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        "1 begincodespacerange <0000> <ffff> endcodespacerange\n"
        f"{len(characters)} beginbfchar\n{entries}\nendbfchar\nendcmap end end"
    )
    with Pdf.new() as pdf:
        codes = b" -3000 ".join(b"<%04x>" % code for code in range(1, len(characters) + 1))
        page = add(pdf, b"BT /C 12 Tf 1 0 0 1 60 700 Tm [%s] TJ ET" % codes)
        page["/Resources"]["/Font"]["/C"] = Dictionary(
            Type=Name.Font,
            Subtype=Name.Type0,
            BaseFont=Name.X,
            Encoding=Name("/Identity-H"),
            ToUnicode=pdf.make_stream(mapping.encode()),
            DescendantFonts=Array(
                [
                    Dictionary(
                        Type=Name.Font,
                        Subtype=Name.CIDFontType2,
                        BaseFont=Name.X,
                        CIDSystemInfo=Dictionary(Registry=b"Adobe", Ordering=b"Identity", Supplement=0),
                        DW=600,
                    )
                ]
            ),
        )
        return saved(pdf)


def call(verb: str, arguments: dict[str, Any], *inputs: bytes) -> tuple[Any, bytes]:
    """What the verb answers, and what it wrote to the file that comes after its inputs."""
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(len(inputs) + 1)]
        for file, data in zip(files, inputs, strict=False):
            file.write(data)
            file.flush()
            file.seek(0)
        answer = VERBS[verb](arguments, [file.fileno() for file in files])
        files[-1].seek(0)
        return json.loads(json.dumps(answer)), files[-1].read()


def split(document: bytes, media_type: str = PDF, **changed: object) -> tuple[Any, list[bytes]]:
    arguments = {
        "media_type": media_type,
        "max_document_pages": 1000,
        "max_pages": 20,
        "max_bytes": 1 << 26,
        "first": 1,
    }
    answer, data = call("split", arguments | changed, document)
    return answer, [data[chunk["offset"] : chunk["offset"] + chunk["size"]] for chunk in answer["chunks"]]


def read(document: bytes, ocr: str = "auto", **more: object) -> list[Any]:
    """Each page as it was stored, or None where it is to be recognized."""
    answer, data = call("read", {"ocr": ocr, **more}, document)
    return [
        None if "ocr" in page else json.loads(data[page["offset"] : page["offset"] + page["size"]])
        for page in answer["pages"]
    ]


def words(page: dict[str, Any]) -> list[Any]:
    return [word for block in page["blocks"] for line in block["lines"] for word in line["words"]]


def texts(page: dict[str, Any]) -> list[str]:
    """The text of each block, its lines joined."""
    return [" ".join(word["text"] for line in block["lines"] for word in line["words"]) for block in page["blocks"]]
