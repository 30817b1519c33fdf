"""The pool: answers, refusals, and what becomes of children that crash, hang, or use too much."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import tempfile

import pytest

from forebay.engine.signals import Permanent, Retry
from forebay.processors.parser_child import MAX_REPLY, Bounds, ParserChild
from forebay.processors.parsers import Parsers
from tests.processors.ground import BOUNDS, VERBS, alive, failing, opened, till, until, with_parsers


async def _pid(parsers: Parsers) -> int:
    about = await parsers.call("about", {})
    assert isinstance(about, dict)
    assert isinstance(about["pid"], int)
    return about["pid"]


def test_files_are_read_and_written_from_their_beginning_and_stay_open_here() -> None:
    async def scenario(parsers: Parsers) -> None:
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
            source.write(b"water")
            source.flush()
            before = await parsers.call("about", {})
            for _ in range(70):  # more than a child may have open
                assert await parsers.call("upper", {}, files=[source.fileno(), target.fileno()]) == 5
            assert os.pread(target.fileno(), 99, 0) == b"WATER"
            after = await parsers.call("about", {})
        assert before == after

    with_parsers(scenario)


def test_a_large_request_and_a_reply_just_below_the_bound_pass() -> None:
    async def scenario(parsers: Parsers) -> None:
        value = {"text": "ü" * 300_000}
        assert await parsers.call("echo", value) == value
        size = MAX_REPLY - 100
        assert await parsers.call("large", {"bytes": size}) == "x" * size

    with_parsers(scenario)


def test_what_a_verb_refuses_is_permanent_and_its_child_goes_on() -> None:
    async def scenario(parsers: Parsers) -> None:
        pid = await _pid(parsers)
        with pytest.raises(Permanent, match=r"page 3 \\x1b") as caught:
            await parsers.call("refuse", {"as": "encrypted", "text": "page 3 \x1b"})
        assert caught.value.error_class == "encrypted"
        with pytest.raises(Permanent) as caught:
            await parsers.call("fail", {})
        assert caught.value.error_class == "bug"
        assert "\x1b" not in caught.value.text
        assert "def fail" not in caught.value.text
        assert "RuntimeError" in caught.value.__notes__[0]
        assert "\x1b" not in caught.value.__notes__[0]
        with pytest.raises(Permanent, match="KeyError"):
            await parsers.call("no_such_verb", {})
        assert await _pid(parsers) == pid

    with_parsers(scenario)


def test_a_child_may_not_name_a_class_that_speaks_of_more_than_its_document() -> None:
    async def scenario(parsers: Parsers) -> None:
        assert await failing(parsers.call("refuse", {"as": "auth", "text": "stop the lane"})) == "parser_crashed"

    with_parsers(scenario)


@pytest.mark.parametrize(
    ("verb", "arguments", "error_class"),
    [
        ("crash", {}, "parser_crashed"),
        ("die", {"signal": "SIGABRT"}, "parser_crashed"),
        ("leave", {}, "parser_crashed"),
        ("hang_up", {}, "parser_crashed"),
        ("say", {"hex": b"what is this?".hex()}, "parser_crashed"),
        ("say", {"hex": (struct.pack(">I", 3) + b"{no").hex()}, "parser_crashed"),
        ("say", {"hex": (struct.pack(">I", 2) + b"\xff\xfe").hex()}, "parser_crashed"),
        ("say", {"hex": (struct.pack(">I", 2) + b"[]").hex()}, "parser_crashed"),
        ("say", {"hex": (struct.pack(">I", 2) + b"{}").hex()}, "parser_crashed"),
        ("say", {"hex": (struct.pack(">I", 100_000) + b"[" * 100_000).hex()}, "parser_crashed"),
        ("say", {"hex": (2 * (struct.pack(">I", 12) + b'{"answer":1}')).hex()}, "parser_crashed"),
        ("large", {"bytes": MAX_REPLY}, "parser_crashed"),
        ("allocate", {"bytes": 4 << 30}, "parser_memory"),
    ],
)
def test_a_child_that_crashes_or_talks_rubbish_is_replaced(
    verb: str, arguments: dict[str, object], error_class: str
) -> None:
    async def scenario(parsers: Parsers) -> None:
        pid = await _pid(parsers)
        given = json.loads(json.dumps(arguments))
        assert await failing(parsers.call(verb, given, timeout_s=20)) == error_class
        assert await _pid(parsers) != pid
        until(lambda: not alive(pid))

    with_parsers(scenario)


@pytest.mark.slow
def test_c_code_that_aborts_for_want_of_memory_is_told_from_a_crash() -> None:
    async def scenario(parsers: Parsers) -> None:
        assert await failing(parsers.call("abort_when_full", {})) == "parser_memory"

    with_parsers(scenario, bounds=Bounds(memory_mb=1024))


def test_an_output_file_larger_than_allowed_is_refused() -> None:
    async def scenario(parsers: Parsers) -> None:
        with tempfile.TemporaryFile() as target:
            assert await parsers.call("write", {"megabytes": 2}, files=[target.fileno()]) == 2 << 20
            with pytest.raises(Permanent) as caught:
                await parsers.call("write", {"megabytes": 3}, files=[target.fileno()])
            assert caught.value.error_class == "decompression_limit"
            assert os.fstat(target.fileno()).st_size == 2 << 20

    with_parsers(scenario)


@pytest.mark.slow
def test_cpu_time_is_bounded_for_each_task_and_not_for_their_sum() -> None:
    async def scenario(parsers: Parsers) -> None:
        for count in (1, 2, 3, 4):
            burnt = await parsers.call("burn", {"seconds": 0.6})
            assert isinstance(burnt, dict)
            assert isinstance(burnt["used_s"], float)
            assert burnt["used_s"] > count * 0.6  # by one and the same child, and at last more than a task may use
        assert await failing(parsers.call("burn", {"seconds": 30}, timeout_s=30)) == "parser_timeout"

    with_parsers(scenario, bounds=Bounds(cpu_s=1))


def test_a_task_that_only_waits_is_ended_by_the_clock() -> None:
    async def scenario(parsers: Parsers) -> None:
        pid = await _pid(parsers)
        assert await failing(parsers.call("sleep", {"seconds": 30}, timeout_s=0.2)) == "parser_timeout"
        assert await _pid(parsers) != pid
        assert not alive(pid)

    with_parsers(scenario)


def test_cancelling_a_call_kills_its_child_and_the_next_call_works() -> None:
    async def scenario(parsers: Parsers) -> None:
        pid = await _pid(parsers)
        with tempfile.TemporaryFile() as sign:
            call = asyncio.ensure_future(parsers.call("sleep", {"seconds": 30}, files=[sign.fileno()]))
            await till(lambda: os.fstat(sign.fileno()).st_size)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        until(lambda: not alive(pid))
        assert await _pid(parsers) != pid

    with_parsers(scenario)


def test_two_calls_run_at_once_and_a_third_waits_for_a_child() -> None:
    async def scenario(parsers: Parsers) -> None:
        with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as other:
            files = [one.fileno(), other.fileno()]
            first = asyncio.ensure_future(parsers.call("meet", {}, files=files))
            second = asyncio.ensure_future(parsers.call("meet", {}, files=files[::-1]))
            third = asyncio.ensure_future(_pid(parsers))
            pids = {await first, await second}
            assert len(pids) == 2
            assert await third in pids

    with_parsers(scenario, size=2)


@pytest.mark.slow
def test_short_calls_share_one_child_and_long_ones_get_a_second() -> None:
    async def scenario(parsers: Parsers) -> None:
        await _pid(parsers)
        assert len(set(await asyncio.gather(*(_pid(parsers) for _ in range(4))))) == 1
        await asyncio.gather(*(parsers.call("sleep", {"seconds": 1}) for _ in range(2)))
        assert len(parsers._children) == 2

    with_parsers(scenario, size=2)


def test_a_child_that_was_started_before_is_the_first_and_bound_like_any_other() -> None:
    async def scenario() -> None:
        first = ParserChild(VERBS)
        parsers = Parsers(1, BOUNDS, verbs=VERBS, first=first)
        assert await _pid(parsers) == first.process.pid
        with tempfile.TemporaryFile() as file, pytest.raises(Permanent, match="larger than a file may be"):
            await parsers.call("write", {"megabytes": BOUNDS.file_mb + 1}, files=[file.fileno()])
        await parsers.aclose()
        assert not alive(first.process.pid)

    asyncio.run(scenario())


def test_a_child_that_nobody_needed_is_ended_by_who_started_it() -> None:
    child = ParserChild(VERBS)
    child.end()
    child.end()
    assert not alive(child.process.pid)
    child = ParserChild(VERBS)
    asyncio.run(Parsers(1, verbs=VERBS, first=child).aclose())
    assert not alive(child.process.pid)


def test_nothing_starts_before_the_first_call_and_an_idle_child_that_died_is_not_given_a_task() -> None:
    async def scenario(parsers: Parsers) -> None:
        assert not parsers._children
        pid = await _pid(parsers)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))
        assert await _pid(parsers) != pid

    with_parsers(scenario)


def test_closing_ends_idle_and_working_children() -> None:
    async def scenario() -> None:
        parsers = Parsers(2, verbs=VERBS)
        with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as other:
            files = [one.fileno(), other.fileno()]
            pids = await asyncio.gather(
                parsers.call("meet", {}, files=files), parsers.call("meet", {}, files=files[::-1])
            )
        working = asyncio.ensure_future(parsers.call("sleep", {"seconds": 30}))
        await asyncio.sleep(0.1)
        await parsers.aclose()
        assert not any(alive(pid) for pid in pids if isinstance(pid, int))
        with pytest.raises(Retry) as caught:
            await working
        assert caught.value.error_class == "service_unavailable"
        with pytest.raises(Retry) as caught:
            await parsers.call("echo", {})
        assert caught.value.error_class == "service_unavailable"
        await parsers.aclose()

    asyncio.run(scenario())


def test_verbs_that_cannot_be_loaded_are_told_and_may_be_tried_again() -> None:
    async def scenario() -> None:
        parsers = Parsers(1, verbs="tests.processors.nowhere:VERBS")
        with pytest.raises(Retry, match="nowhere") as caught:
            await parsers.call("echo", {})
        assert caught.value.error_class == "service_unavailable"
        await parsers.aclose()

    asyncio.run(scenario())


def test_what_the_verbs_need_is_loaded_once() -> None:
    async def scenario() -> None:
        async with opened() as parsers:
            for _ in range(2):
                about = await parsers.call("about", {})
                assert isinstance(about, dict)
                assert about["warmed"] == ["once"]

    asyncio.run(scenario())
