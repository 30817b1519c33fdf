from __future__ import annotations

import io

import pytest
from PIL import Image, ImageDraw

from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass
from tests.documents import hostile
from tests.processors.pdf.papers import call, drawn, split

FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "TIFF": "image/tiff", "BMP": "image/bmp", "GIF": "image/gif"}
FORMATS["WEBP"] = "image/webp"


def marked(mode: str = "L", size: tuple[int, int] = (400, 200)) -> Image.Image:
    """White, with a black square in its upper left corner."""
    image = Image.new(mode, size, "white")
    ImageDraw.Draw(image).rectangle((0, 0, 100, 100), "black")
    return image


def file_of(image: Image.Image, kind: str, **more: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


def corner(document: bytes, index: int = 0) -> tuple[str, tuple[int, int]]:
    """Where the page is black, and its size."""
    image = drawn(document, index)
    width, height = image.size
    places = {"upper left": (9, 9), "upper right": (width - 9, 9), "lower left": (9, height - 9)}
    places["lower right"] = (width - 9, height - 9)
    (black,) = [name for name, place in places.items() if image.getpixel(place) == 0]
    return black, image.size


@pytest.mark.parametrize("kind", FORMATS)
def test_an_image_becomes_a_page_at_its_own_resolution(kind: str) -> None:
    more: dict[str, object] = {"dpi": (144, 144)} if kind in ("PNG", "JPEG", "TIFF", "BMP") else {}
    answer, (chunk,) = split(file_of(marked("RGB"), kind, **more), FORMATS[kind])
    assert answer["pages"] == 1
    size = (200, 100) if more else (144, 72)
    assert corner(chunk) == ("upper left", size)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK"])
@pytest.mark.parametrize("kind", ["TIFF", "JPEG"])
def test_every_kind_of_pixels_is_drawn(mode: str, kind: str) -> None:
    if kind == "JPEG" and mode in ("1", "P"):
        mode = "L"
    _, (chunk,) = split(file_of(marked("RGB").convert(mode), kind), FORMATS[kind])
    assert corner(chunk)[0] == "upper left"


def test_what_is_transparent_is_white() -> None:
    image = Image.new("RGBA", (400, 200), (0, 0, 0, 0))
    image.paste(marked("RGB").crop((0, 0, 100, 100)))
    _, (chunk,) = split(file_of(image, "PNG"), "image/png")
    assert corner(chunk)[0] == "upper left"


def test_sixteen_bits_are_brought_to_eight() -> None:
    image = Image.new("I;16", (400, 200), 65535)
    image.paste(0, (0, 0, 100, 100))
    _, (chunk,) = split(file_of(image, "PNG"), "image/png")
    assert corner(chunk)[0] == "upper left"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_photograph_stands_as_its_camera_was_held(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    _, (chunk,) = split(file_of(marked(), kind, exif=exif), FORMATS[kind])
    places = ["upper left", "upper right", "lower right", "lower left"]
    place = [*places, places[0], places[1], places[2], places[3]][orientation - 1]
    size = (400, 200) if kind == "JPEG" else (144, 72)
    assert corner(chunk) == (place, size if orientation < 5 else size[::-1])


def test_every_frame_of_a_tiff_is_a_page_and_of_a_gif_the_first() -> None:
    frames = [marked("L"), marked("L").rotate(180), marked("1")]
    tiff = file_of(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    answer, chunks = split(tiff, "image/tiff", max_pages=2)
    assert [(chunk["page_start"], chunk["page_end"]) for chunk in answer["chunks"]] == [(1, 2), (3, 3)]
    assert [corner(chunks[0])[0], corner(chunks[0], 1)[0]] == ["upper left", "lower right"]
    gif = file_of(frames[0], "GIF", save_all=True, append_images=frames[1:])
    answer, _ = split(gif, "image/gif")
    assert (answer["pages"], answer["notes"]) == (1, ["only the first frame was read"])
    with pytest.raises(Refused) as refused:
        split(tiff, "image/tiff", max_document_pages=2)
    assert refused.value.error_class is ErrorClass.TOO_MANY_PAGES


def test_the_same_image_gives_the_same_bytes_and_all_of_it_is_to_be_recognized() -> None:
    image = file_of(marked(), "PNG")
    assert split(image, "image/png") == split(image, "image/png")
    answer, _ = call("inspect", {"media_type": "image/png", "max_pages": 9}, image)
    assert answer == {"pages": 1, "repaired": False, "notes": [], "scan_pages": 1, "sampled": 1}


def test_a_resolution_that_nobody_believes_is_not_used() -> None:
    _, (chunk,) = split(file_of(marked(), "TIFF", dpi=(1, 1)), "image/tiff")
    assert corner(chunk)[1] == (144, 72)
    photograph = file_of(marked(size=(4000, 2000)), "JPEG", dpi=(72, 72))
    assert corner(split(photograph, "image/jpeg")[1][0])[1] == (1440, 720)


@pytest.mark.parametrize(
    ("data", "media_type", "error_class"),
    [
        (hostile.huge_png(), "image/png", ErrorClass.PAGE_TOO_LARGE),
        (file_of(Image.new("1", (10_100, 10_000)), "PNG"), "image/png", ErrorClass.PAGE_TOO_LARGE),
        (file_of(marked(), "PNG")[:150], "image/png", ErrorClass.CORRUPTED_CONTENT),
        (file_of(marked(), "JPEG")[:-400], "image/jpeg", ErrorClass.CORRUPTED_CONTENT),
        (file_of(marked(), "PNG"), "image/tiff", ErrorClass.UNSUPPORTED_FORMAT),
        (b"no image", "image/png", ErrorClass.UNSUPPORTED_FORMAT),
        (b"<svg/>", "image/svg+xml", ErrorClass.UNSUPPORTED_FORMAT),
    ],
    ids=["3600 megapixels", "101 megapixels", "cut off", "cut off JPEG", "another type", "nothing", "unknown type"],
)
def test_an_image_that_cannot_be_read_is_refused(data: bytes, media_type: str, error_class: ErrorClass) -> None:
    with pytest.raises(Refused) as refused:
        split(data, media_type)
    assert refused.value.error_class is error_class
