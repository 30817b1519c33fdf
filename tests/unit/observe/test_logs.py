from __future__ import annotations

import io
import json
import logging
import re
import time
from collections.abc import Iterator

import pytest

from forebay.observe import emit, logs, redact
from forebay.observe.events import EVENTS
from forebay.observe.logs import configure, hide

CANARY = "kanarienvogel"
HIDDEN = "verborgen-7f3a"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(redact, "_hidden", ())
    monkeypatch.setattr(logs, "_bound", {})
    monkeypatch.delenv("NO_COLOR", raising=False)
    root, own = logging.getLogger(), logging.getLogger("forebay")
    before = root.handlers[:], root.level, own.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


def test_json_lines_have_the_fields_flat_beside_the_event() -> None:
    out = io.StringIO()
    configure("info", "auto", out)
    emit("task_fenced", task_id="t", kind="k", token=3)
    line = json.loads(out.getvalue())
    moment = line.pop("timestamp")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", moment)
    assert moment.startswith(time.strftime("%Y-", time.gmtime()))
    assert line == {
        "level": "warning",
        "logger": "forebay",
        "event": "task_fenced",
        "task_id": "t",
        "kind": "k",
        "token": 3,
    }


def test_what_is_bound_is_on_every_line_until_it_is_taken_away() -> None:
    out = io.StringIO()
    configure("info", "json", out)
    logs.bind(worker="w1")
    emit("tasks_rescued", count=1)
    logging.getLogger("another").warning("of a library")
    logs.bind(worker=None)
    emit("tasks_rescued", count=2)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line.get("worker") for line in lines] == ["w1", "w1", None]
    assert lines[0]["count"] == 1


def test_a_terminal_gets_coloured_lines() -> None:
    out = Terminal()
    configure("info", "auto", out)
    emit("pruned", count=3)
    assert "\x1b[" in out.getvalue()
    assert "pruned" in out.getvalue()


def test_no_colours_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    configure("info", "console", file)
    emit("pruned", count=3)
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    configure("info", "auto", terminal)
    emit("pruned", count=3)
    for text in (file.getvalue(), terminal.getvalue()):
        assert "count=3" in text
        assert "\x1b" not in text


def test_json_is_possible_on_a_terminal() -> None:
    out = Terminal()
    configure("info", "json", out)
    emit("pruned", count=3)
    assert json.loads(out.getvalue())["count"] == 3


def test_stderr_is_the_usual_place(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    emit("pruned", count=3)
    assert capsys.readouterr().err.count("pruned") == 1


def test_configuring_again_replaces_the_former_log() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure("info", "json", first)
    configure("warning", "json", second)
    emit("pruned", count=3)
    emit("tasks_rescued", count=1)
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


@pytest.mark.parametrize(("level", "seen"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 0)])
def test_the_level_decides_what_is_seen(level: str, seen: int) -> None:
    out = io.StringIO()
    configure(level, "json", out)  # type: ignore[arg-type]  # a parameter of the test
    emit("child_started", pid=1)
    emit("pruned", count=3)
    emit("tasks_rescued", count=1)
    assert out.getvalue().count("\n") == seen


def test_other_libraries_are_formatted_from_warnings_on() -> None:
    out = io.StringIO()
    configure("debug", "json", out)
    logging.getLogger("botocore").debug("Authorization: %s", CANARY)
    logging.getLogger("other").warning("slow: %s", "http://u:p@h/x")
    line = json.loads(out.getvalue())
    assert (line["logger"], line["level"], line["event"]) == ("other", "warning", "slow: http://***@h/x")


def test_fields_cannot_pose_as_what_the_log_says_itself() -> None:
    out = io.StringIO()
    configure("info", "json", out)
    emit("pruned", count=1, event="x", level="error", logger="root", timestamp="never", exception="none")
    line = json.loads(out.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("pruned", "info", "forebay")
    assert (line["event_"], line["level_"], line["exception_"]) == ("x", "error", "none")


def test_no_value_can_begin_a_line_or_steer_the_terminal() -> None:
    out = io.StringIO()
    configure("info", "console", out)
    forged = "x\n2026-01-01T00:00:00.000Z [info] fine\r\x1b[2J\u2028\u202e\0"
    emit("task_progress", task_id="t", kind="k", share=0.5, note=forged)
    emit("pruned", count=1, **{forged: {"deep": [forged]}})
    logging.getLogger("other" + forged).warning(forged)
    logging.getLogger("other").error("failed", exc_info=ValueError(forged))
    text = out.getvalue()
    assert text.replace("\n", "").isprintable()
    lines = [line for line in text.splitlines() if not line.startswith("  ")]
    assert len(lines) == 4
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z \[(info|warning|error) +\] ", line) for line in lines)
    assert sum("fine" in line for line in text.splitlines()) == 4


def test_tracebacks_are_kept_and_masked() -> None:
    for form in ("json", "console"):
        out = io.StringIO()
        configure("info", form, out)
        error = ValueError(f"http://u:{CANARY}@h")
        logging.getLogger("other").warning("failed", exc_info=error, stack_info=True)
        assert "ValueError: http://***@h" in out.getvalue()
        assert "test_tracebacks_are_kept_and_masked" in out.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_reaches_the_log_with_any_event(form: str) -> None:
    out = io.StringIO()
    hide(HIDDEN)
    configure("debug", form, out)  # type: ignore[arg-type]  # a parameter of the test
    values: list[object] = [
        f"postgresql://ada:{CANARY}@host/db",
        f"failed at redis://:{CANARY}@host?token={CANARY} twice",
        f"before{HIDDEN}after",
        {"password": CANARY, "deep": [f"s3://{CANARY}@b", HIDDEN]},
        ValueError(f"http://{CANARY}@h {HIDDEN}"),
        [HIDDEN.encode()],
    ]
    for name, event in EVENTS.items():
        for value in values:
            emit(name, **dict.fromkeys(event.fields, value), api_key=CANARY, authorization=CANARY)
    text = out.getvalue()
    assert text.count("\n") == len(EVENTS) * len(values)
    assert text.count("***") > len(EVENTS) * len(values)
    assert CANARY not in text
    assert HIDDEN not in text
