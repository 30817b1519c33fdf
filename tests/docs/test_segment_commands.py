"""The commands of the page about articles do what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.test_document_commands import Shell
from tests.segment.ground import TEXT
from tests.segment.written import docx, paragraph

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "segment-documents.md"
COMMANDS = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"`([a-z_]+)`")


@pytest.mark.slow
def test_the_commands_about_articles_run_and_every_field_is_explained(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    body = [paragraph("Report", heading=1), *[paragraph(f"{n} words of it. " * 60) for n in range(4)]]
    (tmp_path / "report.docx").write_bytes(docx(*body))
    (tmp_path / "notes.txt").write_text(TEXT, encoding="utf-8")
    shell = Shell(tmp_path)
    for line in "".join(COMMANDS.findall(page)).splitlines():
        shell.run(line)
    whole = json.loads((tmp_path / "report.articles.json").read_bytes())
    cut = json.loads((tmp_path / "small" / "report.articles.json").read_bytes())
    assert (whole["summary"]["article_count"], cut["summary"]["article_count"]) == (1, 2)
    assert max(len(each["text"].strip()) for each in cut["articles"]) <= 2000
    assert (tmp_path / "notes.md").read_text(encoding="utf-8").strip() == TEXT.strip()
    table = page.partition("| field |")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in FIELD.findall(line.split(" | ")[0])}
    assert named == whole["articles"][0].keys() | {"lang_tried", "missing"}
