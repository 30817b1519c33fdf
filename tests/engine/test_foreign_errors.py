"""What an HTTP client raises in a handler means for its task what the provider's answer means."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from forebay.model.task import Status, Task
from forebay.observe import subscribe
from tests.clients.provider import Provider, provider
from tests.engine.ground import Ground, run

CALLING = str(Path(__file__).with_name("calling.py"))
Make = Callable[..., Ground]


@pytest.fixture(scope="module")
def api() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture
def here(ground: Make) -> Ground:
    made = ground(handlers=CALLING)
    made.app.limits.tell([])
    return made


def attempted(here: Ground, kind: str, payload: Mapping[str, object]) -> Task:
    """The task after its first attempt."""
    task = here.app.submit(kind, payload)

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: here.outcomes(task.id) or None)

    run(scenario)
    return here.task(task.id)


@pytest.mark.parametrize("client", ["urllib", "requests", "httpx2"])
@pytest.mark.parametrize("kind", ["call", pytest.param("call_blocking", marks=pytest.mark.slow)])
def test_a_429_is_no_bug_and_costs_no_retry(here: Ground, api: Provider, kind: str, client: str) -> None:
    task = attempted(here, kind, {"client": client, "url": api.url("status/429")})
    assert (task.status, task.error_class, task.retry_count) == (Status.PENDING, "rate_limited", 0)
    assert task.reschedule_count == 1
    assert task.available_at - task.created_at >= 30


@pytest.mark.parametrize(
    ("path", "error_class"),
    [
        ("refuse", "network_error"),
        ("reset", "network_error"),
        ("hang", "timeout"),
        ("status/500", "internal_error"),
        ("status/503", "service_unavailable"),
        ("status/400", "refused"),
        ("status/404", "refused"),
        ("status/401", "refused"),
        ("status/403", "refused"),
        ("status/413", "replan"),
    ],
)
@pytest.mark.parametrize("kind", ["call", pytest.param("call_blocking", marks=pytest.mark.slow)])
def test_what_a_client_raises_has_the_class_of_what_happened(
    here: Ground, api: Provider, kind: str, path: str, error_class: str
) -> None:
    task = attempted(here, kind, {"client": "requests", "url": api.url(path)})
    assert (task.status, task.error_class) == (Status.FAILED, error_class)


@pytest.mark.parametrize("kind", ["limited", "inside", "inside_blocking"])
def test_a_429_cools_the_limit_down_and_is_told_with_its_task(here: Ground, api: Provider, kind: str) -> None:
    told: list[Mapping[str, object]] = []
    stop = subscribe(lambda name, fields: told.append(fields) if name == "rate_limited_retrying" else None)
    try:
        task = attempted(here, kind, {"client": "httpx2", "url": api.url("status/429")})
    finally:
        stop()
    assert (task.status, task.error_class) == (Status.PENDING, "rate_limited")
    assert here.app.limiter.usage("api").cooldown == "cooldown"
    [fields] = told
    assert (fields["task_id"], fields["kind"], fields["job_id"]) == (task.id, kind, None)
    assert "429 Too Many Requests" in str(fields["error"])


@pytest.mark.parametrize("kind", ["limited", "inside", "inside_blocking"])
def test_rejected_credentials_pause_the_limit_that_stands_for_the_account(
    here: Ground, api: Provider, kind: str
) -> None:
    task = attempted(here, kind, {"client": "requests", "url": api.url("status/401")})
    assert (task.status, task.error_class) == (Status.PENDING, "auth")
    assert here.app.limiter.usage("api").paused


def test_a_401_outside_of_the_slot_pauses_nobody(here: Ground, api: Provider) -> None:
    urls = {"url": api.url("status/200"), "outside_url": api.url("status/401")}
    task = attempted(here, "inside", {"client": "requests", **urls})
    assert (task.status, task.error_class) == (Status.FAILED, "refused")
    assert not here.app.limiter.usage("api").paused


def test_a_403_of_one_thing_pauses_nobody(here: Ground, api: Provider) -> None:
    task = attempted(here, "limited", {"client": "requests", "url": api.url("status/403")})
    assert (task.status, task.error_class) == (Status.FAILED, "refused")
    assert not here.app.limiter.usage("api").paused


@pytest.mark.slow
def test_a_blocking_handler_has_its_answer_judged(here: Ground) -> None:
    task = attempted(here, "judges_blocking", {"status": 429})
    assert (task.status, task.result) == (Status.COMPLETED, "throttled")
    assert here.app.limiter.usage("api").cooldown == "cooldown"
