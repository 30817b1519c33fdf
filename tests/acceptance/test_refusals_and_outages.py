"""What a provider refuses holds everybody back, visibly; a limit store that dies costs no more than its policy says."""

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from chaos.limits.rules import Rules
from forebay.limits import Usage
from forebay.model.query import Query
from forebay.model.task import Status, Task
from tests.acceptance.conftest import Make
from tests.acceptance.ground import Ground
from tests.servers.server import Server
from tests.servers.valkey import valkey

STEPS_S = (0.2, 0.4, 0.8, 1.6, 3.0)  # a tenth of 2, 4, 8, 16, 30
JITTER = 1.2


@pytest.mark.slow
def test_refusals_without_a_hint_pause_everybody_for_2_4_8_16_30_seconds_and_it_can_be_seen(ground: Make) -> None:
    """Times are a tenth."""
    with ground(in_flight=5, cooldown_s=STEPS_S) as here:
        here.order(do="refuse", limit="api", retry_after_s=0.0)
        here.work(3)
        job = here.app.start("pages", chunks=[{"work_s": 0.05}] * 30)
        pauses: dict[int, float] = {}
        told: list[Task] = []
        while len(STEPS_S) not in pauses:
            usage = _usage(here)
            if usage is not None and usage.cooldown == "cooldown" and usage.level not in pauses:
                pauses[usage.level] = usage.cooldown_for_s
                told += here.app.ledger.list_tasks(Query(job_id=job.id, status=Status.PENDING)).items
                standing = here.app.standing(told[-1].id)
                assert standing.limit == "api"
                assert standing.cooldown_until is not None
                assert standing.eta_s is not None
                assert standing.eta_s > 0
            time.sleep(0.01)
        here.order(do="refuse", limit="api", calls=0)
        assert here.app.wait(job.id, timeout_s=150).result == 30
    # The first pause is over in 0.2 s, before somebody who looks now and then must have seen it.
    assert {2, 3, 4, 5} <= set(pauses)
    assert all(pauses[level] <= STEPS_S[min(level, len(STEPS_S)) - 1] * JITTER for level in pauses)
    assert any(task.reschedule_count and task.retry_count == 0 for task in told)
    seen = here.seen()
    # One probe after each pause, beside those that were on their way when the first refusal came.
    refused = sum(call.status == 429 for call in seen.calls)
    assert refused <= 5 * 2 + len(STEPS_S)
    arrived = [call.arrived_at for call in seen.calls if call.status == 429]
    # Each pause counts from its first refusal: what was on its way then may arrive a moment later.
    first = arrived[:1] + [later for earlier, later in pairwise(arrived) if later - earlier > STEPS_S[0] / 2]
    lasted = [later - earlier for earlier, later in pairwise(first)]
    assert len(lasted) >= len(STEPS_S) - 1
    assert all(found >= step_s for found, step_s in zip(lasted, STEPS_S, strict=False)), lasted
    assert len(here.logged("rate_limited_retrying")) == refused
    assert not here.judged(Rules(in_flight=5)).violations


def _usage(here: Ground) -> Usage | None:
    return here.app.limiter.usage("api") if "api" in here.app.limiter.names() else None


@pytest.fixture
def own_valkey() -> Iterator[Server]:
    with valkey(own=True) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", [pytest.param("wait", marks=pytest.mark.slow), "share", pytest.param("fail", marks=pytest.mark.slow)]
)
def test_a_limit_store_that_is_killed_costs_what_its_policy_says_and_heals_by_itself(
    ground: Make, own_valkey: Server, policy: str
) -> None:
    """Killed, it comes back empty: what it had forgotten is not granted twice."""
    terms: dict[str, Any] = {
        "in_flight": 5,
        "when_store_down": policy,
        "lease_s": 1.5,
        "heartbeat_s": 0.4,
        "call_timeout_s": 1.0,
    }
    with ground(limits=own_valkey.url, **terms) as here:
        job = here.app.start("pages", chunks=[{"work_s": 0.2}] * 80)
        here.work(3)
        here.until(lambda: len(here.seen().calls) > 20)
        own_valkey.kill()
        killed_at = len(here.seen().calls)
        time.sleep(4.0)
        meanwhile = len(here.seen().calls) - killed_at
        own_valkey.start()
        assert here.app.wait(job.id, timeout_s=150).result == 80
        tasks = here.app.ledger.list_tasks(Query(job_id=job.id, size=500)).items
        here.until(lambda: here.logged("limit_healed"))  # under share, the job may end before the store is back
    verdict = here.judged(Rules(in_flight=5))
    assert not verdict.violations, verdict.text()
    # Each process goes on with its part of the five, if that is the policy; else what was under way ends, no more.
    assert meanwhile > 10 if policy == "share" else meanwhile <= 5
    assert all(task.retry_count == 0 for task in tasks)
    assert len(here.seen().calls) == 80
    assert {event["limit"] for event in here.logged("limit_degraded")} == {"api"}
    assert {event["limit"] for event in here.logged("limit_healed")} == {"api"}
