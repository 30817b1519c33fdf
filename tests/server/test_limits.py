from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path

import httpx2
import pytest

from forebay.app.forebay import Forebay
from forebay.errors import Busy
from forebay.ids import random_id
from forebay.limits.lent import Owner, Turn
from forebay.model.exchange import Action
from forebay.model.job import NewJob
from forebay.model.limit import Limit, Window
from forebay.model.limit_record import Record
from forebay.server import slots
from forebay.testing.workers import chunk
from tests.limits.ground import until
from tests.server.ground import NOBODY, Service, problem, serving

NONE = {"units": {"pages": 0}}


@pytest.fixture
def limited(service: Service) -> Service:
    service.app.limiter.define(Limit("api", in_flight=2, windows=[Window(100, per_s=60, unit="pages")]))
    return service


def free(app: Forebay, in_flight: int) -> None:
    """What was given back reaches the store a little later."""
    until(lambda: app.limiter.usage("api").in_flight == in_flight, within_s=10)


def test_limits_are_shown_and_changed(service: Service) -> None:
    assert service.get("/v1/limits").json() == {"items": []}
    problem(service.get("/v1/limits/api"), 404, "not_found")
    made = service.client.patch(
        "/v1/limits/api", json={"in_flight": 3, "windows": [{"n": 10, "per_s": 60}], "note": "new"}
    )
    assert (made.status_code, made.json()["limit"]["in_flight"]) == (200, 3)
    (listed,) = service.get("/v1/limits").json()["items"]
    assert (listed["name"], listed["free"], listed["layers"][0]["note"]) == ("api", 3, "new")
    bounded = service.client.patch("/v1/limits/units", json={"in_flight": {"calls": 4, "pages": 50}}).json()
    assert (bounded["limit"]["in_flight"], bounded["limit"]["in_flight_units"]) == (4, {"pages": 50})
    assert bounded["units_in_flight"] == [{"unit": "pages", "n": 50, "used": 0, "free": 50, "utilisation": 0.0}]
    paused = service.client.patch("/v1/limits/api", json={"in_flight": 0})
    assert (paused.status_code, paused.json()["paused"]) == (200, True)
    for wrong in ({"in_flight": -1}, {"in_flight": 1e12}, {"in_flight": "5"}, {"color": 1}, {"windows": [{"n": 1}]}):
        problem(service.client.patch("/v1/limits/api", json=wrong), 422, "invalid_request")
    problem(service.client.patch("/v1/limits/api", json={}), 422, "bad_input")
    nan = service.client.patch(
        "/v1/limits/api", content=b'{"in_flight": NaN}', headers={"content-type": "application/json"}
    )
    problem(nan, 400, "bad_json")
    problem(service.get("/v1/limits/UPPER"), 422, "invalid_request")


def test_a_limit_is_paused_resumed_and_reset(limited: Service) -> None:
    path = "/v1/limits/api"
    assert limited.post(f"{path}/pause", json={"for_s": 600, "note": "x"}).json()["paused"]
    with pytest.raises(Busy), limited.app.limiter.slot("api", units={"pages": 0}, timeout_s=0):
        pass
    until(lambda: limited.app.limiter.usage("api").waiting == 0)  # else it might be granted, once there is room again
    assert not limited.post(f"{path}/resume").json()["paused"]
    assert limited.post(f"{path}/reset", json={"everything": True}).json() == {"limit": "api", "forgotten_count": 0}
    for verb in ("pause", "resume", "reset"):
        problem(limited.post(f"/v1/limits/none/{verb}"), 404, "not_found")


@pytest.mark.slow
def test_limits_of_file_environment_and_code_are_defined_without_a_worker(
    app: Forebay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text("[limits.adobe]\nin_flight = 2\n")
    monkeypatch.setenv("FOREBAY_CONFIG", str(file))
    monkeypatch.setenv("FOREBAY_LIMIT_MODEL_IN_FLIGHT", "4")
    app.limit(Limit("ocr", in_flight=3))
    with serving(app) as service:
        found = {each["name"]: each["limit"]["in_flight"] for each in service.get("/v1/limits").json()["items"]}
        assert found == {"adobe": 2, "ocr": 3, "model": 4}
        assert service.post("/v1/limits/adobe/slots").status_code == 201
        file.write_text("[limits.adobe]\nin_flight = 77\n")
        until(lambda: service.get("/v1/limits/adobe").json()["limit"]["in_flight"] == 77, within_s=20)


def test_all_that_changes_a_limit_is_audited(app: Forebay) -> None:
    app.limiter.define(Limit("api", in_flight=2))
    with serving(app, keyed=True) as service:
        boss, slots_only = service.keyed("operate", "read"), service.keyed("slots", tenant="ann")
        key_id = boss["authorization"].split("_")[1]
        path = "/v1/limits/api"
        order = {"in_flight": 5, "start_within_s": 2, "for_s": 600, "note": "contract"}
        changed = service.client.patch(path, json=order, headers=boss)
        assert (changed.status_code, changed.json()["limit"]["start_within_s"]) == (200, 2)
        paused = service.post(f"{path}/pause", json={"for_s": 60, "note": "why"}, headers=boss).json()
        assert (paused["paused"], paused["paused_by"]) == (True, f"key:{key_id}")
        assert service.post(f"{path}/resume", headers=boss).json()["paused_by"] == ""
        assert service.post(f"{path}/reset", json={"everything": True}, headers=boss).status_code == 200
        slot = service.post(f"{path}/slots", headers=slots_only).headers["location"]
        said = {"outcome": "throttled", "retry_after_s": 3}
        assert service.client.request("DELETE", slot, json=said, headers=slots_only).status_code == 204
        lines = [line for line in app.ledger.audit() if line.verb.endswith("_limit")][::-1]
        assert [line.verb for line in lines] == [
            "set_limit",
            "pause_limit",
            "resume_limit",
            "reset_limit",
            "throttle_limit",
        ]
        assert {line.targets for line in lines} == {("api",)}
        assert {line.who for line in lines[:4]} == {f"key:{key_id}"}
        assert lines[0].note == "in_flight=5, start_within_s=2.0, for 600 s; contract"
        assert (lines[4].tenant, lines[4].note) == ("ann", "retry_after_s=3")


def test_a_slot_counts_for_every_process_until_it_is_given_back(limited: Service) -> None:
    path = "/v1/limits/api/slots"
    first = limited.post(path, json={"units": {"pages": 60}, "label": "one"})
    assert first.status_code == 201
    assert (first.json()["lease_s"], first.json()["call_timeout_s"]) == (15, 60)
    assert 0 <= first.json()["start_by_s"] <= first.json()["start_within_s"] == 0.25
    assert first.json()["granted_at"].endswith("Z")
    with limited.app.limiter.slot("api", units={"pages": 0}, timeout_s=0):
        full = limited.post(path, json=NONE)
        problem(full, 429, "busy")
        assert int(full.headers["retry-after"]) >= 1
    free(limited.app, 1)
    # A window that has no room, though calls might start.
    problem(limited.post(path, json={"units": {"pages": 60}}), 429, "busy")
    assert limited.client.patch(first.headers["location"]).status_code == 200
    assert limited.client.patch(first.headers["location"], json={"start": True}).status_code == 200
    ended = limited.client.request("DELETE", first.headers["location"], json={"outcome": "ok", "units": {"pages": 10}})
    assert ended.status_code == 204
    usage = limited.app.limiter.usage("api")
    assert (usage.in_flight, usage.windows[0].used, usage.waiting) == (0, 10, 0)
    problem(limited.client.delete(first.headers["location"]), 410, "slot_lost")
    problem(limited.client.patch(first.headers["location"]), 410, "slot_lost")
    problem(limited.client.patch(f"{path}/{NOBODY}"), 410, "slot_lost")
    problem(limited.post(path, json={"units": {"pages": 101}}), 422, "never_fits")
    problem(limited.post(path), 422, "never_fits")  # the limit counts pages, and none are named
    problem(limited.post("/v1/limits/none/slots"), 404, "not_found")


def test_what_a_call_took_is_checked_before_its_slot_ends(limited: Service) -> None:
    path = limited.post("/v1/limits/api/slots", json={"units": {"pages": 5}}).headers["location"]
    wrong = {"calls": -5}, {"pages": -1}, {"pages": 10**12}
    for units in wrong:
        problem(limited.client.request("DELETE", path, json={"units": units}), 422, "bad_input")
        problem(limited.post("/v1/limits/api/slots", json={"units": units}), 422, "bad_input")
    problem(limited.client.request("DELETE", path, json={"units": {"stamps": 1}}), 422, "never_fits")
    assert limited.app.limiter.usage("api").in_flight == 1
    assert limited.client.request("DELETE", path, json={"units": {"pages": 7}}).status_code == 204
    assert limited.app.limiter.usage("api").windows[0].used == 7


def test_slots_of_a_limit_that_there_is_not_are_a_404(limited: Service) -> None:
    for method in ("PATCH", "DELETE"):
        problem(limited.client.request(method, f"/v1/limits/none/slots/{NOBODY}"), 404, "not_found")
        problem(limited.client.request(method, f"/v1/limits/api/slots/{NOBODY}"), 410, "slot_lost")


@pytest.mark.slow
def test_who_stands_in_line_gets_the_slot_that_is_given_back(limited: Service) -> None:
    path = "/v1/limits/api/slots"
    held = [limited.post(path, json=NONE).headers["location"] for _ in range(2)]
    threading.Timer(0.3, lambda: limited.client.delete(held[0])).start()
    began = time.monotonic()
    with serving(limited.app) as other:
        waited = other.post(path, json={**NONE, "wait_s": 30})
        assert waited.status_code == 201
        assert time.monotonic() - began < 20
        # Whichever server is asked, the slot is the same.
        assert limited.client.delete(waited.headers["location"]).status_code == 204
    assert limited.client.delete(held[1]).status_code == 204
    assert limited.app.limiter.usage("api").in_flight == 0


def test_a_refusal_of_the_provider_cools_everybody_down(limited: Service) -> None:
    held = limited.post("/v1/limits/api/slots", json=NONE).headers["location"]
    body = {"outcome": "throttled", "retry_after_s": 30}
    assert limited.client.request("DELETE", held, json=body).status_code == 204
    assert limited.app.limiter.usage("api").cooldown_for_s > 20
    refused = limited.post("/v1/limits/api/slots", json=NONE)
    problem(refused, 429, "busy")
    assert int(refused.headers["retry-after"]) > 20


def refusals(service: Service) -> tuple[int, float]:
    """What a caller of the service is told to sleep, and what a caller of the limiter is told."""
    refused = service.post("/v1/limits/api/slots", json=NONE)
    problem(refused, 429, "busy")
    with pytest.raises(Busy) as caught, service.app.limiter.slot("api", units={"pages": 0}, timeout_s=0):
        raise AssertionError("the limit is full")
    until(lambda: service.app.limiter.usage("api").waiting == 0)
    return int(refused.headers["retry-after"]), caught.value.retry_in_s


def test_a_refused_caller_is_told_to_sleep_as_long_as_a_caller_of_the_limiter(limited: Service) -> None:
    path = "/v1/limits/api/slots"
    held = [limited.post(path, json=NONE).headers["location"] for _ in range(2)]
    assert refusals(limited) == (1, 1.0)  # no call has ended: nobody knows how long they take
    for slot in held:
        assert limited.client.delete(slot).status_code == 204
    held = [limited.post(path, json=NONE).headers["location"] for _ in range(2)]
    told, expected = refusals(limited)
    assert told == max(1, ceil(expected))
    for slot in held:
        assert limited.client.delete(slot).status_code == 204
    limited.app.limiter.pause("api")
    assert refusals(limited) == (5, 5.0)  # until somebody resumes it


def age_calls(app: Forebay, ms: int) -> None:
    """Have calls of the limit begun so much earlier, while their leases stay as they are."""

    def step(record: Record | None, _: int) -> Record | None:
        assert record is not None
        for seat in record["sessions"].values():
            for call in seat["calls"]:
                call["granted_at"] -= ms
                call["call_until"] -= ms
            for grant in seat["unconfirmed"]:
                grant["granted_at"] -= ms
        return record

    app.limiter._store.change("api", step)


def test_a_refusal_that_names_no_time_to_wait_cools_the_limit_down(limited: Service) -> None:
    slot = limited.post("/v1/limits/api/slots", json=NONE).headers["location"]
    said = {"outcome": "throttled", "retry_after_s": 0}
    assert limited.client.request("DELETE", slot, json=said).status_code == 204
    assert limited.app.limiter.usage("api").cooldown_for_s > 1


def test_a_caller_is_told_how_much_of_the_time_to_start_is_left(limited: Service) -> None:
    limited.app.limiter.configure("api", start_within_s=30)
    slot = limited.post("/v1/limits/api/slots", json=NONE)
    path, granted_at = slot.headers["location"], slot.json()["granted_at"]
    age_calls(limited.app, 20_000)
    kept = limited.client.patch(path).json()
    assert kept["start_within_s"] == 30
    assert kept["start_by_s"] <= 10
    assert kept["granted_at"] < granted_at
    started = limited.client.patch(path, json={"start": True}).json()
    assert started["start_by_s"] == 30
    assert started["granted_at"] >= granted_at


def test_the_time_to_start_counts_from_the_grant_and_not_from_when_it_is_heard(limited: Service) -> None:
    limited.app.limiter.configure("api", in_flight=1, start_within_s=30)
    lender, owner = limited.app.limiter.lender, Owner("anybody")

    def ask(slot_id: str, n: int) -> Turn:
        return lender.ask("api", slot_id, n, owner=owner, label="", units={"pages": 0})

    first, second = random_id(), random_id()
    assert ask(first, 1).granted
    assert not ask(second, 1).granted
    lender.end("api", first, owner=owner)
    age_calls(limited.app, 20_000)
    heard = ask(second, 2)
    assert (heard.granted, heard.start_within_s) == (True, 30)
    assert heard.age_s >= 20


@pytest.mark.slow
def test_a_tenant_does_not_keep_a_slot_beyond_its_share_for_longer_than_a_call_may_take(app: Forebay) -> None:
    app.limiter.define(Limit("api", in_flight=4, lease_s=15, call_timeout_s=60))
    with serving(app, slots_share=0.5) as service:
        ann, bob = service.keyed("slots", tenant="ann"), service.keyed("slots", tenant="bob")
        path = "/v1/limits/api/slots"
        held = [service.post(path, headers=ann).headers["location"] for _ in range(4)]
        waiting = threading.Thread(target=lambda: service.post(path, json={"wait_s": 30}, headers=bob))
        waiting.start()
        until(lambda: app.limiter.usage("api").waiting == 1, within_s=10)
        try:
            age_calls(app, 59_000)
            assert [service.client.patch(slot, headers=ann).status_code for slot in held] == [200] * 4
            age_calls(app, 10_000)
            problem(service.client.patch(held[0], headers=ann), 410, "slot_lost")
        finally:
            waiting.join(20)  # for what ann has lost
        # What a tenant has within its share may take longer.
        assert service.client.delete(held[1], headers=ann).status_code == 204
        assert service.client.patch(held[2], headers=ann).status_code == 200


def throttled(service: Service, who: dict[str, str], retry_after_s: float) -> None:
    slot = service.post("/v1/limits/api/slots", json=NONE, headers=who)
    assert slot.status_code == 201, slot.text
    said = {"outcome": "throttled", "retry_after_s": retry_after_s}
    assert service.client.request("DELETE", slot.headers["location"], json=said, headers=who).status_code == 204


def test_a_tenant_cools_itself_down_and_everybody_only_when_another_one_confirms_it(limited: Service) -> None:
    ann, bob, boss = limited.keyed("slots", tenant="ann"), limited.keyed("slots", tenant="bob"), limited.keyed("slots")
    throttled(limited, ann, 86_400)
    refused = limited.post("/v1/limits/api/slots", json=NONE, headers=ann)
    problem(refused, 429, "busy")
    assert 20 < int(refused.headers["retry-after"]) <= 30
    assert limited.app.limiter.usage("api").cooldown_for_s == 0
    # Others go on: our own process, keys without a tenant, another tenant.
    with limited.app.limiter.slot("api", units={"pages": 0}, timeout_s=0):
        pass
    free(limited.app, 0)
    slot = limited.post("/v1/limits/api/slots", json=NONE, headers=boss)
    assert slot.status_code == 201
    assert limited.client.delete(slot.headers["location"], headers=boss).status_code == 204
    throttled(limited, bob, 86_400)
    assert 20 < limited.app.limiter.usage("api").cooldown_for_s <= 30
    problem(limited.post("/v1/limits/api/slots", json=NONE, headers=boss), 429, "busy")


def test_the_same_tenant_does_not_confirm_itself(limited: Service) -> None:
    keys = [limited.keyed("slots", tenant="ann") for _ in range(2)]
    held = [limited.post("/v1/limits/api/slots", json=NONE, headers=key).headers["location"] for key in keys]
    for key, slot in zip(keys, held, strict=True):
        said = {"outcome": "throttled", "retry_after_s": 60}
        assert limited.client.request("DELETE", slot, json=said, headers=key).status_code == 204
    assert limited.app.limiter.usage("api").cooldown_for_s == 0


def slot_ended(service: Service, who: dict[str, str], **said: object) -> httpx2.Response:
    """Take a slot and give it back with what became of the call; what that was answered."""
    slot = service.post("/v1/limits/api/slots", json=NONE, headers=who)
    assert slot.status_code == 201, slot.text
    return service.client.request("DELETE", slot.headers["location"], json=said, headers=who)


def failed(service: Service, who: dict[str, str]) -> None:
    assert slot_ended(service, who, outcome="failed").status_code == 204


def test_failures_that_a_tenant_reports_cool_down_that_tenant_and_others_when_they_confirm_it(
    limited: Service,
) -> None:
    ann, bob, cid = (limited.keyed("slots", tenant=name) for name in ("ann", "bob", "cid"))
    for _ in range(2):
        failed(limited, ann)
    assert slot_ended(limited, ann, outcome="ok").status_code == 204  # the row begins again
    for _ in range(3):
        failed(limited, ann)
    refused = limited.post("/v1/limits/api/slots", json=NONE, headers=ann)
    problem(refused, 429, "busy")
    assert limited.app.limiter.usage("api").cooldown_for_s == 0
    for _ in range(2):
        failed(limited, bob)
    assert limited.app.limiter.usage("api").cooldown_for_s == 0
    failed(limited, bob)
    assert 0 < limited.app.limiter.usage("api").cooldown_for_s <= 30
    problem(limited.post("/v1/limits/api/slots", json=NONE, headers=cid), 429, "busy")
    lines = [line for line in limited.app.ledger.audit() if line.verb == "fail_limit"][::-1]
    assert [line.tenant for line in lines] == ["ann"] * 5 + ["bob"] * 3
    assert [line.note for line in lines[:5]] == ["", "", "", "", "cools the tenant down for 2 s"]
    assert lines[-1].note == "cools the tenant down for 2 s, cools everybody down for 2 s"


def test_failures_that_a_key_without_a_tenant_reports_open_the_breaker(limited: Service) -> None:
    """The control: whoever speaks for the operator is believed at once."""
    boss = limited.keyed("slots")
    for _ in range(3):
        failed(limited, boss)
    assert limited.app.limiter.usage("api").cooldown_for_s > 0


def test_a_call_of_our_own_that_failed_confirms_what_a_tenant_reports(limited: Service) -> None:
    failed(limited, limited.keyed("slots"))
    ann = limited.keyed("slots", tenant="ann")
    for _ in range(3):
        failed(limited, ann)
    assert limited.app.limiter.usage("api").cooldown_for_s > 0


def test_a_tenants_call_takes_at_most_twice_what_it_reserved_and_never_more_than_a_window(limited: Service) -> None:
    ann, boss = limited.keyed("slots", tenant="ann"), limited.keyed("slots")
    path = "/v1/limits/api/slots"

    def ended(reserved: int, took: int, who: dict[str, str]) -> httpx2.Response:
        slot = limited.post(path, json={"units": {"pages": reserved}}, headers=who)
        assert slot.status_code == 201, slot.text
        answer = limited.client.request(
            "DELETE", slot.headers["location"], json={"units": {"pages": took}}, headers=who
        )
        if answer.status_code == 422:  # the slot stays
            assert limited.client.delete(slot.headers["location"], headers=who).status_code == 204
        return answer

    def used() -> int:
        return limited.app.limiter.usage("api").windows[0].used

    for reserved, took in ((0, 1), (10, 21)):
        problem(ended(reserved, took, ann), 422, "bad_input")
    assert used() == 10
    assert ended(10, 20, ann).status_code == 204
    assert ended(10, 3, ann).status_code == 204
    assert used() == 33
    problem(ended(60, 101, ann), 422, "bad_input")
    lines = [line for line in limited.app.ledger.audit() if line.verb == "exceed_limit"]
    assert [(line.tenant, line.note) for line in lines] == [("ann", "pages=20")]
    # The control: the operator's own calls may have taken anything that fits.
    limited.app.limiter.reset("api", everything=True)
    assert ended(1, 90, boss).status_code == 204
    assert used() == 90


def test_a_tenants_call_counts_as_one_call_or_two(app: Forebay) -> None:
    app.limiter.define(Limit("api", windows=[Window(60, per_s=60)]))
    with serving(app, keyed=True) as service:
        ann = service.keyed("slots", tenant="ann")
        slot = service.post("/v1/limits/api/slots", headers=ann).headers["location"]
        for count in (60, 3):
            answer = service.client.request("DELETE", slot, json={"units": {"calls": count}}, headers=ann)
            problem(answer, 422, "bad_input")
        assert service.client.request("DELETE", slot, json={"units": {"calls": 2}}, headers=ann).status_code == 204
        assert app.limiter.usage("api").windows[0].used == 2


def forget_refusals(app: Forebay) -> None:
    """Let what counts of refused callers be over."""

    def step(record: Record | None, _: int) -> Record | None:
        assert record is not None
        record["refused_callers"] = dict.fromkeys(record.get("refused_callers", ()), 1)
        return record

    app.limiter._store.change("api", step)


@pytest.mark.parametrize(("share", "refused"), [(0.5, True), (1.0, False)])
def test_a_tenant_leaves_others_their_share_also_if_they_stand_in_no_line(
    app: Forebay,
    share: float,
    refused: bool,  # noqa: FBT001 - a case
) -> None:
    """With a share of 1.0, the control, one tenant keeps all slots for as long as it renews them."""
    app.limiter.define(Limit("api", in_flight=4, call_timeout_s=60))
    with serving(app, keyed=True, slots_share=share) as service:
        ann, bob = service.keyed("slots", tenant="ann"), service.keyed("slots", tenant="bob")
        path = "/v1/limits/api/slots"
        held = [service.post(path, headers=ann).headers["location"] for _ in range(4)]
        problem(service.post(path, headers=bob), 429, "busy")
        assert service.client.delete(held.pop(), headers=ann).status_code == 204
        # The slot that is free now is not ann's, for the time in which bob should ask again.
        again = service.post(path, headers=ann)
        assert again.status_code == (429 if refused else 201)
        if refused:
            problem(again, 429, "too_many_slots")
        forget_refusals(app)
        held.append((service.post(path, headers=ann) if refused else again).headers["location"])
        assert app.limiter.usage("api").in_flight == 4
        age_calls(app, 70_000)
        assert [service.client.patch(slot, headers=ann).status_code for slot in held] == [200] * 4
        problem(service.post(path, headers=bob), 429, "busy")
        assert service.client.patch(held[0], headers=ann).status_code == (410 if refused else 200)
        assert service.post(path, headers=bob).status_code == (201 if refused else 429)


def test_callers_of_a_tenant_that_has_its_share_leave_the_line_for_others_who_stand_in_none(app: Forebay) -> None:
    app.limiter.define(Limit("api", in_flight=2))
    with serving(app, keyed=True, slots_share=0.5) as service, ThreadPoolExecutor() as aside:
        ann, bob = service.keyed("slots", tenant="ann"), service.keyed("slots", tenant="bob")
        path = "/v1/limits/api/slots"
        held = [service.post(path, headers=ann).headers["location"] for _ in range(2)]
        waiting = aside.submit(service.post, path, json={"wait_s": 19}, headers=ann)
        until(lambda: app.limiter.usage("api").waiting == 1, within_s=10)
        problem(service.post(path, headers=bob), 429, "busy")
        problem(waiting.result(), 429, "too_many_slots")
        assert service.client.delete(held[0], headers=ann).status_code == 204
        assert service.post(path, headers=bob).status_code == 201


def test_a_key_for_slots_can_do_nothing_else(limited: Service) -> None:
    only = limited.keyed("slots", tenant="ann")
    slot = limited.post("/v1/limits/api/slots", json=NONE, headers=only).headers["location"]
    assert limited.client.patch(slot, json={"start": True}, headers=only).status_code == 200
    assert limited.client.delete(slot, headers=only).status_code == 204
    for method, path in (
        ("GET", "/v1/jobs"),
        ("GET", "/v1/limits"),
        ("POST", "/v1/jobs"),
        ("PATCH", "/v1/limits/api"),
        ("POST", f"/v1/dead/{NOBODY}/requeue"),
        ("DELETE", f"/v1/jobs/{NOBODY}"),
    ):
        problem(limited.client.request(method, path, headers=only), 403, "missing_scope")


@pytest.mark.slow
@pytest.mark.parametrize(("share", "taken"), [(0.5, 2), (1.0, 4)])
def test_a_tenant_has_a_share_of_the_slots_while_others_use_the_limit(app: Forebay, share: float, taken: int) -> None:
    """With a share of 1.0, the control, one tenant takes all that is left."""
    app.limiter.define(Limit("api", in_flight=5))
    with serving(app, slots_share=share) as service:
        ann, bob = service.keyed("slots", tenant="ann"), service.keyed("slots", tenant="bob")
        path = "/v1/limits/api/slots"
        other = service.post(path, headers=bob).headers["location"]
        found = [service.post(path, headers=ann) for _ in range(5)]
        assert [each.status_code for each in found] == [201] * taken + [429] * (5 - taken)
        assert service.client.delete(other, headers=bob).status_code == 204
        # Alone, a tenant may have all of them.
        more = [service.post(path, headers=ann).status_code for _ in range(5 - taken)]
        assert more == [201] * (5 - taken)
        # What is beyond its share starts no more, once another one waits.
        waiting = threading.Thread(target=lambda: service.post(path, json={"wait_s": 5}, headers=bob))
        waiting.start()
        until(lambda: app.limiter.usage("api").waiting == 1, within_s=10)
        late = service.client.patch(found[0].headers["location"], json={"start": True}, headers=ann)
        assert late.status_code == (409 if share < 1 else 200), late.text
        assert service.client.delete(found[0].headers["location"], headers=ann).status_code == 204
        waiting.join(20)


def test_a_key_has_its_own_slots_and_not_too_many(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MAX_SLOTS", 2)
    app.limiter.define(Limit("api", in_flight=10))
    with serving(app) as service:
        ann, bob = service.keyed("operate", tenant="ann"), service.keyed("operate")
        path = "/v1/limits/api/slots"
        first = service.post(path, headers=ann)
        assert first.status_code == 201
        assert service.post(path, headers=ann).status_code == 201
        problem(service.post(path, headers=ann), 429, "too_many_slots")
        assert service.post(path, headers=bob).status_code == 201
        problem(service.client.delete(first.headers["location"], headers=bob), 410, "slot_lost")
        assert service.client.delete(first.headers["location"], headers=ann).status_code == 204
        problem(service.post(path, headers=service.keyed("submit")), 403, "missing_scope")
        problem(service.client.patch("/v1/limits/api", json={"in_flight": 1}, headers=ann), 403, "tenant_key")


def test_a_tenant_sees_how_much_others_hold_and_not_who_they_are(limited: Service) -> None:
    ann, bob = (limited.keyed("read", "operate", tenant=name) for name in ("ann", "bob"))
    everybody = limited.keyed("read")
    taken = limited.post("/v1/limits/api/slots", json={**NONE, "label": "merger.pdf"}, headers=ann)
    slot_id = taken.json()["id"]
    key_id = ann["authorization"].split("_")[1]
    limited.app.limiter.configure("api", in_flight=2, who=f"key:{key_id}", note="contract 77", call_timeout_s=61)
    limited.app.limiter.pause("api", note="merger of ann", who=f"key:{key_id}")
    secrets = (slot_id, key_id, "merger.pdf", "contract 77", "merger of ann", "http:ann/")
    for path in ("/v1/limits/api", "/v1/limits"):
        told = limited.get(path, headers=bob)
        assert [each for each in secrets if each in told.text] == []
        (seen,) = told.json().get("items", [told.json()])
        (holder,) = seen["holders"]
        assert (seen["in_flight"], len(holder["calls"]), holder["alive"]) == (1, 1, True)
        assert all(each in limited.get(path, headers=everybody).text for each in secrets)
    seen = limited.get("/v1/limits/api", headers=ann).json()
    assert seen["keys"] == [{"key": "http:ann/", "in_flight": 1, "waiting": 0}]
    (own,) = seen["holders"]
    assert (own["session"], own["calls"][0]["label"]) == (slot_id, "merger.pdf")


def test_why_shows_the_notes_of_pauses_to_operators_only(app: Forebay) -> None:
    app.limiter.define(Limit("api", in_flight=2))
    job = NewJob(pipeline="ocr", tenant="ann", tasks=(chunk(0, limit="api"), chunk(1, limit="api")))
    app.ledger.submit([job])
    lane = job.tasks[0].lane
    with serving(app, keyed=True) as service:
        boss = service.keyed("operate", "read")
        others = (
            service.keyed("read"),
            service.keyed("read", tenant="ann"),
            service.keyed("operate", "read", tenant="ann"),
        )
        service.post("/v1/limits/api/pause", json={"note": "Bob (of ACME) has not paid"}, headers=boss)
        app.ledger.pause(lane, Action(who="cli:carl", note="Carl looks at it"))
        path = f"/v1/jobs/{job.id}/why"
        told = service.get(path, headers=boss)
        hidden = [service.get(path, headers=each) for each in others]
    notes = {each["note"]: each["text"] for each in told.json()["reasons"] if each["note"]}
    assert notes.keys() == {"Bob (of ACME) has not paid", "Carl looks at it"}
    assert all(f" ({note}): `forebay " in text for note, text in notes.items())
    for answer in hidden:
        assert answer.status_code == 200
        assert not any(name in answer.text for name in ("Bob", "ACME", "Carl", "carl"))
        texts = " ".join(each["text"] for each in answer.json()["reasons"])
        assert "limit 'api' is paused: `forebay limits resume api`" in texts
        assert {each["note"] for each in answer.json()["reasons"]} == {""}


def test_why_names_who_paused_the_limit_but_not_to_a_tenant(app: Forebay) -> None:
    app.limiter.define(Limit("api", in_flight=2))
    job = NewJob(pipeline="ocr", tenant="ann", tasks=(chunk(0, limit="api"), chunk(1, limit="api")))
    app.ledger.submit([job])
    with serving(app, keyed=True) as service:
        boss, ann = service.keyed("operate", "read"), service.keyed("read", tenant="ann")
        service.post("/v1/limits/api/pause", json={}, headers=boss)
        told = service.get(f"/v1/jobs/{job.id}/why", headers=boss).json()
        hidden = service.get(f"/v1/jobs/{job.id}/why", headers=ann).json()
        shape = service.get("/openapi.json", headers=boss).json()["components"]["schemas"]["WhyShape"]
    paused_by = {each["code"]: each["paused_by"] for each in told["reasons"]}
    assert paused_by["paused"].startswith("key:")
    assert {each["paused_by"] for each in hidden["reasons"]} == {""}
    assert (told["position"], told["position_is"]) == (1, "exact")
    assert {"position", "position_is"} <= shape["properties"].keys()
