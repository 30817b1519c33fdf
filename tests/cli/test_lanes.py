from __future__ import annotations

import re

from forebay.cli.opening import who
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


def cells(here: Ground, lane: str) -> dict[str, str]:
    """The cells of a lane's row, by the place of their column."""
    head, *rows = here.ok("lanes", "list").lines
    (row,) = [row for row in rows if row.startswith(lane)]
    names = re.split(r"  +", head.strip())
    starts = [head.index(name) for name in names]
    ends = [*starts[1:], None]
    return {name.lower(): row[start:end].strip() for name, start, end in zip(names, starts, ends, strict=True)}


def test_the_table_tells_how_long_the_oldest_ready_task_waits_and_what_holds_it(here: Ground) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "1")
    here.submit(lone(kind="ocr", limit="adobe"), lone(kind="later", delay_s=60), lone(kind="work"))
    here.ok("limits", "pause", "adobe", "--note", "they are down")
    assert re.fullmatch(r"\d+ (ms|s) ago", cells(here, "ocr@adobe")["oldest ready"])
    assert cells(here, "ocr@adobe")["limit"] == f"paused by {who()}: they are down"
    assert (cells(here, "later")["oldest ready"], cells(here, "later")["limit"]) == ("", "")
    assert cells(here, "work")["limit"] == ""
    here.ok("limits", "resume", "adobe")
    assert cells(here, "ocr@adobe")["limit"] == "open"


def test_a_limit_that_is_not_defined_is_named_in_the_table(here: Ground) -> None:
    here.submit(lone(kind="ocr", limit="adobe"))
    assert cells(here, "ocr@adobe")["limit"] == "not defined"


def test_a_wrong_lane_or_end_exits_2(here: Ground) -> None:
    here.submit(lone())
    assert here.run("lanes", "pause", "No Lane").code == 2
    assert here.run("lanes", "pause", "work", "--until", "later").code == 2
    assert here.run("lanes", "pause", "work", "--until", "+5", "--for", "5").code == 2
    assert here.run("lanes", "pause", "work", "--for", "-5").code == 2
