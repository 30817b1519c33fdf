"""What an application reads to say where its tasks stand, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.app.explain import Explainer
from forebay.app.forebay import Forebay
from forebay.errors import StoreUnreachable
from forebay.limits import Limit, Window
from forebay.model.exchange import Session
from forebay.model.limit_record import Record
from forebay.model.task import Status, Task, WaitReason
from forebay.stores.memory.ledger import MemoryLedger
from forebay.stores.memory.limits import MemoryLimits
from forebay.testing.workers import action


class CountedLedger(MemoryLedger):
    """Counts what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - whatever it is
        if name in {"sessions", "lanes", "lane_state", "ahead"}:
            super().__getattribute__("reads").append(name)
        return super().__getattribute__(name)


class CountedLimits(MemoryLimits):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.dead = False

    def read(self, limit: str) -> tuple[Record | None, int]:
        self.reads += 1
        if self.dead:
            raise StoreUnreachable("Redis at localhost does not answer.", remedy="Start it.")
        return super().read(limit)


@pytest.fixture
def ledger() -> CountedLedger:
    return CountedLedger()


@pytest.fixture
def limits() -> CountedLimits:
    return CountedLimits()


@pytest.fixture
def app(ledger: CountedLedger, limits: CountedLimits) -> Iterator[Forebay]:
    with Forebay(ledger, limits=limits) as made:

        @made.task("call", limit="api")
        async def call(ctx: object) -> None: ...

        @made.task("pages", limit="api", units=lambda n: {"pages": n})
        async def pages(ctx: object, n: int) -> None: ...

        @made.task("free")
        async def free(ctx: object) -> None: ...

        made.pipeline("ocr").process(limit="api")(call)
        made.limiter.define(Limit("api", in_flight=1, windows=[Window(10, 60, unit="pages")]))
        ledger.open_session(Session(id="w" * 26, worker="w", kinds=("call", "pages", "free", "ocr.chunk")))
        yield made


def tasks(app: Forebay, ids: list[str]) -> list[Task]:
    found = [app.get(each) for each in ids]
    assert all(isinstance(each, Task) for each in found)
    return found  # type: ignore[return-value]  # just checked


def submit(app: Forebay, kind: str, count: int) -> list[str]:
    return [each.id for each in app.submit_many(kind, [None] * count)]


def test_a_list_reads_each_limit_workers_and_lanes_once_however_many_rows_there_are(
    app: Forebay, ledger: CountedLedger, limits: CountedLimits
) -> None:
    rows = tasks(app, submit(app, "call", 40))
    ledger.reads, limits.reads = [], 0
    look = app.look()
    with app.limiter.slot("api", units={"pages": 0}):
        found = [look.glance(row) for row in rows]
    assert (sorted(ledger.reads), limits.reads) == (["lane_state", "sessions"], 1)
    assert {(each.wait_reason, each.limit, each.position, each.eta_s) for each in found} == {
        (WaitReason.LIMIT, "api", None, None)
    }


def test_a_list_without_limits_and_without_what_waits_reads_nothing_of_the_sort(
    app: Forebay, ledger: CountedLedger, limits: CountedLimits
) -> None:
    (row,) = tasks(app, submit(app, "free", 1))
    ledger.reads, limits.reads = [], 0
    app.look().glance(row._replace(status=Status.COMPLETED))
    assert (ledger.reads, limits.reads) == ([], 0)
    app.look().glance(row)
    assert limits.reads == 0


def test_a_silent_limit_store_is_a_reason_and_the_rest_is_told_all_the_same(
    app: Forebay, limits: CountedLimits, ledger: CountedLedger
) -> None:
    first, second = submit(app, "call", 2)
    ledger.pause("call@api", action())
    limits.dead = True
    limits.reads = 0
    found = app.standing(second)
    assert limits.reads == 1
    assert [each.code for each in found.reasons] == ["paused", "limit", "line"]
    assert found.reasons[1].text.startswith("its limit store does not answer: Redis at localhost does not answer.")
    assert (found.position, found.eta_s, found.more_workers_help) == (2, None, None)
    assert app.why(first)[0].code == "paused"


def test_a_silent_store_is_asked_once_for_all_limits(app: Forebay, limits: CountedLimits) -> None:
    (row,) = tasks(app, submit(app, "call", 1))
    limits.dead, limits.reads = True, 0
    look = app.look()
    for lane in ("call@api", "call@other", "call@third"):
        assert "does not answer" in look.glance(row._replace(lane=lane)).reasons[0].text
    assert limits.reads == 1


def test_a_limit_that_nobody_has_defined_is_a_reason(app: Forebay) -> None:
    (row,) = tasks(app, submit(app, "call", 1))
    (reason,) = app.look().standing(row._replace(lane="call@adobe")).reasons
    assert (reason.code, "limit 'adobe' is not defined" in reason.text) == ("limit", True)


def test_looking_makes_no_limit_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_HOME", str(tmp_path))
    with Forebay(f"sqlite:///{tmp_path}/ledger.db") as app:
        app.task("call", limit="api")(_call)
        assert [each.code for each in app.why(app.submit("call").id)] == ["no_worker", "limit"]
        assert sorted(each.name for each in tmp_path.glob("*limits*")) == []


async def _call(ctx: object) -> None: ...


def test_units_of_its_own_payload_decide_whether_it_fits(app: Forebay) -> None:
    app.limiter.configure("api", in_flight=5)
    with app.limiter.slot("api", units={"pages": 8}):
        pass
    small, large = (app.submit("pages", {"n": n}).id for n in (2, 3))
    assert app.standing(small).wait_reason is None
    assert app.standing(large).binds == ("10 pages per 60 s",)


def test_a_delayed_task_waits_behind_those_that_are_ready_now(app: Forebay) -> None:
    submit(app, "call", 3)
    delayed = app.submit("call", delay_s=5.0).id
    app.limiter.configure("api", call_timeout_s=10.0)
    with app.limiter.slot("api", units={"pages": 0}):
        found = app.standing(delayed)
    assert (found.wait_reason, found.position, found.eta_s) == (WaitReason.SCHEDULED, None, 40.0)


def test_a_job_is_done_when_the_last_of_its_chunks_has_called(app: Forebay) -> None:
    job = app.start("ocr", chunks=[None] * 5)
    app.limiter.configure("api", call_timeout_s=10.0)
    with app.limiter.slot("api", units={"pages": 0}):
        found = app.standing(job.id)
    assert (found.position, found.eta_s, found.last_eta_s, found.calls_left_count) == (1, 10.0, 50.0, 5)
    assert found.end_eta_s is None  # no call has ended yet, so nobody knows how long one takes
    assert found.more_workers_help is False


def test_lanes_of_a_limit_stand_as_the_next_of_their_tasks(app: Forebay) -> None:
    first, _ = submit(app, "call", 2)
    submit(app, "free", 1)
    with app.limiter.slot("api", units={"pages": 0}):
        look = app.look()
        ((lane, found),) = look.lanes("api")
        own = look.standing(app.get(first))
    assert (lane.name, lane.ready_count) == ("call@api", 2)
    assert found == own


def test_a_look_is_of_one_instant(app: Forebay) -> None:
    delayed = app.get(app.submit("free", delay_s=60.0).id)
    assert isinstance(delayed, Task)

    def left_s(now: float) -> float:
        return Explainer(app.ledger, lambda: None, app.registry, now=now).standing(delayed).backoff_s

    assert left_s(delayed.available_at - 7) == pytest.approx(7)
    assert left_s(delayed.available_at) == 0


def test_why_is_the_chain_of_the_standing(app: Forebay) -> None:
    (task,) = submit(app, "call", 1)
    assert app.why(task) == app.standing(task).reasons
