"""Makes PDF pages of images, one of each frame."""

from __future__ import annotations

import os
import warnings
import zlib
from typing import BinaryIO, Final

from pikepdf import Array, Dictionary, Name, Object, Pdf, Stream
from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

from forebay.processors.pdf.opening import MAX_PIXELS, MAX_UNITS
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

_FORMATS: Final = {
    "image/png": ("PNG",),
    "image/jpeg": ("JPEG",),
    "image/tiff": ("TIFF",),
    "image/webp": ("WEBP",),
    "image/bmp": ("BMP",),
    "image/gif": ("GIF",),
}
_DPI: Final = 200.0
_DPI_BELIEVED: Final = (30.0, 4800.0)
_SCANNED_AT_LEAST: Final = 100.0
_LONGEST_SHEET_IN: Final = 17.0
_POINTS: Final = 72.0
_TURNS: Final = {1: 0, 3: 180, 6: 90, 8: 270}
_COLOURS: Final = {"1": (Name.DeviceGray, 1), "L": (Name.DeviceGray, 8), "RGB": (Name.DeviceRGB, 8)}
_BAND: Final = 256
_ORIENTATION: Final = 0x0112

Image.MAX_IMAGE_PIXELS = MAX_PIXELS


def as_pdf(fd: int, media_type: str, *, max_pages: int) -> tuple[Pdf, list[Object], list[str]]:
    """The image in a file as a PDF, its pages and notes: every frame of a TIFF, the first one of anything else."""
    if media_type not in _FORMATS:
        raise Refused(ErrorClass.UNSUPPORTED_FORMAT, f"{media_type} documents cannot be read here.")
    file = os.fdopen(fd, "rb", closefd=False)
    pdf = Pdf.new()
    notes: list[str] = []
    number = 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS[media_type]) as image:
                frames = ImageSequence.Iterator(image) if media_type == "image/tiff" else [image]
                for number, frame in enumerate(frames, 1):
                    if number > max_pages:
                        raise Refused(ErrorClass.TOO_MANY_PAGES, f"The image has more than {max_pages} frames.")
                    _add(pdf, frame, file)
                if media_type != "image/tiff" and getattr(image, "n_frames", 1) > 1:
                    notes.append("only the first frame was read")
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise Refused(
            ErrorClass.PAGE_TOO_LARGE, f"Image {number} has more than {MAX_PIXELS // 10**6} megapixels."
        ) from None
    except UnidentifiedImageError:
        raise Refused(ErrorClass.UNSUPPORTED_FORMAT, f"The file is not a {media_type} image.") from None
    except MemoryError:
        raise Refused(
            ErrorClass.DECOMPRESSION_LIMIT, f"Image {number} unpacks to more than a parser may hold."
        ) from None
    except (OSError, ValueError, SyntaxError, TypeError, KeyError, EOFError, zlib.error) as error:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"Image {number} is damaged: {str(error)[:200]}.") from None
    return pdf, [page.obj for page in pdf.pages], notes


def _add(pdf: Pdf, frame: Image.Image, file: BinaryIO) -> None:
    if frame.width * frame.height > MAX_PIXELS:
        raise Image.DecompressionBombError
    across, down = _dpi(frame)
    frame.load()
    orientation = int(frame.getexif().get(_ORIENTATION, 1))
    as_it_is = frame.format in ("JPEG", "MPO") and frame.mode in _COLOURS and orientation in (0, *_TURNS)
    if as_it_is:
        file.seek(0)
        stream = Stream(pdf, file.read())
        stream["/Filter"] = Name.DCTDecode
        picture, turn = frame, _TURNS.get(orientation, 0)
    else:
        # The orientations that mirror have to be carried out; then the others may be, as well.
        picture, turn = _plain(ImageOps.exif_transpose(frame)), 0
        if picture.size != frame.size:
            across, down = down, across
        stream = Stream(pdf, _packed(picture))
        stream["/Filter"] = Name.FlateDecode
    space, bits = _COLOURS[picture.mode]
    stream["/Type"], stream["/Subtype"] = Name.XObject, Name.Image
    stream["/Width"], stream["/Height"] = picture.width, picture.height
    stream["/ColorSpace"], stream["/BitsPerComponent"] = space, bits
    width, height = round(picture.width * _POINTS / across, 2), round(picture.height * _POINTS / down, 2)
    smaller = min(1.0, MAX_UNITS / max(width, height))
    width, height = max(1.0, width * smaller), max(1.0, height * smaller)
    page = pdf.add_blank_page(page_size=(max(3, width), max(3, height)))
    page.obj["/Resources"] = Dictionary(XObject=Dictionary(Im=pdf.make_indirect(stream)))
    page.obj["/Contents"] = pdf.make_stream(b"%.2f 0 0 %.2f 0 0 cm /Im Do" % (width, height))
    page.obj["/MediaBox"] = Array([0, 0, width, height])
    if turn:
        page.obj["/Rotate"] = turn


def _dpi(frame: Image.Image) -> tuple[float, float]:
    """As the file says, unless that makes no sense: cameras say 72, whatever they have photographed."""
    least, most = _DPI_BELIEVED
    try:
        across, down = (round(float(value), 1) for value in frame.info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return _DPI, _DPI
    if not (least <= across <= most and least <= down <= most):
        return _DPI, _DPI
    huge = max(frame.width / across, frame.height / down) > _LONGEST_SHEET_IN
    return (_DPI, _DPI) if huge and min(across, down) < _SCANNED_AT_LEAST else (across, down)


def _plain(image: Image.Image) -> Image.Image:
    """The image in one of the three modes that a PDF is written with here, on white where it is transparent."""
    if image.mode in _COLOURS:
        return image
    if image.mode.startswith("I"):
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.mode == "F":
        return image.convert("L")
    if image.mode in ("LA", "La"):
        return _on_white(image.convert("LA"), "L")
    if image.mode in ("RGBA", "RGBa", "PA") or "transparency" in image.info:
        return _on_white(image.convert("RGBA"), "RGB")
    return image.convert("RGB")


def _on_white(image: Image.Image, mode: str) -> Image.Image:
    white = Image.new(mode, image.size, "white")
    white.paste(image.convert(mode), mask=image.getchannel("A"))
    return white


def _packed(image: Image.Image) -> bytes:
    """The pixels, compressed band by band: a large image is held once only."""
    packer = zlib.compressobj(6)
    parts = [
        packer.compress(image.crop((0, top, image.width, min(top + _BAND, image.height))).tobytes())
        for top in range(0, image.height, _BAND)
    ]
    return b"".join([*parts, packer.flush()])
