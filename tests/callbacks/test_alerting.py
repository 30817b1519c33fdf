"""What calls for a person is told to the operator, once a minute, and never of itself."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from forebay.app.forebay import Forebay
from forebay.app.working import awork, when_idle
from forebay.callbacks.alerting import Alert, Alerts
from forebay.clock import SystemClock
from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.errors import BadInput
from forebay.observe import emit
from forebay.rules.settlement import MAX_LOST
from forebay.settings import load
from forebay.testing.workers import Worker
from tests.callbacks.receiver import Receiver
from tests.engine.ground import run

Make = Callable[..., Receiver]


class _Heard:
    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.now = 1_000_000.0
        self.made = Alerts(self.alerts.append, now=lambda: self.now)


@pytest.fixture
def heard() -> Iterator[_Heard]:
    made = _Heard()
    made.made.start()
    yield made
    made.made.close()


def test_dead_letters_degraded_limits_and_exhausted_quotas_are_told(heard: _Heard) -> None:
    emit("task_failed", task_id="t", kind="ocr", attempt=1, error_class="refused", run_s=1.0)
    emit("limit_degraded", limit="adobe", policy="wait", error_code="store_unreachable")
    emit("quota_exhausted", limit="docai", retry_in_s=3600.0)
    emit("task_completed", task_id="t", kind="ocr", attempt=1, run_s=1.0)
    heard.made.close()
    assert [(each.name, each.data.get("limit")) for each in heard.alerts] == [
        ("alert.dead_letter", None),
        ("alert.limit_degraded", "adobe"),
        ("alert.quota_exhausted", "docai"),
    ]
    assert heard.alerts[0].data["task_id"] == "t"


def test_many_of_a_sort_are_told_once_a_minute(heard: _Heard) -> None:
    for number in range(50):
        emit("task_failed", task_id=f"t{number}", kind="ocr", attempt=1, error_class="refused", run_s=1.0)
    emit("task_failed", task_id="other", kind="ocr", attempt=1, error_class="timeout", run_s=1.0)
    heard.now += 60
    emit("task_failed", task_id="later", kind="ocr", attempt=1, error_class="refused", run_s=1.0)
    heard.made.close()
    assert [each.data["task_id"] for each in heard.alerts] == ["t0", "other", "later"]
    assert len({each.key for each in heard.alerts}) == 3


def test_whoever_emits_does_not_wait_for_the_alert() -> None:
    may_go = threading.Event()

    def tell(alert: Alert) -> None:
        may_go.wait(20)

    slow = Alerts(tell).start()
    emit("quota_exhausted", limit="docai", retry_in_s=3600.0)
    may_go.set()
    slow.close()


def _app(folder: Path, **settings: object) -> Forebay:
    flags = {"home": str(folder), "callback_loopback": "allow", "poll_s": 0.2, **settings}
    app = Forebay(f"sqlite:///{folder}/ledger.db", settings=load(flags, environ={"HOME": str(folder)}))

    @app.task("break", max_retries=0)
    async def fail(ctx: Context) -> None:
        raise Permanent("It is broken.")

    return app


def _worked(app: Forebay) -> None:
    async def scenario() -> None:
        await awork(app, when_idle(app))

    run(scenario)


def test_a_dead_letter_is_told_to_the_operator_and_an_alert_that_fails_is_not(tmp_path: Path, receiver: Make) -> None:
    hook = receiver()
    url = hook.url("410")
    app = _app(tmp_path, alert_url=url)
    hook.knows(app.callbacks.secret(app.callbacks.known_endpoint(url)))
    dead = app.submit("break")
    _worked(app)
    _worked(app)
    (seen,) = hook.seen
    body = json.loads(seen["body"])
    assert (seen["verified"], body["type"]) == (True, "alert.dead_letter")
    assert (body["data"]["task_id"], body["data"]["kind"], body["data"]["error_class"]) == (dead.id, "break", "refused")
    assert len(app.callbacks.deliveries().items) == 1
    app.close()


@pytest.mark.slow
def test_a_task_that_ends_its_workers_is_told_by_whoever_finds_it(tmp_path: Path, receiver: Make) -> None:
    hook = receiver()
    app = _app(tmp_path, alert_url=hook.url(), lease_s=1.0)
    dead = app.submit("break")
    for number in range(1, MAX_LOST + 1):
        Worker(app.ledger, SystemClock(), f"gone-{number}", lease_s=0.05).take("break")
        time.sleep(0.1)
        if number < MAX_LOST:
            assert app.ledger.rescue() == [dead.id]

    async def seen(drain: Callable[[str], None]) -> None:
        while not hook.seen:  # noqa: ASYNC110 - it is somebody else who changes it
            await asyncio.sleep(0.05)
        drain("seen")

    run(partial(awork, app, seen))
    (told,) = hook.seen
    body = json.loads(told["body"])
    assert body["type"] == "alert.dead_letter"
    assert (body["data"]["task_id"], body["data"]["kind"], body["data"]["error_class"]) == (dead.id, "break", "poison")
    assert body["data"]["attempt"] == MAX_LOST
    app.close()


def test_an_address_that_no_alert_may_go_to_is_refused_before_a_worker_begins(tmp_path: Path) -> None:
    app = _app(tmp_path, alert_url="http://169.254.169.254/")
    with pytest.raises(BadInput, match="not a public address"):
        _worked(app)
    app.close()
