"""Submitted tasks run, and end as their handlers say."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from forebay.errors import BadInput, IdempotencyConflict, NotCompleted, NotFound, WaitTimeout
from forebay.model.exchange import Usage
from forebay.model.task import Status
from tests.engine.ground import Ground, run

Make = Callable[..., Ground]


@pytest.mark.parametrize("kind", ["echo", "echo_blocking"])
def test_a_task_returns_what_its_handler_returned(ground: Make, kind: str) -> None:
    here = ground()
    value = {"text": "ü", "list": [1, 2.5, None, True]}
    task = here.app.submit(kind, {"value": value})

    async def scenario() -> None:
        async with here.worker():
            await here.ended(task.id)

    run(scenario)
    assert here.app.wait(task.id).result == value
    assert here.outcomes(task.id) == ["completed"]


@pytest.mark.slow
def test_many_small_tasks_each_run_once_on_both_sides(ground: Make) -> None:
    here = ground()
    asked = {kind: here.app.submit_many(kind, [{"value": n} for n in range(300)]) for kind in ("echo", "echo_blocking")}

    async def scenario() -> None:
        async with here.worker(concurrency=40):
            await here.until(lambda: here.app.ledger.count().get(("echo", Status.COMPLETED)) == 300)
            await here.until(lambda: here.app.ledger.count().get(("echo_blocking", Status.COMPLETED)) == 300)

    run(scenario)
    for kind, tasks in asked.items():
        assert [here.task(task.id).result for task in tasks] == list(range(300)), kind
        assert all(here.outcomes(task.id) == ["completed"] for task in tasks)


@pytest.mark.slow
def test_large_results_go_to_the_blob_store_and_come_back(ground: Make) -> None:
    here = ground(payload_max_bytes=2048)
    text = here.app.submit("large", {"size": 5000})
    raw = here.app.submit("large_blocking", {"size": 5000})
    payload = here.app.submit("echo", {"value": "z" * 5000})

    async def scenario() -> None:
        async with here.worker():
            for task in (text, raw, payload):
                await here.ended(task.id)

    run(scenario)
    assert here.app.result(text.id) == "x" * 5000
    assert here.app.result(raw.id) == b"x" * 5000
    assert here.app.result(payload.id) == "z" * 5000
    assert here.task(text.id).result_json is None
    assert here.task(text.id).result_blob is not None
    assert here.task(payload.id).payload_blob is not None


@pytest.mark.slow
def test_a_hundred_reschedules_burn_no_retry_and_one_more_fails(ground: Make) -> None:
    here = ground()
    enough = here.app.submit("throttled", {"times": 100})
    too_many = here.app.submit("throttled", {"times": 101})

    async def scenario() -> None:
        async with here.worker():
            await here.ended(enough.id)
            await here.ended(too_many.id)

    run(scenario)
    done, failed = here.task(enough.id), here.task(too_many.id)
    assert (done.status, done.retry_count, done.reschedule_count, done.result) == (Status.COMPLETED, 0, 100, 100)
    assert here.outcomes(enough.id) == ["rescheduled"] * 100 + ["completed"]
    assert (failed.status, failed.retry_count, failed.reschedule_count) == (Status.FAILED, 0, 100)
    assert failed.error_text == "Max reschedules (100) exceeded"
    assert failed.error_class == "reschedules_exceeded"


def test_a_retry_costs_one_of_max_retries(ground: Make) -> None:
    here = ground()
    twice = here.app.submit("flaky", {"times": 2})
    never = here.app.submit("flaky", {"times": 9}, max_retries=1)

    async def scenario() -> None:
        async with here.worker():
            await here.ended(twice.id)
            await here.ended(never.id)

    run(scenario)
    assert (here.task(twice.id).result, here.task(twice.id).retry_count) == (3, 2)
    assert here.outcomes(never.id) == ["retried", "failed"]
    assert here.task(never.id).error_class == "internal_error"


@pytest.mark.slow
def test_what_fails_for_good_says_so_and_keeps_its_evidence(ground: Make) -> None:
    here = ground()
    hopeless, broken = here.app.submit("hopeless"), here.app.submit("broken")
    exits, not_json = here.app.submit("exits"), here.app.submit("not_json")

    async def scenario() -> None:
        async with here.worker():
            for task in (hopeless, broken, exits, not_json):
                await here.ended(task.id)

    run(scenario)
    assert here.task(hopeless.id).error_class == "invalid_pdf"
    assert here.outcomes(hopeless.id) == ["failed"]
    assert "ZeroDivisionError" in (here.app.history(broken.id)[0].traceback or "")
    assert [here.task(each.id).error_class for each in (broken, exits, not_json)] == ["bug"] * 3
    with pytest.raises(NotCompleted, match="no PDF at all"):
        _ = here.app.wait(hopeless.id).result


def test_a_context_tells_and_books(ground: Make) -> None:
    here = ground()
    task = here.app.submit("told", tenant="acme", tags=("a", "b"))

    async def scenario() -> None:
        async with here.worker():
            await here.ended(task.id)

    run(scenario)
    result = here.task(task.id).result
    assert isinstance(result, dict)
    assert (result["attempt"], result["tenant"], result["tags"]) == (1, "acme", ["a", "b"])
    assert 50 < float(str(result["remaining"])) <= 60
    assert here.app.ledger.used(tenant="acme") == [Usage("pages", "pages", 3)]


def test_a_kind_without_a_handler_is_never_claimed(ground: Make) -> None:
    here = ground()
    foreign, own = here.app.submit("of_another_team"), here.app.submit("echo", {"value": 1})

    async def scenario() -> None:
        async with here.worker():
            await here.ended(own.id)

    run(scenario)
    assert here.task(foreign.id).status is Status.PENDING
    assert here.task(foreign.id).claim_count == 0
    assert here.app.why(foreign.id)[0].code == "no_worker"


@pytest.mark.slow
def test_a_deadline_that_is_over_fails_without_running(ground: Make) -> None:
    here = ground()
    over = here.app.submit("sleeps", {"seconds": 0}, deadline_at=time.time() - 1)
    soon = here.app.submit("sleeps", {"seconds": 30}, deadline_at=datetime.now(UTC) + timedelta(seconds=1))

    async def scenario() -> None:
        async with here.worker():
            await here.ended(over.id)
            await here.ended(soon.id)

    run(scenario)
    assert [here.task(each.id).error_class for each in (over, soon)] == ["deadline", "deadline"]
    assert f"began {over.id}" not in here.notes


def test_a_delayed_task_waits_and_a_higher_priority_goes_first(ground: Make) -> None:
    here = ground()
    later = here.app.submit("echo", {"value": 0}, delay_s=3600)
    low = here.app.submit("echo", {"value": 1}, priority=-5)
    high = here.app.submit("echo", {"value": 2}, priority=5)

    async def scenario() -> None:
        async with here.worker(concurrency=1):
            await here.ended(low.id)

    run(scenario)
    assert here.task(later.id).status is Status.PENDING
    assert here.app.why(later.id)[0].code == "scheduled"
    first, second = (here.app.history(each.id)[0].claimed_at for each in (high, low))
    assert first < second


def test_the_same_key_finds_the_first_task_and_another_payload_is_refused(ground: Make) -> None:
    here = ground()
    first = here.app.submit("echo", {"value": 1}, idempotency_key="k")
    again = here.app.submit("echo", {"value": 1}, idempotency_key="k")
    assert (first.outcome, again.outcome, again.id) == ("created", "existing", first.id)
    with pytest.raises(IdempotencyConflict):
        here.app.submit("echo", {"value": 2}, idempotency_key="k")


def test_a_wait_ends_when_its_time_is_over(ground: Make) -> None:
    here = ground()
    task = here.app.submit("echo")
    with pytest.raises(WaitTimeout, match=task.id):
        here.app.wait(task.id, timeout_s=0.05)


def test_bad_submissions_are_refused_with_what_to_do(ground: Make) -> None:
    here = ground()
    with pytest.raises(BadInput, match="no option 'prio'"):
        here.app.submit("echo", prio=3)  # type: ignore[call-arg]
    with pytest.raises(BadInput, match="not bytes"):
        here.app.submit("echo", b"raw")
    with pytest.raises(BadInput, match="time zone"):
        here.app.submit("echo", deadline_at=datetime(2030, 1, 1))  # noqa: DTZ001 - the point
    with pytest.raises(NotFound, match="no pipeline"):
        here.app.start("unknown")
    with pytest.raises(NotFound):
        here.app.get("a" * 26)
