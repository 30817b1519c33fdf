"""What stderr shows of documents on their way, without a terminal."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from forebay.app.item import Item
from forebay.cli.run_progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("forebay.cli.run_progress.time.monotonic", lambda: clock.now)
    return clock


def test_now_and_then_a_line_tells_the_rate_the_time_left_and_what_is_waited_for(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Item(Path("done.pdf"), status="completed", page_count=20, done_share=1.0)
    half = Item(Path("half.pdf"), status="running", page_count=100, waits="limit 'api' is paused")
    with Progress() as progress:
        progress.of(SimpleNamespace(items=[done, half]))  # type: ignore[arg-type]
        progress.told(half)
        assert capsys.readouterr().err == ""
        clock.now += 10
        half.done_share = 0.5
        progress.told(half)
        progress.told(half)
    told = "1 of 2 documents, 70 of 120 pages, 7.0 pages/s, about 7 s left; limit 'api' is paused\n"
    assert capsys.readouterr() == ("", told)


def test_what_was_stored_before_says_nothing_of_the_pace(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    half = Item(Path("half.pdf"), status="running", page_count=100, done_share=0.5)
    with Progress() as progress:
        progress.of(SimpleNamespace(items=[half]))  # type: ignore[arg-type]
        progress.told(half)
        clock.now += 10
        half.done_share = 0.6
        progress.told(half)
    assert capsys.readouterr().err == "0 of 1 documents, 60 of 100 pages, 1.0 pages/s, about 40 s left\n"


def test_an_end_is_told_once_with_its_outputs_or_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    ended: list[Item] = []
    one = Item(Path("one.pdf"), status="completed", page_count=1, outputs=[Path("out/one.md")])
    holes = Item(Path("two.pdf"), status="completed", page_count=9, hole_count=2, outputs=[Path("two.md")])
    bad = Item(Path("bad\x1b.pdf"))
    bad.end("refused", "encrypted", "It needs a password.", todo="Remove it.", exit_code=7)
    with Progress(ended.append) as progress:
        progress.of(SimpleNamespace(items=[one, holes, bad]))  # type: ignore[arg-type]
        for item in (one, holes, bad, bad):
            progress.told(item)
    assert ended == [one, holes, bad]
    assert capsys.readouterr().err.splitlines() == [
        "one.pdf: 1 page -> out/one.md",
        "two.pdf: 9 pages, 2 of them missing -> two.md",
        r"bad\x1b.pdf: refused: encrypted: It needs a password. Remove it.",
    ]
