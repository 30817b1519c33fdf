"""Limited kinds: line before task, slot at the call, and what the end of a call says to everybody else."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay import Context, Forebay
from forebay.engine import late
from forebay.engine.registry import Kind
from forebay.errors import BadInput
from forebay.limits import Limiter, Slot, Usage
from forebay.model.exchange import Reply
from forebay.model.limit import Limit
from forebay.model.task import Status, Task
from tests.engine.ground import TASK, Ground, run

LIMITED = str(Path(__file__).with_name("limited.py"))
Make = Callable[..., Ground]


@pytest.fixture
def here(ground: Make) -> Ground:
    made = ground(handlers=LIMITED)
    made.app.limits.tell([])
    return made


@pytest.fixture
def held(here: Ground) -> Iterator[list[Slot]]:
    """Every slot of the API, held by somebody else until they are released."""
    with Limiter(f"sqlite:///{here.folder}/ledger.db-limits.db") as other:
        slots = [other.slot("api") for _ in range(2)]
        for slot in slots:
            slot.take()
        yield slots
        release(slots)


def release(slots: list[Slot]) -> None:
    for slot in slots:
        slot.release()


def most_at_once(notes: list[str]) -> int:
    running = most = 0
    for each in notes:
        running += {"begin": 1, "end": -1}.get(each, 0)
        most = max(most, running)
    return most


def usage(here: Ground, limit: str = "api") -> Usage:
    return here.app.limiter.usage(limit)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["call", "call_blocking", "several", "several_blocking"])
def test_no_more_calls_run_at_once_than_the_limit_allows_though_there_is_room_for_more(here: Ground, kind: str) -> None:
    tasks = here.app.submit_many(kind, [{"meets": True} for _ in range(8)], timeout_s=30)

    async def scenario() -> None:
        async with here.worker(concurrency=8, processes=4):
            for task in tasks:
                assert (await here.ended(task.id)).status is Status.COMPLETED

    run(scenario)
    assert most_at_once(here.notes) == 2
    assert usage(here).in_flight == 0


@pytest.mark.slow
def test_a_saturated_limit_costs_the_ledger_nothing_and_other_lanes_flow_on(here: Ground, held: list[Slot]) -> None:
    waiting = here.app.submit_many("call", [{} for _ in range(20)])

    async def scenario() -> None:
        async with here.worker(concurrency=4):
            await here.until(lambda: sum(holder.waiting for holder in usage(here).holders) > 0)
            await asyncio.sleep(1.5)  # until whatever was claimed in the hope of a slot is handed back
            claims = sum(here.task(task.id).claim_count for task in waiting)
            assert claims <= 1
            free = here.app.submit_many("free", [None] * 50)
            for task in free:
                await here.ended(task.id)
            await asyncio.sleep(1.0)
            assert sum(here.task(task.id).claim_count for task in waiting) == claims
            assert here.task(waiting[-1].id).retry_count == 0
            release(held)
            for task in waiting:
                await here.ended(task.id)

    run(scenario)
    assert most_at_once(here.notes) == 2


def test_the_kind_with_the_slot_runs_beside_long_ones_that_have_none(here: Ground) -> None:
    """However many tasks without a limit are ready, those with one get their turn."""
    here.app.submit_many("free", [None] * 3000)
    task = here.app.submit("call")

    async def scenario() -> None:
        async with here.worker(concurrency=2):
            await here.ended(task.id)
            assert here.app.ledger.count().get(("free", Status.PENDING), 0) > 0

    run(scenario)


def test_a_call_takes_its_units_of_the_window_and_waits_for_them(here: Ground) -> None:
    tasks = here.app.submit_many("pages", [{"pages": 4}, {"pages": 5}, {"pages": 2}])

    async def scenario() -> None:
        async with here.worker():
            await here.ended(tasks[0].id)
            await here.ended(tasks[1].id)
            await here.until(lambda: sum(holder.waiting for holder in usage(here, "pages").holders) > 0)
            assert here.task(tasks[2].id).finished_at is None

    run(scenario)
    assert here.notes == ["pages 4", "pages 5"]
    assert usage(here, "pages").windows[0].used == 9


def test_units_that_never_fit_and_units_that_cannot_be_told_fail_the_task_with_the_reason(here: Ground) -> None:
    never = here.app.submit("pages", {"pages": 11})
    wrong = here.app.submit("pages", {"sheets": 1})
    ended: list[Task] = []

    async def scenario() -> None:
        async with here.worker():
            for task in (never, wrong):
                found = await here.ended(task.id)
                assert isinstance(found, Task)
                ended.append(found)

    run(scenario)
    assert [task.status for task in ended] == [Status.FAILED, Status.FAILED]
    assert "never fits into 10 pages per 60 s" in (ended[0].error_text or "")
    assert "sheets" in (ended[1].error_text or "")


def test_a_function_for_units_that_would_end_the_worker_ends_its_task_alone(here: Ground) -> None:
    task, other = here.app.submit("leaves", {}), here.app.submit("call")

    async def scenario() -> None:
        async with here.worker():
            assert (await here.ended(task.id)).status is Status.FAILED
            assert (await here.ended(other.id)).status is Status.COMPLETED

    run(scenario)


def test_who_submits_without_a_handler_learns_the_limit_from_the_workers(here: Ground, held: list[Slot]) -> None:
    with Forebay(f"sqlite:///{here.folder}/ledger.db", settings=here.app.settings) as stranger:
        before = stranger.submit("call")
        assert here.task(before.id).lane == "call"

        async def scenario() -> None:
            async with here.worker():
                await here.until(here.app.ledger.sessions)
                after = stranger.submit("call")
                assert here.task(after.id).lane == "call@api"
                await here.until(lambda: stranger.standing(before.id).limit == "api")
                await here.until(lambda: stranger.standing(before.id).wait_reason == "limit")
                release(held)
                await here.ended(before.id)
                await here.ended(after.id)

        run(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["answers", "answers_inside"])
def test_a_429_cools_the_limit_down_for_everybody_and_burns_no_retry(here: Ground, kind: str) -> None:
    task = here.app.submit(kind, {"error_class": "rate_limited"})
    seen: list[Usage] = []

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: here.task(task.id).reschedule_count == 1)
            seen.append(usage(here))
            await here.ended(task.id)

    run(scenario)
    assert seen[0].blocked_by == ("cooldown",)
    assert seen[0].level == 1
    assert (here.task(task.id).retry_count, here.task(task.id).status) == (0, Status.COMPLETED)


def test_what_the_provider_says_to_wait_is_how_long_everybody_waits(here: Ground) -> None:
    task = here.app.submit("answers", {"error_class": "rate_limited", "delay_s": 90.0})

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: here.task(task.id).reschedule_count == 1)
            await here.until(lambda: usage(here).blocked_by == ("cooldown",))

    run(scenario)
    assert 60.0 < (usage(here).eta_s or 0.0) <= 90.0 * 1.2


def test_a_wait_beyond_all_reason_is_cut_to_the_limits_longest_for_the_task_too(here: Ground) -> None:
    task = here.app.submit("answers", {"error_class": "rate_limited", "delay_s": 1e9})

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: here.task(task.id).reschedule_count == 1)

    run(scenario)
    assert here.task(task.id).available_at - time.time() <= 600
    assert (usage(here).eta_s or 0.0) <= 600


def test_failures_in_a_row_open_the_breaker(here: Ground) -> None:
    here.app.submit("unwell")

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: "breaker" in usage(here).blocked_by)

    run(scenario)


def test_a_quota_that_is_used_up_parks_the_limit_until_it_is_there_again(here: Ground) -> None:
    task = here.app.submit("answers", {"error_class": "quota_exhausted", "delay_s": 3600.0})

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: usage(here).blocked_by == ("quota",))

    run(scenario)
    assert here.task(task.id).retry_count == 0
    assert (usage(here).eta_s or 0.0) > 3500


def test_a_key_that_is_refused_pauses_the_limit_until_somebody_resumes_it(here: Ground) -> None:
    task = here.app.submit("answers", {"error_class": "auth", "delay_s": 0.0})

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: usage(here).blocked_by == ("paused",))
            assert here.task(task.id).finished_at is None
            here.app.limiter.resume("api")
            await here.ended(task.id)

    run(scenario)
    assert here.task(task.id).retry_count == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["twice", "twice_blocking"])
def test_a_second_slot_of_a_limit_that_is_held_is_refused_as_a_mistake(here: Ground, kind: str) -> None:
    task = here.app.submit(kind)

    async def scenario() -> None:
        async with here.worker():
            await here.ended(task.id)

    run(scenario)
    assert "holds a slot of 'api' already" in (here.task(task.id).error_text or "")
    assert here.notes == []
    assert usage(here).in_flight == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["impatient", "impatient_blocking"])
def test_no_slot_in_time_brings_the_task_back_later_with_no_retry_burnt(
    here: Ground, held: list[Slot], kind: str
) -> None:
    task = here.app.submit(kind)

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: here.task(task.id).reschedule_count == 1)
            release(held)
            await here.ended(task.id, within_s=30)

    run(scenario)
    assert here.app.wait(task.id).result == "served"
    assert here.task(task.id).retry_count == 0


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "timeout_s"), [("asks", 1.0), ("asks_blocking", 2.0)])
def test_the_clock_of_an_attempt_stands_still_while_it_waits_for_a_slot(
    here: Ground, held: list[Slot], kind: str, timeout_s: float
) -> None:
    task = here.app.submit(kind)

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: here.task(task.id).status is Status.RUNNING)
            await asyncio.sleep(timeout_s + 0.5)
            assert here.task(task.id).status is Status.RUNNING
            release(held)
            await here.ended(task.id)

    run(scenario)
    assert here.outcomes(task.id) == ["completed"]
    left_s = here.app.wait(task.id).result
    assert isinstance(left_s, float)
    assert timeout_s / 2 < left_s <= timeout_s


def test_threads_of_a_handler_enter_the_slots_that_they_asked_for_and_none_waits_for_another_ones(
    here: Ground, held: list[Slot]
) -> None:
    task = here.app.submit("asks_in_threads")

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: len(here.notes) >= 20)
            assert here.notes == ["in stops"] * 20
            release(held)
            await here.ended(task.id)

    run(scenario)
    assert here.task(task.id).result == ["stops"] * 20 + ["api"]
    assert usage(here).in_flight == usage(here, "stops").in_flight == 0


def test_a_question_that_outlives_its_task_takes_nothing_of_the_next_ones(here: Ground, held: list[Slot]) -> None:
    first = here.app.submit("leaves_a_question")

    async def scenario() -> None:
        async with here.worker(processes=1):
            await here.ended(first.id)
            for _ in range(5):
                following = here.app.submit("free_blocking")
                assert (await here.ended(following.id)).status is Status.COMPLETED
            await here.until(lambda: "This attempt is over." in here.notes)

    run(scenario)
    assert "entered too late" not in here.notes


@pytest.mark.slow
def test_a_handler_that_is_killed_gives_its_slot_back_where_that_stops_its_call(here: Ground) -> None:
    task = here.app.submit("hangs")

    async def scenario() -> None:
        async with here.worker():
            await here.ended(task.id)
            await here.until(lambda: usage(here, "stops").in_flight == 0)

    run(scenario)
    assert here.task(task.id).error_class == "timeout"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hangs_on", "hangs_on_inside"])
def test_a_call_that_was_cut_off_counts_until_the_provider_cannot_work_on_it_any_more(here: Ground, kind: str) -> None:
    task = here.app.submit(kind)
    gave_back: list[float] = []

    async def scenario() -> None:
        async with here.worker():
            await here.ended(task.id)
            await here.until(lambda: usage(here, "goes-on").in_flight == 0)
            gave_back.append(time.monotonic())

    run(scenario)
    [called_at] = [float(note.removeprefix("called ")) for note in here.notes]
    # 4 s for the call and 0.3 s for its way; the handler was ended after 3 s.
    assert gave_back[0] - called_at > 4.0
    assert here.task(task.id).error_class == "timeout"


def test_a_drain_leaves_no_slot_and_no_place_in_line_behind(here: Ground, held: list[Slot]) -> None:
    here.app.submit_many("call", [{} for _ in range(5)])
    here.app.submit_many("several", [{} for _ in range(5)])

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: sum(holder.waiting for holder in usage(here).holders) > 0)
        await here.until(lambda: sum(holder.waiting for holder in usage(here).holders) == 0)

    run(scenario)
    assert usage(here).in_flight == 2
    assert here.app.ledger.count() == {("call", Status.PENDING): 5, ("several", Status.PENDING): 5}


def test_a_limit_that_nobody_defined_is_refused_before_anything_is_claimed(here: Ground) -> None:
    here.app.task("typo", limit="apy")(lambda ctx: None)

    async def scenario() -> None:
        async with here.worker():
            await asyncio.sleep(0.2)

    with pytest.raises(BadInput, match="'apy', which nobody has defined") as refused:
        run(scenario)
    assert "forebay limits set apy" in refused.value.remedy


def test_an_optional_kind_is_taken_up_when_somebody_defines_its_limit_while_the_worker_goes_on(
    here: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(ctx: Context) -> str:
        return "served"

    monkeypatch.setattr(late, "_LOOK_S", 0.05)
    here.app.registry.add(Kind(name="optional", handler=handler, limit="later", optional=True))
    waiting = here.app.submit("optional")
    long = here.app.submit("several", {"times": 1, "meets": True}, timeout_s=30)

    async def scenario() -> None:
        async with here.worker() as worker:
            await here.until(lambda: "begin" in here.notes)
            assert here.task(waiting.id).status is Status.PENDING
            session_id = worker.session_id
            here.app.limiter.define(Limit("later", in_flight=1))
            await here.ended(waiting.id)
            (session,) = here.app.ledger.sessions()
            assert (session.id, worker.session_id) == (session_id, session_id)
            assert {"optional@later", "several@api"} <= set(session.kinds)
            # What ran meanwhile is still ours, and ends.
            here.app.submit("call")
            await here.ended(long.id)

    run(scenario)
    assert here.task(waiting.id).result == "served"
    assert here.outcomes(long.id) == ["completed"]


def test_an_operators_change_stands_above_the_codes_definition(here: Ground) -> None:
    here.app.limiter.configure("api", in_flight=1)
    tasks = here.app.submit_many("call", [{} for _ in range(4)])

    async def scenario() -> None:
        async with here.worker():
            for task in tasks:
                await here.ended(task.id)

    run(scenario)
    assert most_at_once(here.notes) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"units": {"pages": 1}}, "no limit"),
        ({"slot": "call"}, "no limit"),
        ({"limit": "api", "slot": "sometimes"}, "slot is 'sometimes'"),
        ({"limit": "api", "slot": "call", "units": {"pages": 1}}, "for each call itself"),
        ({"limit": "api", "units": {"pages": -1}}, "pages"),
        ({"limit": "An API"}, "limit"),
    ],
)
def test_options_that_make_no_sense_together_are_refused_at_once(
    here: Ground, options: dict[str, object], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        here.app.task("odd", **options)(lambda ctx: None)  # type: ignore[arg-type]  # that is the point


def test_a_limit_is_defined_once(here: Ground) -> None:
    with pytest.raises(BadInput, match="defined already"):
        here.app.limit(Limit("api", in_flight=1))
    with pytest.raises(BadInput, match="is not a limit"):
        here.app.limit("api")  # type: ignore[arg-type]  # that is the point


def test_a_worker_that_empties_itself_for_a_suspect_leaves_the_ledger_alone_meanwhile(
    here: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.app.submit_many("call", [{"wait_s": 0.8}])
    exchanges: list[float] = []
    real = here.app.ledger.exchange

    def counted(*arguments: object, **named: object) -> Reply:
        exchanges.append(time.monotonic())
        return real(*arguments, **named)  # type: ignore[arg-type]

    async def scenario() -> int:
        async with here.worker(concurrency=4) as worker:
            await here.until(lambda: "begin" in here.notes)
            suspect = TASK._replace(kind="call", lost_count=3)
            worker._quarantine.sorted([suspect], running=True)
            here.app.submit_many("call", [{} for _ in range(4)])
            await asyncio.sleep(0.1)
            monkeypatch.setattr(here.app.ledger, "exchange", counted)
            await asyncio.sleep(0.3)
            return len(exchanges)

    assert run(scenario) < 10
