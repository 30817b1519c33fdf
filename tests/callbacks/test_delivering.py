"""Callbacks of jobs, from a worker on a real ledger to a receiver that verifies with the official package."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from forebay.callbacks.delivering import PLACES, SCHEDULE_S, Deliverer
from forebay.callbacks.sending import Answer, Sender
from forebay.callbacks.target import Policy, Target
from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadInput, NotFound
from forebay.model.callback import KIND
from forebay.model.exchange import Submitted
from forebay.model.query import Query
from forebay.model.task import Status, Task
from forebay.stores.memory.ledger import MemoryLedger
from tests.callbacks.receiver import Receiver
from tests.engine.ground import Ground, run
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

Make = Callable[..., Receiver]
HANDLERS = str(Path(__file__).with_name("handlers.py"))
KEY = "a key of the operator's own"
_HALF = PLACES.in_all // 2


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    monkeypatch.setenv("TEST_LEDGER", f"sqlite:///{tmp_path}/ledger.db")
    monkeypatch.setenv("TEST_BLOBS", f"file://{tmp_path}/blobs")
    made = Ground(tmp_path, HANDLERS, callback_loopback="allow", callback_key=KEY, callback_timeout_s=1.0)
    made.app.callbacks.schedule_s = (0.05, 0.05, 0.05)
    yield made
    made.app.close()


def _callbacks(here: Ground) -> list[Task]:
    return [task for row in here.app.callbacks.deliveries().items if (task := here.app.ledger.get(row.id))]


def _all_ended(here: Ground) -> bool:
    return all(task.status.terminal for task in _callbacks(here))


def _secret(here: Ground, url: str) -> str:
    return here.app.callbacks.secret(here.app.callbacks.endpoint(url))


def test_a_job_tells_how_it_ended_and_the_receiver_can_verify_it(here: Ground, receiver: Make) -> None:
    hook = receiver()
    url = hook.url()
    job = here.app.start("words", {"text": "one\ntwo words"}, label="notes", callback=url)
    hook.knows(_secret(here, url))

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: hook.seen)
            await here.until(lambda: _all_ended(here))

    run(scenario)
    (seen,) = hook.seen
    (task,) = _callbacks(here)
    assert (seen["verified"], seen["id"]) == (True, task.id)
    body = json.loads(seen["body"])
    assert (body["type"], body["data"]["job_id"], body["data"]["label"]) == ("job.completed", job.id, "notes")
    assert body["data"]["links"] == {"job": f"/v1/jobs/{job.id}", "result": f"/v1/jobs/{job.id}/result"}
    assert (task.status, task.result) == (Status.COMPLETED, {"status": 204})
    assert task.lane.startswith(f"{KIND}@h-")


def test_each_chunk_is_told_of_in_an_order_that_can_be_sorted(here: Ground, receiver: Make) -> None:
    hook = receiver()
    url = hook.url()
    here.app.start("words", {"text": "one\nbad\ntwo words"}, callback=url, callback_each=True)
    hook.knows(_secret(here, url))

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: len(hook.seen) == 4)
            await here.until(lambda: _all_ended(here))

    run(scenario)
    bodies = sorted((json.loads(each["body"]) for each in hook.seen), key=lambda body: body["data"]["sequence"])
    assert [body["type"] for body in bodies][-1] == "job.failed"
    told = {body["data"]["chunk_index"]: body["type"] for body in bodies[:-1]}
    assert told == {0: "chunk.completed", 1: "chunk.failed", 2: "chunk.completed"}
    assert all(each["verified"] for each in hook.seen)
    assert len({each["id"] for each in hook.seen}) == 4


def test_attempts_have_one_id_and_one_body_and_a_timestamp_each(here: Ground, receiver: Make) -> None:
    hook = receiver()
    url = hook.url("500", "301", "404", "ok")
    here.app.start("words", {"text": "one"}, callback=url)
    hook.knows(_secret(here, url))

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: _callbacks(here) and _all_ended(here))

    run(scenario)
    assert [each["said"] for each in hook.seen] == ["500", "301", "404", "ok"]
    assert len({each["id"] for each in hook.seen}) == len({each["body"] for each in hook.seen}) == 1
    assert all(each["verified"] for each in hook.seen)
    (task,) = _callbacks(here)
    assert (task.status, task.retry_count) == (Status.COMPLETED, 3)
    texts = [past.error_text or "" for past in here.app.history(task.id)]
    assert ["500" in texts[0], "redirect" in texts[1], "404" in texts[2]] == [True] * 3


def test_what_no_attempt_delivers_lies_in_the_dead_letters_and_changes_no_job(here: Ground, receiver: Make) -> None:
    hook = receiver()
    url = hook.url("500", "500", "500", "500", "ok")
    job = here.app.start("words", {"text": "one"}, callback=url)
    hook.knows(_secret(here, url))

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: _callbacks(here) and _all_ended(here))

    run(scenario)
    (dead,) = here.app.ledger.list_tasks(Query(status=Status.FAILED)).items
    assert (dead.kind, dead.error_class) == (KIND, "service_unavailable")
    assert here.app.get(job.id).status is Status.COMPLETED
    assert [acted.outcome for acted in here.app.callbacks.resend(dead.id)] == ["done"]
    run(scenario)
    assert here.task(dead.id).status is Status.COMPLETED
    assert len({each["id"] for each in hook.seen}) == 1
    with pytest.raises(NotFound):
        here.app.callbacks.resend(job.id)


def test_gone_disables_the_endpoint_and_a_resend_enables_it(here: Ground, receiver: Make) -> None:
    hook = receiver()
    url = hook.url("410", "ok")
    here.app.start("words", {"text": "one"}, callback=url)
    hook.knows(_secret(here, url))

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: _callbacks(here) and _all_ended(here))

    run(scenario)
    endpoint = here.app.callbacks.endpoint(url)
    assert (endpoint.disabled_at is not None, endpoint.note) == (True, "it answered 410")
    (first,) = _callbacks(here)
    assert (first.status, first.attempt_count) == (Status.FAILED, 1)
    here.app.start("words", {"text": "two"}, callback=url)

    async def second() -> None:
        async with here.worker():
            await here.until(lambda: len(_callbacks(here)) == 2 and _all_ended(here))

    run(second)
    assert (len(hook.seen), {task.error_class for task in _callbacks(here)}) == (1, {"refused"})
    here.app.callbacks.resend(*(task.id for task in _callbacks(here)))
    assert here.app.callbacks.endpoint(url).disabled_at is None
    run(scenario)
    assert here.task(first.id).status is Status.COMPLETED


def test_a_new_secret_signs_beside_the_old_one(here: Ground, receiver: Make) -> None:
    hook = receiver()
    url = hook.url()
    endpoint = here.app.callbacks.known_endpoint(url)
    old = here.app.callbacks.secret(endpoint)
    rotated = here.app.callbacks.rotate(endpoint)
    assert here.app.callbacks.secret(rotated) != old
    hook.knows(old)
    made = here.app.callbacks.test(rotated)

    async def scenario() -> None:
        async with here.worker():
            await here.ended(made.id)

    run(scenario)
    hook.knows(here.app.callbacks.secret(rotated))
    again = here.app.callbacks.test(rotated)

    async def second() -> None:
        async with here.worker():
            await here.ended(again.id)

    run(second)
    assert [each["verified"] for each in hook.seen] == [True, True]
    assert all((each["signature"] or "").count("v1,") == 2 for each in hook.seen)
    assert json.loads(hook.seen[0]["body"])["type"] == "test"


@pytest.mark.slow
def test_callbacks_of_jobs_and_of_none_leave_one_lane_on_postgresql_too(
    tmp_path: Path, receiver: Make, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = receiver()
    monkeypatch.setenv("TEST_BLOBS", f"file://{tmp_path}/blobs")
    with fresh_schema(postgres_server) as address:
        monkeypatch.setenv("TEST_LEDGER", address)
        here = Ground(tmp_path, HANDLERS, callback_loopback="allow", callback_key=KEY)
        here.app.callbacks.schedule_s = (0.05, 0.05, 0.05)
        urls = [hook.url("500", "ok", name=name) for name in ("one", "two")]
        hook.knows(*(here.app.callbacks.secret(here.app.callbacks.known_endpoint(url)) for url in urls))
        for number in range(12):
            text = "bad" if number % 3 == 2 else "one\ntwo words"
            here.app.start("words", {"text": text}, callback=urls[number % 2], callback_each=number % 4 == 0)
            here.app.callbacks.test(here.app.callbacks.known_endpoint(urls[number % 2]))
        canceled = here.app.start("words", {"text": "three"}, callback=urls[0])
        here.app.cancel(canceled.id)

        async def scenario() -> None:
            async with here.worker():
                await here.until(lambda: len(_callbacks(here)) == 12 + 12 + 5 + 1 and _all_ended(here))

        run(scenario)
        tasks = _callbacks(here)
        here.app.close()
    assert {task.status for task in tasks} == {Status.COMPLETED}
    assert {each["id"] for each in hook.seen if each["said"] == "ok"} == {task.id for task in tasks}
    assert len(hook.seen) == 2 * len(tasks)
    assert all(each["verified"] for each in hook.seen)


def test_a_document_that_is_to_be_told_of_is_a_job_of_its_own(here: Ground, receiver: Make, tmp_path: Path) -> None:
    scan = tmp_path / "scan.png"
    Image.new("L", (8, 8)).save(scan)
    url = receiver().url()
    untold = here.app.process(scan)
    told = here.app.process(scan, callback=url)
    assert told.id != untold.id
    assert here.app.process(scan, callback=url) == Submitted(told.id, "existing")
    assert here.app.process(scan, callback=url, callback_each=True).id not in {told.id, untold.id}
    job = here.app.ledger.get_job(told.id)
    assert job is not None
    assert json.loads(job.callback_json or "")["url"] == url


def test_a_callback_that_waits_says_why_and_its_host_is_taken_for_no_limit(here: Ground, receiver: Make) -> None:
    made = here.app.callbacks.test(here.app.callbacks.known_endpoint(receiver().url()))
    assert [str(reason.code) for reason in here.app.why(made.id)] == ["no_worker"]
    assert here.app.standing(made.id).limit is None


def test_one_dead_endpoint_does_not_keep_others_waiting(here: Ground, receiver: Make) -> None:
    dead, well = receiver("dead"), receiver("well")
    for number in range(30):
        here.app.callbacks.test(here.app.callbacks.known_endpoint(dead.url("hang", name=f"hook{number}")))
    made = [here.app.callbacks.test(here.app.callbacks.known_endpoint(well.url())) for _ in range(10)]
    job = here.app.start("words", {"text": "one"})

    async def scenario() -> None:
        async with here.worker(concurrency=1):
            for each in made:
                await here.ended(each.id, within_s=20)  # the dead one hangs for 30 s
            await here.ended(job.id, within_s=20)

    run(scenario)
    assert len(well.seen) == 10
    assert len(dead.seen) <= 2 * PLACES.per_lane + 2


def test_a_receiver_that_hangs_delays_no_other_tenant_of_the_same_host(here: Ground, receiver: Make) -> None:
    host = receiver("gateway")
    for number in range(8):
        here.app.callbacks.test(here.app.callbacks.known_endpoint(host.url("hang", name=f"a{number}"), "ann"))
    made = [here.app.callbacks.test(here.app.callbacks.known_endpoint(host.url(name="b"), "bob")) for _ in range(3)]

    async def scenario() -> None:
        async with here.worker(concurrency=1):
            for each in made:
                await here.ended(each.id, within_s=15)

    run(scenario)
    assert len([each for each in host.seen if each["path"] == "/b"]) == 3
    assert len([each for each in host.seen if each["path"].startswith("/a")]) <= PLACES.per_lane


def test_a_tenant_whose_hosts_all_hang_delays_no_other_tenant(here: Ground, tmp_path: Path, receiver: Make) -> None:
    patient = Ground(tmp_path, HANDLERS, callback_loopback="allow", callback_key=KEY, callback_timeout_s=60.0)
    dead = [receiver(f"dead{number}") for number in range(PLACES.in_all // PLACES.per_lane + 2)]
    for host in dead:
        for number in range(3):
            patient.app.callbacks.test(patient.app.callbacks.known_endpoint(host.url("hang", name=f"a{number}"), "ann"))
    well = receiver("well")

    def hanging() -> int:
        return sum(len(host.seen) for host in dead)

    async def scenario() -> None:
        async with patient.worker(concurrency=1):
            await patient.until(lambda: hanging() >= _HALF)
            made = [
                patient.app.callbacks.test(patient.app.callbacks.known_endpoint(well.url(), "bob")) for _ in range(3)
            ]
            for each in made:
                await patient.ended(each.id, within_s=20)  # the others hang for 30 s
            assert hanging() == _HALF
            for host in dead:
                host.end()

    run(scenario)
    assert len(well.seen) == 3
    patient.app.close()


def test_in_one_lane_for_all_tenants_they_would_wait_for_each_other(
    here: Ground, receiver: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above."""
    monkeypatch.setattr(Target, "lane", lambda self, _: self.group)
    host = receiver("gateway")
    for number in range(3):
        here.app.callbacks.test(here.app.callbacks.known_endpoint(host.url("hang", name=f"a{number}"), "ann"))
    here.app.callbacks.test(here.app.callbacks.known_endpoint(host.url(name="b"), "bob"))

    async def scenario() -> None:
        async with here.worker(concurrency=1):
            while len(host.seen) < PLACES.per_lane:  # noqa: ASYNC110 - the receiver is in a thread
                await asyncio.sleep(0.05)

    run(scenario)
    assert {each["path"].partition("?")[0] for each in host.seen} == {"/a0", "/a1"}


def test_the_kind_of_callbacks_is_nobody_elses(here: Ground) -> None:
    with pytest.raises(BadInput, match="another name"):
        here.app.task("callback")


def test_a_url_that_is_not_public_is_refused_when_the_job_is_handed_in(here: Ground, tmp_path: Path) -> None:
    strict = Ground(tmp_path, HANDLERS, callback_key=KEY)
    with pytest.raises(BadInput, match="callback_loopback"):
        strict.app.start("words", {"text": "one"}, callback="http://127.0.0.1:9/")
    assert strict.app.ledger.list_jobs(Query()).items == ()
    strict.app.close()


def test_a_ledger_that_machines_share_needs_a_key_that_they_share(here: Ground, tmp_path: Path) -> None:
    kept, other = Ground(tmp_path / "kept", HANDLERS), Ground(tmp_path / "other", HANDLERS)
    assert kept.app.callbacks.key() == other.app.callbacks.key()
    assert (tmp_path / "ledger.db-callback.key").stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ledger.db-callback.key"]
    kept.app._given_ledger = "postgresql://db.example/forebay"
    with pytest.raises(BadInput, match="FOREBAY_CALLBACK_KEY"):
        kept.app.callbacks.key()


class _Fixed(Sender):
    async def post(self, target: object, headers: object, body: bytes) -> Answer:
        return ANSWERS[0]


ANSWERS: list[Answer] = []


def _failed(answer: Answer, retry_count: int = 0) -> Exception:
    ANSWERS[:] = [answer]
    ledger = MemoryLedger()
    deliverer = Deliverer(
        ledger=lambda: ledger,
        sender=lambda: _Fixed(policy=Policy()),
        key=lambda: b"k" * 32,
        jitter=lambda: 1.0,
    )

    class Told:
        task_id, tenant, attempt = "a" * 26, "default", 1

    told = Told()
    told.retry_count = retry_count  # type: ignore[attr-defined]

    async def scenario() -> Exception:
        try:
            await deliverer.deliver(told, "b" * 26, "https://example.com/", {})  # type: ignore[arg-type]
        except (Retry, Permanent) as error:
            return error
        raise AssertionError("it was delivered")

    return run(scenario)


def _answer(status: int, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, headers=named, received_at=1_800_000_000.0)


def test_the_schedule_is_that_of_the_standard_and_a_little_more() -> None:
    assert sum(SCHEDULE_S) == 75 * 3600 + 35 * 60 + 5
    for count, pause_s in enumerate(SCHEDULE_S):
        error = _failed(_answer(500), count)
        assert isinstance(error, Retry)
        assert error.delay_s == pytest.approx(pause_s * 1.1)


@pytest.mark.parametrize(
    ("answer", "delay_s"),
    [
        (_answer(429, retry_after="600"), 600),
        (_answer(503, retry_after="1"), 5.5),
        (_answer(429, retry_after="999999999"), 86_400),
        (_answer(429), 5.5),
        (_answer(500, retry_after="600"), 5.5),
    ],
)
def test_a_receiver_that_asks_for_time_gets_it(answer: Answer, delay_s: float) -> None:
    error = _failed(answer)
    assert isinstance(error, Retry)
    assert error.delay_s == pytest.approx(delay_s)
