from __future__ import annotations

import pikepdf
from pikepdf import Dictionary, Name, Pdf

from forebay.processors.pdf.lost import lost


def test_a_page_without_content_and_one_that_draws_what_is_not_there_lack_something() -> None:
    with Pdf.new() as pdf:
        for content in (b"BT ET", None, b"q 9 0 0 9 0 0 cm /Im1 Do Q", b"q /Im1 Do Q /Im2\nDo", b"(/Im2 Done) Tj"):
            page = pdf.add_blank_page()
            if content is None:
                del page.obj["/Contents"]
            else:
                page.obj["/Contents"] = pdf.make_stream(content)
            image = pdf.make_stream(b"x", Type=Name.XObject, Subtype=Name.Image)
            page.obj["/Resources"] = Dictionary(XObject=Dictionary(Im1=image))
        found = lost([page.obj for page in pdf.pages], 11)
    assert found == {
        "it has no content, and the document is damaged": [12],
        "an image of it is lost, since the document is damaged": [14],
    }


def test_what_cannot_be_decoded_is_left_to_who_reads_the_page() -> None:
    with Pdf.new() as pdf:
        page = pdf.add_blank_page()
        page.obj["/Contents"] = pikepdf.Stream(pdf, b"no hex >", Filter=Name.LZWDecode)
        assert lost([page.obj], 1) == {}
