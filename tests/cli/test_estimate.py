"""`forebay estimate`: what documents would take, with nothing stored and nobody called."""

from __future__ import annotations

import pytest

from tests.cli.documents import WITH, Desk


@pytest.mark.slow
def test_pages_calls_and_time_are_told_and_nothing_is_stored(desk: Desk) -> None:
    desk.put("in/long.pdf", 5)
    desk.put("in/short.pdf", 1)
    answer = desk.here.ok("estimate", "in", *WITH, "--call-time", "10")
    assert answer.lines[0].split() == ["FILE", "PAGES", "SCANS", "STORED", "NOTES"]
    assert [line.split() for line in answer.lines[1:3]] == [
        ["in/long.pdf", "5", "0", "0"],
        ["in/short.pdf", "1", "0", "0"],
    ]
    assert "pages:    6, 0 of them scans, 0 stored already" in answer.lines
    assert "calls:    4" in answer.lines
    assert desk.calls == []
    assert not desk.here.home.exists()


@pytest.mark.slow
def test_what_was_read_before_costs_nothing(desk: Desk) -> None:
    desk.put("scan.pdf", 5)
    desk.ok("scan.pdf")
    total = desk.here.ok("estimate", "scan.pdf", *WITH, "-o", "json").json["total"]
    assert total == {
        "page_count": 5,
        "scan_count": 0,
        "stored_count": 5,
        "call_count": 0,
        "least_s": 0.0,
        "binds": "everything is stored",
        "units": {},
    }


@pytest.mark.slow
def test_the_limit_as_it_stands_decides_the_time(desk: Desk) -> None:
    desk.put("scan.pdf", 20)
    words = ("estimate", "scan.pdf", "--app", WITH[1], "--processor", "paid", "--call-time", "10", "-o", "json")
    assert desk.here.ok(*words).json["total"]["least_s"] == pytest.approx(25)  # 10 calls, 4 at a time
    desk.here.ok("limits", "set", "api", "--in-flight", "1")
    total = desk.here.ok(*words).json["total"]
    assert total["least_s"] == pytest.approx(100)
    assert "in_flight" in total["binds"]


def test_without_a_time_for_a_call_it_is_said_that_nobody_knows(desk: Desk) -> None:
    desk.put("scan.pdf", 1)
    answer = desk.here.ok("estimate", "scan.pdf", *WITH)
    assert "at least: unknown (how long a call takes is not known: give --call-time)" in answer.lines


def test_what_would_be_refused_is_told_and_the_exit_code_is_that_of_run(desk: Desk) -> None:
    desk.write("text.pdf", b"only text")
    desk.put("good.pdf", 1)
    some = desk.here.run("estimate", "good.pdf", "text.pdf", "missing.pdf", *WITH, "-o", "json")
    assert some.code == 3
    assert [each.get("error_class") for each in some.json["files"]] == [None, "unsupported_format", "not_found"]
    assert desk.here.run("estimate", "text.pdf", *WITH).code == 7
    assert desk.here.run("estimate", "missing.pdf", *WITH).code == 4
    assert desk.here.run("estimate", "missing.pdf", "text.pdf", *WITH).code == 7
    assert desk.here.run("estimate", *WITH).code == 2


def test_scans_are_counted_for_the_processor_that_comes_along(desk: Desk) -> None:
    desk.put("scan.pdf", 2)
    answer = desk.here.ok("estimate", "scan.pdf", "-o", "json").json
    assert answer["files"] == [
        {
            "file": "scan.pdf",
            "page_count": 2,
            "scan_count": 0,
            "stored_count": 0,
            "stored_chunk_count": 0,
            "repaired": False,
            "notes": [],
        }
    ]
    assert answer["total"]["least_s"] > 0
