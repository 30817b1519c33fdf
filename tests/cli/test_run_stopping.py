"""`forebay run` as a process: signals, folders that are watched, two at a time, and what a terminal shows."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from tests.cli.documents import Desk, command

HOW_TO_GO_ON = "forebay: interrupted: 0 of 1 documents are done. The same command goes on."


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_end_what_runs_and_the_same_command_goes_on(desk: Desk, number: signal.Signals) -> None:
    desk.put("scan.pdf", 6)
    desk.tell("sleep", 1)
    with desk.started("scan.pdf", "--concurrency", "2", "-o", "json") as process:
        desk.until(lambda: len(desk.calls) == 2)
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert "once more to stop at once" in err
    assert err.splitlines()[-1] == HOW_TO_GO_ON
    (record,) = json.loads(out)
    assert (record["status"], record["exit_code"], record["outputs"]) == ("interrupted", 130, [])
    desk.tell("sleep", 0)
    desk.ok("scan.pdf")
    assert desk.calls == ["1-2", "3-4", "5-6"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sleep", "block"])
def test_a_second_signal_ends_it_at_once_and_costs_no_retry(desk: Desk, how: str) -> None:
    desk.put("scan.pdf", 2)
    desk.tell(how, 60)
    with desk.started("scan.pdf") as process:
        desk.until(lambda: len(desk.calls) == 1)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "stopping" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 130
    assert err.splitlines()[-1] == HOW_TO_GO_ON
    desk.tell(how, 0)
    (record,) = desk.ok("scan.pdf", "-o", "json").json
    pages = desk.here.ok("get", record["job_id"], "-o", "json").json["pages"]
    assert pages["retry_count"] == 0


@pytest.mark.slow
def test_a_folder_that_is_watched_gives_what_comes_when_it_rests(desk: Desk) -> None:
    desk.put("in/one.pdf", 1, "One {}")
    two = desk.put("two.pdf", 1, "Two {}").read_bytes()
    with desk.started("in", "--watch", "-f", "txt") as process:
        desk.until(lambda: "in/one.txt" in desk.there())
        with (desk.folder / "in" / "two.pdf").open("wb") as growing:
            for place in range(0, len(two), 200):
                growing.write(two[place : place + 200])
                growing.flush()
                time.sleep(0.25)
        assert "in/two.txt" not in desk.there()
        desk.until(lambda: "in/two.txt" in desk.there())
        desk.put("in/one.pdf", 1, "Uno {}")
        desk.until(lambda: "Uno" in desk.read("in/one.txt"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert "interrupted" not in err
    assert "failed" not in err


@pytest.mark.slow
def test_two_runs_at_once_make_one_set_of_calls_and_both_end_well(desk: Desk) -> None:
    names = [f"in/{number}.pdf" for number in range(4)]
    for number, name in enumerate(names):
        desk.put(name, 3, f"Doc {number} page {{}}")
    with desk.started("in") as one, desk.started(*names) as two:
        errors = [one.communicate(timeout=100)[1], two.communicate(timeout=100)[1]]
    assert (one.returncode, two.returncode) == (0, 0), errors
    assert desk.calls == ["1-2"] * 4 + ["3-3"] * 4
    assert {f"in/{number}.md" for number in range(4)} <= desk.there()


@pytest.mark.slow
def test_what_waits_for_a_limit_that_is_paused_is_told_why(desk: Desk) -> None:
    desk.put("scan.pdf", 2)
    desk.here.ok("limits", "set", "api", "--in-flight", "4")
    desk.here.ok("limits", "pause", "api")
    leader, follower = pty.openpty()
    with subprocess.Popen(
        command("scan.pdf", "-o", "ndjson", processor="paid"),
        cwd=desk.folder,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
    ) as process:
        os.close(follower)
        try:
            shown = read_until(leader, "paused")
            assert desk.calls == []
            desk.here.ok("limits", "resume", "api")
            # The terminal is read first: a full one holds up whoever draws on it.
            shown += read_until(leader, "scan.md")
            assert process.stdout is not None
            (line,) = process.stdout.read().splitlines()
            assert process.wait(60) == 0
        finally:
            process.kill()
            os.close(leader)
    assert json.loads(line)["status"] == "completed"
    assert re.search(r"all .*━.*%.*limit 'api' (is|was) paused", shown), shown
    assert "scan.pdf: 2 pages -> scan.md, scan.json" in shown


def read_until(terminal: int, text: str) -> str:
    seen = ""
    ends_at = time.monotonic() + 30
    while text not in seen:
        assert time.monotonic() < ends_at, seen[-500:]
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # the other end was closed
                assert text in seen, seen[-500:]
    return seen


@pytest.mark.slow
def test_a_file_that_comes_while_its_document_is_read_is_not_written_over(desk: Desk) -> None:
    desk.put("scan.pdf", 1)
    desk.tell("sleep", 1)
    with desk.started("scan.pdf", "-o", "json") as process:
        desk.until(lambda: len(desk.calls) == 1)
        desk.write("scan.md", b"my own notes")
        out, err = process.communicate(timeout=100)
    assert process.returncode == 1, err
    (record,) = json.loads(out)
    assert (record["status"], record["error_class"]) == ("unwritten", "conflict")
    assert (desk.read("scan.md"), desk.there()) == ("my own notes", {"scan.pdf", "scan.md"})


@pytest.mark.slow
def test_a_reader_that_has_heard_enough_does_not_keep_documents_from_being_read(desk: Desk) -> None:
    for number in range(3):
        desk.put(f"in/{number}.pdf", 1, f"Doc {number} page {{}}")
    with desk.started("in", "-o", "ndjson", "-f", "txt") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 0
    assert {f"in/{number}.txt" for number in range(3)} <= desk.there()


@pytest.mark.slow
def test_ndjson_prints_each_document_as_it_ends(desk: Desk) -> None:
    desk.put("short.pdf", 1)
    desk.put("long.pdf", 1, "Long {}")
    desk.ok("short.pdf")
    desk.tell("sleep", 60)
    with desk.started("long.pdf", "short.pdf", "-o", "ndjson") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["file"] == "short.pdf"
