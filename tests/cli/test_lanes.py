from __future__ import annotations

from forebay.testing.workers import lone
from tests.cli.ground import Ground


def test_a_lane_is_paused_with_a_note_and_resumed(here: Ground) -> None:
    here.submit(lone(), lone(kind="ocr", limit="adobe", delay_s=60))
    here.ok("lanes", "pause", "work", "--note", "they are down")
    lanes = {each["name"]: each for each in here.ok("lanes", "list", "-o", "json").json}
    assert (lanes["work"]["note"], lanes["work"]["ready_count"]) == ("they are down", 1)
    assert lanes["work"]["paused_until"] is None
    assert lanes["ocr@adobe"]["later_count"] == 1
    assert "they are down" in here.ok("lanes", "list").out
    here.ok("lanes", "resume", "work")
    assert here.ok("lanes", "list", "-o", "json").json[-1]["paused_at"] is None


def test_a_pause_may_have_an_end(here: Ground) -> None:
    here.submit(lone())
    here.ok("lanes", "pause", "work", "--for", "60")
    assert "(in 5" in here.ok("lanes", "list").out
    here.ok("lanes", "pause", "work", "--until", "2999-01-01T00:00:00Z")
    assert here.ok("lanes", "list", "-o", "json").json[0]["paused_until"] == "2999-01-01T00:00:00.000Z"


def test_a_wrong_lane_or_end_exits_2(here: Ground) -> None:
    here.submit(lone())
    assert here.run("lanes", "pause", "No Lane").code == 2
    assert here.run("lanes", "pause", "work", "--until", "later").code == 2
    assert here.run("lanes", "pause", "work", "--until", "+5", "--for", "5").code == 2
    assert here.run("lanes", "pause", "work", "--for", "-5").code == 2
