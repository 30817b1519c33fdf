"""Keeps the options of documents in docs/reference/http.md equal to the code."""

from __future__ import annotations

import re
from pathlib import Path

from forebay.server.orders import JobOrder

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<names>`[^|]*`) \|", re.MULTILINE)


def test_every_option_of_a_document_has_a_row() -> None:
    section = PAGE.partition("\n## Documents\n")[2].partition("\n## ")[0]
    documented = {name for row in ROW.finditer(section) for name in re.findall(r"`(\w+)`", row["names"])}
    assert documented == set(JobOrder.model_fields)
