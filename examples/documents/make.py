"""Makes documents to try Forebay on, and beside each what it says: python examples/documents/make.py FOLDER.

Scans are drawn from PDFs with text, so that every word on them is known. The same versions of the libraries make the
same bytes each time.
"""

from __future__ import annotations

import io
import random
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pikepdf
import pypdfium2
from pikepdf import Array, Dictionary, Name, Pdf
from PIL import Image, ImageChops, ImageFilter

sys.path.insert(0, str(Path(__file__).parents[2]))
from examples.documents.office import word

TEXTS = Path(__file__).parent / "texts"
WIDTH, HEIGHT = 595, 842
MARGIN = 64
SIZE = 12
LEADING = 15.5
LETTERS = 84
DPI = 200

Turn = Callable[[Image.Image], Image.Image]


class Sample(NamedTuple):
    texts: tuple[str, ...]
    draw: Callable[[Pdf, tuple[str, ...]], None]


class Line(NamedTuple):
    left: float
    baseline: float
    font: str
    size: float
    text: str


def laid_out(text: str, *, left: float = MARGIN, letters: int = LETTERS) -> Iterator[Line]:
    """The lines of a page: blocks are parted by an empty line, "# " begins a heading, "- " an item of a list."""
    below: float = HEIGHT - MARGIN
    for block in text.strip().split("\n\n"):
        if block.startswith("# "):
            below -= 10
            yield Line(left, below - 6, "/Bold", 17, block[2:])
            below -= 30
            continue
        parts = block.splitlines() if block.startswith("- ") else [block]
        for part in parts:
            indent = 14 if part.startswith("- ") else 0
            for number, line in enumerate(textwrap.wrap(part.removeprefix("- "), letters, break_on_hyphens=False)):
                if indent and not number:
                    yield Line(left, below - 6, "/Roman", SIZE, "•")
                yield Line(left + indent, below - 6, "/Roman", SIZE, line)
                below -= LEADING
        below -= 9


def in_columns(text: str) -> Iterator[Line]:
    """Two columns of about the same height, parted between two blocks."""
    blocks = text.strip().split("\n\n")
    sizes = [len(block) for block in blocks]
    middle = min(range(1, len(blocks)), key=lambda at: abs(sum(sizes[:at]) - sum(sizes[at:])))
    yield from laid_out("\n\n".join(blocks[:middle]), letters=40)
    yield from laid_out("\n\n".join(blocks[middle:]), left=WIDTH / 2 + 14, letters=40)


def said(text: str) -> str:
    """The text as a reader sees it, without the marks of its layout."""
    return "\n".join(line.removeprefix("# ").removeprefix("- ") for line in text.strip().splitlines())


def add_text(pdf: Pdf, lines: Iterator[Line]) -> None:
    operators = [
        b"BT %b %g Tf 1 0 0 1 %g %g Tm %b Tj ET"
        % (line.font.encode(), line.size, line.left, line.baseline, _string(line.text))
        for line in lines
    ]
    fonts = Dictionary(
        {
            name: Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name(base), Encoding=Name.WinAnsiEncoding)
            for name, base in (("/Roman", "/Times-Roman"), ("/Bold", "/Helvetica-Bold"))
        }
    )
    _add(pdf, WIDTH, HEIGHT, b"\n".join(operators), Dictionary(Font=fonts))


def add_scan(pdf: Pdf, image: Image.Image, *, dpi: int = DPI, quality: int | None = 50) -> None:
    """A page that is one picture, kept as JPEG of this quality or without loss."""
    if quality is None:
        data, decoder = zlib.compress(image.tobytes(), 9), Name.FlateDecode
    else:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        data, decoder = file.getvalue(), Name.DCTDecode
    picture = pikepdf.Stream(pdf, data)
    picture.stream_dict = Dictionary(
        Type=Name.XObject,
        Subtype=Name.Image,
        Width=image.width,
        Height=image.height,
        ColorSpace=Name.DeviceGray,
        BitsPerComponent=8,
        Filter=decoder,
    )
    width, height = round(image.width * 72 / dpi, 2), round(image.height * 72 / dpi, 2)
    content = b"q %g 0 0 %g 0 0 cm /Scan Do Q" % (width, height)
    _add(pdf, width, height, content, Dictionary(XObject=Dictionary(Scan=pdf.make_indirect(picture))))


def drawn(lines: Iterator[Line], *, dpi: int = DPI) -> Image.Image:
    """The page's pixels, in grey."""
    with Pdf.new() as pdf:
        add_text(pdf, lines)
        source = _saved(pdf)
    document = pypdfium2.PdfDocument(source)
    try:
        image: Image.Image = document[0].render(scale=dpi / 72, grayscale=True).to_pil()
        return image.convert("L")
    finally:
        document.close()


def noisy(image: Image.Image) -> Image.Image:
    """Grain all over, specks of dust, and the softness of a lens."""
    dice = random.Random(1987)  # noqa: S311 - noise, and the same each time
    grain = Image.frombytes("L", image.size, dice.randbytes(image.width * image.height))
    dust = grain.point([0 if value == 0 else 255 for value in range(256)]).filter(ImageFilter.GaussianBlur(0.6))
    soft = Image.blend(image.filter(ImageFilter.GaussianBlur(0.7)), grain.filter(ImageFilter.GaussianBlur(0.9)), 0.25)
    return ImageChops.darker(soft, dust)


def skewed(degrees: float) -> Turn:
    return lambda image: image.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=255)


def text_pages(pdf: Pdf, texts: tuple[str, ...]) -> None:
    for text in texts:
        add_text(pdf, laid_out(text))


def scan(turn: Turn = Image.Image.copy) -> Callable[[Pdf, tuple[str, ...]], None]:
    def draw(pdf: Pdf, texts: tuple[str, ...]) -> None:
        for text in texts:
            add_scan(pdf, turn(drawn(laid_out(text))))

    return draw


def skewed_scans(pdf: Pdf, texts: tuple[str, ...]) -> None:
    for text, degrees in zip(texts, (2, -2), strict=True):
        add_scan(pdf, skewed(degrees)(drawn(laid_out(text))))


def coarse_scan(pdf: Pdf, texts: tuple[str, ...]) -> None:
    add_scan(pdf, drawn(laid_out(texts[0]), dpi=150), dpi=150, quality=None)


def noisy_scan(pdf: Pdf, texts: tuple[str, ...]) -> None:
    add_scan(pdf, noisy(drawn(laid_out(texts[0]))), quality=35)


def scan_in_columns(pdf: Pdf, texts: tuple[str, ...]) -> None:
    add_scan(pdf, drawn(in_columns(texts[0])))


def rotated_scan(pdf: Pdf, texts: tuple[str, ...]) -> None:
    """Lies on its side in the file, and says that it is to be shown turned by 90 degrees clockwise: upright."""
    scan(lambda image: image.transpose(Image.Transpose.ROTATE_90))(pdf, texts)
    pdf.pages[0].Rotate = 90


def turned_scan(pdf: Pdf, texts: tuple[str, ...]) -> None:
    """Was laid into the scanner on its side, and nothing says so."""
    scan(lambda image: image.transpose(Image.Transpose.ROTATE_270))(pdf, texts)


def mixed_pages(pdf: Pdf, texts: tuple[str, ...]) -> None:
    for number, text in enumerate(texts):
        (scan() if number % 2 else text_pages)(pdf, (text,))


SAMPLES = {
    "text": Sample(("english-1", "english-2", "english-3"), text_pages),
    "scan-noise": Sample(("english-1",), noisy_scan),
    "scan-skew": Sample(("english-1", "english-2"), skewed_scans),
    "scan-150dpi": Sample(("english-2",), coarse_scan),
    "scan-columns": Sample(("english-3",), scan_in_columns),
    "scan-german": Sample(("german-1",), scan()),
    "scan-rotated": Sample(("english-2",), rotated_scan),
    "scan-turned": Sample(("english-3",), turned_scan),
    "mixed": Sample(("english-1", "english-2", "german-1", "english-3"), mixed_pages),
}


OFFICE = {"articles.docx": ("english-1", "english-2", "german-1")}


def make(folder: Path) -> list[Path]:
    """Writes every document, the PDFs with their truth, pages parted by a form feed; returns the documents."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, names in OFFICE.items():
        made.append(folder / name)
        made[-1].write_bytes(word(_texts(names)))
    for name, sample in SAMPLES.items():
        texts = _texts(sample.texts)
        with Pdf.new() as pdf:
            sample.draw(pdf, texts)
            made.append(folder / f"{name}.pdf")
            made[-1].write_bytes(_saved(pdf))
        (folder / f"{name}.truth.txt").write_text("\f".join(map(said, texts)) + "\n", encoding="utf-8")
    return made


def _texts(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple((TEXTS / f"{name}.txt").read_text(encoding="utf-8") for name in names)


def _add(pdf: Pdf, width: float, height: float, content: bytes, resources: Dictionary) -> None:
    page = Dictionary(Type=Name.Page, MediaBox=Array([0, 0, width, height]), Resources=resources)
    page.Contents = pdf.make_stream(content)
    pdf.pages.append(pikepdf.Page(page))


def _string(text: str) -> bytes:
    return b"<%b>" % text.encode("cp1252").hex().encode()


def _saved(pdf: Pdf) -> bytes:
    file = io.BytesIO()
    pdf.save(file, deterministic_id=True)
    return file.getvalue()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/documents/make.py FOLDER")
    for document in make(Path(sys.argv[1])):
        print(document)
