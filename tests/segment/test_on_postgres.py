"""The same articles with PostgreSQL as the ledger, also of texts that a database might stumble over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.ground import pdf
from tests.segment.ground import TEXT, Ground
from tests.segment.written import pptx
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

ODD = "# 😀 Ünïcode \\u0000\n\nA text with \ud7ff edges, \\ strokes, 'quotes' and \u202e turns.\n"


@pytest.mark.slow
def test_documents_become_the_same_articles(tmp_path: Path, postgres_server: Server) -> None:
    documents = {"notes.md": TEXT.encode(), "scan.pdf": pdf(2), "odd.md": ODD.encode()}
    documents["slides.pptx"] = pptx(("One", ["a"]))
    found = []
    with fresh_schema(postgres_server) as address:
        for folder, settings in (("a", {}), ("b", {"ledger": address})):
            (tmp_path / folder).mkdir()
            with Ground(tmp_path / folder, **settings) as here:
                jobs = [here.submit(raw, name=name) for name, raw in documents.items()]
                here.work()
                found.append([here.articles(here.job(job)) for job in jobs])
    assert found[0] == found[1]
    assert found[0][2][0]["title"].startswith("😀 Ünïcode")
