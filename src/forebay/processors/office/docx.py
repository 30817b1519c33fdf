"""Makes Markdown of a Word document by way of HTML: its headings, lists and tables, without its pictures."""

from __future__ import annotations

from typing import Any

import mammoth

from forebay.processors.office import html, zips


def markdown(raw: bytes) -> list[str]:
    found = mammoth.convert_to_html(
        zips.checked(raw),
        convert_image=_no_image,
        include_embedded_style_map=False,
        external_file_access=False,
    )
    return [html.converted(found.value)]


def _no_image(_: Any) -> list[Any]:  # noqa: ANN401 - of mammoth, which ships no types
    return []
