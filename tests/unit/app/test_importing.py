"""Code that only registers may be imported by any process: it reads no settings, and opens nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from forebay import Chunk, Context, Forebay, Limit, Page
from forebay.model.budget import Budget


async def read(_: Context, __: Chunk) -> Sequence[Page]:
    return []


def test_to_register_reads_no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They may be set until the application is first used."""
    app = Forebay()
    app.limit(Limit("paid_api", in_flight=2))
    app.task("note")(read)
    app.processor("own", limit="paid_api")(read)
    app.budget(Budget(unit="pages", most=5))
    assert "settings" not in vars(app)
    monkeypatch.setenv("FOREBAY_HOME", str(tmp_path))
    monkeypatch.setenv("FOREBAY_DOCAI_PROJECT", "p")
    monkeypatch.setenv("FOREBAY_DOCAI_PROCESSOR", "d")
    monkeypatch.setenv("FOREBAY_DOCAI_TOKEN", "t")
    app.check_documents()
    assert {app.documents.pipeline.processor(name).name for name in ("local", "own", "docai")} == {
        "local",
        "own",
        "docai",
    }
    assert str(tmp_path) in app.settings.ledger
