from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from forebay.model.outcome import Completed
from forebay.stores.sqlite import connection, files
from tests.cli.ground import Ground


def get(here: Ground, identifier: str) -> dict[str, object]:
    found: dict[str, object] = here.ok("get", identifier, "-o", "json").json
    return found


def test_submit_prints_the_id_and_nothing_else(here: Ground) -> None:
    answer = here.ok("submit", "-t", "call_api", "-i", '{"url": "x"}', "--max-reschedules", "100")
    found = get(here, answer.out.strip())
    assert (found["kind"], found["payload"], found["max_reschedules"]) == ("call_api", {"url": "x"}, 100)


def test_every_option_reaches_the_task(here: Ground) -> None:
    before = time.time()
    options = "--priority -5 --delay 60 --deadline +100 --max-retries 7 --timeout 9 --tenant ann --tag a --tag b"
    answer = here.ok("submit", "--kind", "add", *options.split(), "--idempotency-key", "k", "--fairness-key", "f")
    found = get(here, answer.out.strip())
    assert found["priority"] == -5
    assert (found["wait_reason"], found["tenant"], found["tags"]) == ("scheduled", "ann", ["a", "b"])
    assert (found["max_retries"], found["timeout_s"], found["idempotency_key"]) == (7, 9.0, "k")
    assert str(found["deadline_at"]) > str(found["available_at"]) > str(found["created_at"])
    assert before < time.time()


def test_the_payload_may_come_from_a_file_or_from_stdin(here: Ground) -> None:
    (here.home.parent / "in.json").write_text("\ufeff[1, 2]", encoding="utf-8")
    assert get(here, here.ok("submit", "-t", "add", "-i", "@in.json").out.strip())["payload"] == [1, 2]
    assert get(here, here.ok("submit", "-t", "add", "-i", "-", stdin=b'"ok"').out.strip())["payload"] == "ok"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("{", "not JSON"),
        ("NaN", "JSON has no NaN"),
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ('"\\u0000"', "NUL"),
        ("[" * 40 + "]" * 40, "nested deeper"),
        ("@.", "cannot be read"),
        ("-", "There is nothing on standard input"),
    ],
)
def test_a_bad_payload_exits_2_and_stores_nothing(given: str, complaint: str, here: Ground) -> None:
    answer = here.run("submit", "-t", "add", "-i", given)
    assert answer.code == 2
    assert complaint in answer.err
    assert not here.ledger.exists()


@pytest.mark.parametrize("option", [("--start-at", "2030-01-01T10:00:00"), ("--deadline", "soon"), ("--delay", "-1")])
def test_a_time_that_is_none_exits_2(option: tuple[str, str], here: Ground) -> None:
    assert here.run("submit", "-t", "add", *option).code == 2


def test_bulk_submits_one_task_a_line(here: Ground) -> None:
    answer = here.ok("submit", "-t", "add", "--bulk", "-", stdin=b'{"n": 1}\n\n{"n": 2}\r\n')
    assert [get(here, each)["payload"] for each in answer.lines] == [{"n": 1}, {"n": 2}]


def test_a_bad_line_is_named_and_nothing_is_submitted(here: Ground) -> None:
    answer = here.run("submit", "-t", "add", "--bulk", "-", stdin=b'{"n": 1}\n\n{"n": Infinity}\n')
    assert answer.code == 2
    assert "Line 3:" in answer.err
    assert "Nothing was submitted." in answer.err
    assert not here.ledger.exists()


def test_a_key_makes_bulk_safe_to_repeat(here: Ground) -> None:
    first = here.ok("submit", "-t", "add", "--bulk", "-", "--idempotency-key", "k", stdin=b"1\n2\n")
    again = here.ok("submit", "-t", "add", "--bulk", "-", "--idempotency-key", "k", stdin=b"1\n2\n")
    assert again.out == first.out
    assert "2 of 2 submitted before" in again.err


def test_the_same_key_with_another_payload_exits_1(here: Ground) -> None:
    here.ok("submit", "-t", "add", "-i", "1", "--idempotency-key", "k")
    assert here.run("submit", "-t", "add", "-i", "2", "--idempotency-key", "k").code == 1


def test_json_says_what_became_of_it(here: Ground) -> None:
    assert here.ok("submit", "-t", "add", "-o", "json").json["outcome"] == "created"
    assert len(here.ok("submit", "-t", "add", "--bulk", "-", "-o", "json", stdin=b"1\n2\n").json) == 2


def test_waiting_in_vain_exits_6(here: Ground) -> None:
    answer = here.run("submit", "-t", "add", "--wait", "--wait-timeout", "0.05")
    assert answer.code == 6
    assert len(answer.lines) == 1


def test_waiting_tells_how_it_ended(here: Ground) -> None:
    done, failed = (here.ok("submit", "-t", "work", "--idempotency-key", key).out.strip() for key in "ab")
    with here.worker() as worker:
        for task in worker.claim(2):
            if task.id == done:
                worker.settle(task, Completed(result_json="3"))
            else:
                worker.fail(task)
    again = here.run("submit", "-t", "work", "--idempotency-key", "a", "--wait", "-o", "json")
    assert (again.code, again.json["result"]) == (0, 3)
    again = here.run("submit", "-t", "work", "--idempotency-key", "b", "--wait")
    assert again.code == 1
    assert f"{failed} failed: internal_error: no pages" in again.err


@pytest.mark.parametrize("given", [("-i", "@missing.json"), ("--bulk", "missing.json")])
def test_a_file_that_is_not_there_exits_4_and_stores_nothing(given: tuple[str, str], here: Ground) -> None:
    answer = here.run("submit", "-t", "add", *given)
    assert (answer.code, "There is no file 'missing.json'" in answer.err) == (4, True)
    assert not here.ledger.exists()


@pytest.mark.parametrize("options", [("--wait", "--wait-timeout", "-1"), ("--wait-timeout", "5")])
def test_a_wait_that_cannot_be_is_refused_before_anything_is_stored(options: tuple[str, ...], here: Ground) -> None:
    answer = here.run("submit", "-t", "add", *options)
    assert (answer.code, "--wait-timeout" in answer.err) == (2, True)
    assert not here.ledger.exists()


def test_input_and_bulk_exclude_each_other(here: Ground) -> None:
    assert here.run("submit", "-t", "add", "-i", "1", "--bulk", "-").code == 2


BULK = b"".join(b'{"n": %d, "filler": "%s"}\n' % (n, b"x" * 1000) for n in range(3000))


@contextmanager
def little_room(pages: int) -> Iterator[None]:
    """A database that has as many pages has no room left, as on a full disk."""

    def connect(path: Path, *, vfs: str | None = None) -> apsw.Connection:
        db = connection.connect(path, vfs=vfs)
        db.execute(f"PRAGMA max_page_count = {pages}")
        return db

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "connect", connect)
        yield


@contextmanager
def short_files(most: int) -> Iterator[None]:
    """Files of this process stop growing, which SQLite takes for a disk that fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("form", ["table", "ndjson", "json"])
def test_a_bulk_on_a_disk_that_fills_up_says_what_is_stored(form: str, here: Ground) -> None:
    with little_room(600):
        broken = here.run("submit", "-t", "add", "--bulk", "-", "-o", form, stdin=BULK)
    assert broken.code == 5
    with here.app() as app:
        stored = sum(app.ledger.count().values())
    assert 0 < stored < 3000
    assert len(broken.json if form == "json" else broken.lines) == stored
    assert f"{stored} of 3000 are stored" in broken.err
    assert "Nothing was changed" not in broken.err
    assert f"from line {stored + 1} on" in broken.err
    rest = here.ok("submit", "-t", "add", "--bulk", "-", stdin=b"".join(BULK.splitlines(keepends=True)[stored:]))
    assert len(rest.lines) == 3000 - stored


def test_a_bulk_with_a_key_goes_on_after_what_is_stored(here: Ground) -> None:
    with little_room(600):
        broken = here.run("submit", "-t", "add", "--bulk", "-", "--idempotency-key", "k", stdin=BULK)
    assert broken.code == 5
    assert "same --idempotency-key" in broken.err
    again = here.ok("submit", "-t", "add", "--bulk", "-", "--idempotency-key", "k", stdin=BULK)
    assert again.lines[: len(broken.lines)] == broken.lines
    assert len(set(again.lines)) == 3000
    assert f"{len(broken.lines)} of 3000 submitted before" in again.err


def test_a_bulk_that_is_refused_is_not_said_to_be_stored(here: Ground) -> None:
    for given in (["-t", "no kind"], ["-t", "add", "--priority", "101"]):
        one = here.run("submit", *given, "-i", "1")
        refused = here.run("submit", *given, "--bulk", "-", stdin=b"1\n2\n")
        assert (refused.code, refused.err) == (2, one.err)


def test_a_bulk_says_what_it_does_not_know(here: Ground) -> None:
    with short_files(2_500_000):
        broken = here.run("submit", "-t", "add", "--bulk", "-", stdin=BULK)
    assert broken.code == 5
    stored = len(broken.lines)
    assert f"{stored} of 3000 are stored; their ids are printed. Lines {stored + 1} to {stored + 500} may" in broken.err


def test_a_bulk_of_which_nothing_is_stored_says_so(here: Ground) -> None:
    here.ok("submit", "-t", "add")
    with little_room(50):
        broken = here.run("submit", "-t", "add", "--bulk", "-", stdin=BULK)
    assert (broken.code, broken.out) == (5, "")
    assert "Nothing was changed" in broken.err
