from __future__ import annotations

import asyncio

import pytest

from forebay import Context, Permanent
from forebay.app.forebay import Forebay
from forebay.clock import SystemClock
from forebay.errors import StoreUnreachable
from forebay.ids import random_id
from forebay.model.callback import KIND
from forebay.model.exchange import Progress, Session, Want
from forebay.model.task import Status
from forebay.testing.workers import Worker
from tests.pipelines.works import work
from tests.server.ground import NOBODY, Service, problem


def register(app: Forebay) -> None:
    @app.task("double")
    async def double(ctx: Context, n: int) -> int:
        await asyncio.sleep(0)
        if n < 0:
            raise Permanent("It is below zero", error_class="refused")
        ctx.used("double", "calls", 1)
        return 2 * n


def submit(service: Service, n: int, **headers: str) -> str:
    answer = service.post("/v1/tasks", json={"kind": "double", "payload": {"n": n}}, headers=headers)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == answer.json()["links"]["self"]
    found: str = answer.json()["id"]
    return found


def test_a_task_is_submitted_and_shown_with_its_result(service: Service, app: Forebay) -> None:
    register(app)
    task_id = submit(service, 21)
    assert service.get(f"/v1/tasks/{task_id}").json()["wait_reason"] == "no_worker"
    work(app)
    found = service.get(f"/v1/tasks/{task_id}").json()
    assert (found["status"], found["payload"], found["result"]) == ("completed", {"n": 21}, 42)
    (attempt,) = service.get(f"/v1/tasks/{task_id}/history").json()["items"]
    assert (attempt["attempt"], attempt["outcome"]) == (1, "completed")
    (used,) = service.get("/v1/usage").json()["items"]
    assert (used["meter"], used["unit"], used["amount"]) == ("double", "calls", 1)
    assert service.get("/v1/usage", params={"since": 9_999_999_999}).json()["items"] == []
    problem(service.get(f"/v1/tasks/{NOBODY}"), 404, "not_found")


def test_a_stored_task_is_answered_though_the_store_is_silent_then(
    service: Service, app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = app.ledger.sessions

    def silent_once_stored() -> list[Session]:
        if app.ledger.count():
            raise StoreUnreachable("It is gone.")
        return sessions()

    monkeypatch.setattr(app.ledger, "sessions", silent_once_stored)
    submit(service, 1)
    assert app.ledger.count() == {("double", Status.PENDING): 1}


def test_a_running_task_is_shown_with_its_progress(service: Service, app: Forebay) -> None:
    register(app)
    task_id = submit(service, 21)
    worker = Worker(app.ledger, SystemClock())
    task = worker.take("double")
    app.ledger.renew(worker.id, [], [Progress(task.id, task.claim_count, 0.25, "page 5 of 20")])
    found = service.get(f"/v1/tasks/{task_id}").json()
    assert (found["progress"], found["progress_note"]) == (0.25, "page 5 of 20")
    worker.complete(task)
    found = service.get(f"/v1/tasks/{task_id}").json()
    assert (found["progress"], found["progress_note"]) == (None, None)


def test_a_key_makes_a_task_once(service: Service, app: Forebay) -> None:
    key = {"idempotency-key": "once"}
    first = service.post("/v1/tasks", json={"kind": "double", "payload": {"n": 1}}, headers=key)
    again = service.post("/v1/tasks", json={"payload": {"n": 1}, "kind": "double"}, headers=key)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert again.headers["forebay-replayed"] == "true"
    other = service.post("/v1/tasks", json={"kind": "double", "payload": {"n": 2}}, headers=key)
    problem(other, 422, "idempotency_conflict")


def test_tasks_that_are_parts_of_jobs_are_not_submitted_alone(service: Service) -> None:
    for kind in ("ocr.split", "segment.merge", KIND):
        problem(service.post("/v1/tasks", json={"kind": kind}), 422, "inner_kind")


def test_dead_letters_are_listed_requeued_and_dropped(service: Service, app: Forebay) -> None:
    register(app)
    good, bad, worse = submit(service, 1), submit(service, -1), submit(service, -2)
    work(app)
    assert [task["id"] for task in service.get("/v1/dead").json()["items"]] == [worse, bad]
    assert service.get("/v1/dead", params={"limit": 1}).json()["next"]
    problem(service.post(f"/v1/dead/{good}/requeue"), 409, "not_dead")
    problem(service.client.delete(f"/v1/dead/{good}"), 409, "not_dead")
    problem(service.post(f"/v1/dead/{NOBODY}/requeue"), 404, "not_found")
    assert service.post(f"/v1/dead/{bad}/requeue", json={"force": True, "note": "try"}).status_code == 202
    assert service.get(f"/v1/tasks/{bad}").json()["status"] == "pending"
    assert service.client.delete(f"/v1/dead/{worse}").status_code == 204
    problem(service.get(f"/v1/tasks/{worse}"), 404, "not_found")
    (attempt,) = service.get(f"/v1/tasks/{bad}/history").json()["items"]
    assert (attempt["error_class"], attempt["traceback"]) == ("refused", None)


def test_every_option_of_a_submission_can_be_sent(service: Service, app: Forebay) -> None:
    given = {
        "priority": 5,
        "start_at": "2099-01-01T00:00:00Z",
        "deadline_at": "2099-01-02T00:00:00+01:00",
        "timeout_s": 7.5,
        "max_retries": 20,
        "max_reschedules": 100,
        "fairness_key": "anna",
        "tags": ["a"],
    }
    answer = service.post("/v1/tasks", json={"kind": "double", "payload": {"n": 1}, **given})
    assert answer.status_code == 202, answer.text
    found = service.get(f"/v1/tasks/{answer.json()['id']}").json()
    assert {name: found[name] for name in ("priority", "timeout_s", "max_retries", "max_reschedules", "tags")} == {
        name: given[name] for name in ("priority", "timeout_s", "max_retries", "max_reschedules", "tags")
    }
    assert found["available_at"].startswith("2099-01-01T00:00:00")
    assert found["deadline_at"].startswith("2099-01-01T23:00:00")
    task = app.ledger.get(found["id"])
    assert task is not None
    assert (task.flow or "").endswith("anna")


def test_options_that_make_no_sense_are_refused(service: Service) -> None:
    for wrong in (
        {"max_reschedules": -1},
        {"deadline_at": "2099-01-01T00:00:00"},  # of which zone?
        {"start_at": "tomorrow"},
        {"fairness_key": ""},
        {"delay_s": 5, "start_at": "2099-01-01T00:00:00Z"},
    ):
        assert service.post("/v1/tasks", json={"kind": "double", **wrong}).status_code == 422, wrong


@pytest.mark.parametrize(("tenant", "quiet_count"), [("ann", 3), (None, 0)])
@pytest.mark.parametrize("keys", [["bob/"] * 30, [f"x{n}" for n in range(30)]], ids=["posing", "many"])
def test_a_tenant_takes_no_other_tenants_turn_by_its_keys(
    service: Service,
    app: Forebay,
    keys: list[str],
    tenant: str | None,
    quiet_count: int,
) -> None:
    """Without a tenant, the control, a caller is trusted with keys that stand beside those of tenants."""
    ann, bob = service.keyed("submit", tenant=tenant), service.keyed("submit", tenant="bob")
    for key in keys:
        order = {"kind": "double", "payload": {"n": 1}, "fairness_key": key}
        assert service.post("/v1/tasks", json=order, headers=ann).status_code == 202
    for _ in range(3):
        assert service.post("/v1/tasks", json={"kind": "double"}, headers=bob).status_code == 202
    session = Session(id=random_id(), worker="w")
    app.ledger.open_session(session)
    claims = app.ledger.exchange(session.id, 1, wants=[Want("double", 12)]).claims
    assert [task.tenant for task in claims].count("bob") == quiet_count
