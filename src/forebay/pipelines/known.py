"""The pipelines of documents that there are."""

from __future__ import annotations

from collections.abc import Mapping

from forebay.pipelines.autotag import AUTOTAG
from forebay.pipelines.ocr import OCR
from forebay.pipelines.pipeline import Pipeline
from forebay.pipelines.segment import SEGMENT

PIPELINES: Mapping[str, Pipeline] = {each.name: each for each in (OCR, AUTOTAG, SEGMENT)}
WRITTEN = tuple(
    output.suffix for each in PIPELINES.values() for output in each.outputs.values() if output.suffix.endswith(".pdf")
)
"""How outputs end that look like documents themselves."""
