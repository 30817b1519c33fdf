from __future__ import annotations

import pytest

from tests.cli.documents import Desk


def test_a_paid_processor_that_is_not_set_up_says_how_it_would_be(desk: Desk) -> None:
    desk.put("scan.pdf")
    answer = desk.here.run("run", "scan.pdf", "--processor", "docai")
    assert answer.code == 2
    assert "Processor 'docai' is not set up. Set FOREBAY_DOCAI_PROJECT" in answer.err


def test_a_paid_processor_does_not_start_before_its_limit_is_defined(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PROJECT": "p", "PROCESSOR": "x", "URL": "http://127.0.0.1:9", "TOKEN": "canary-cli"}.items():
        monkeypatch.setenv(f"FOREBAY_DOCAI_{name}", value)
    desk.put("scan.pdf")
    answer = desk.here.run("run", "scan.pdf", "--processor", "docai")
    assert answer.code == 2
    assert "`forebay limits set docai --preset docai`" in answer.err
    shown = desk.here.ok("config", "show").out
    assert "canary-cli" not in shown


def test_options_of_a_paid_processor_are_checked_before_anything_is_stored(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PROJECT": "p", "PROCESSOR": "x", "TOKEN": "canary-cli"}.items():
        monkeypatch.setenv(f"FOREBAY_DOCAI_{name}", value)
    desk.put("scan.pdf")
    answer = desk.here.run("run", "scan.pdf", "--processor", "docai", "--option", "dpi=300")
    assert answer.code == 2
    assert "has no option 'dpi'" in answer.err
