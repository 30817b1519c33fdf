"""Kept places over HTTP: ask, be told when to come back, get the slot that nobody else can have."""

from __future__ import annotations

import pytest

from forebay.app.forebay import Forebay
from forebay.model.limit import Limit
from tests.server.ground import Service, problem, serving

PATH = "/v1/limits/api/slots"


@pytest.fixture
def limited(service: Service) -> Service:
    service.app.limiter.define(Limit("api", in_flight=1))
    return service


def test_a_place_is_kept_until_its_slot_is_granted(limited: Service) -> None:
    first = limited.post(PATH, json={"place": "job/1"})
    assert first.status_code == 201
    refused = limited.post(PATH, json={"place": "job/2", "keep_s": 60})
    problem(refused, 429, "busy")
    said = refused.json()
    assert (said["place"], said["position"], said["blocked_by"]) == ("job/2", 0, ["in_flight"])
    assert refused.headers["retry-after"] == "3"
    assert limited.post(PATH, json={"place": "job/3"}).json()["position"] == 1
    shown = limited.get("/v1/limits/api").json()
    assert [each["place"] for each in shown["places"]] == ["job/2", "job/3"]
    assert shown["waiting"] == 2
    assert 55 < shown["places"][0]["ends_in_s"] <= 60
    assert [each["place"] for each in shown["holders"]] == ["job/1"]
    location = first.headers["location"]
    assert limited.client.patch(location, json={"start": True}).status_code == 200
    assert limited.client.request("DELETE", location, json={"outcome": "ok"}).status_code == 204
    assert limited.post(PATH, json={"place": "job/2"}).status_code == 201


def test_a_second_delivery_is_a_conflict_and_cannot_end_the_slot(limited: Service) -> None:
    first = limited.post(PATH, json={"place": "job-1"})
    problem(limited.post(PATH, json={"place": "job-1"}), 409, "place_held")
    slot_id = first.json()["id"]
    session, holder = slot_id.split(".")
    other = session + "." + "a" * len(holder)
    for wrong in (session, other):
        problem(limited.client.patch(f"{PATH}/{wrong}"), 410, "slot_lost")
        problem(limited.client.delete(f"{PATH}/{wrong}"), 410, "slot_lost")
    problem(limited.client.delete("/v1/limits/api/places/job-1"), 409, "place_held")
    assert limited.client.patch(first.headers["location"]).status_code == 200


def test_an_answer_that_was_lost_is_asked_for_again_with_the_same_token(limited: Service) -> None:
    order = {"place": "job-1", "holder": "request 7"}
    first, again = limited.post(PATH, json=order), limited.post(PATH, json=order)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert limited.app.limiter.usage("api").in_flight == 1


def test_a_place_is_given_up(limited: Service) -> None:
    limited.post(PATH, json={"place": "job/1"})
    limited.post(PATH, json={"place": "job/2"})
    assert limited.client.delete("/v1/limits/api/places/job/2").status_code == 204
    assert limited.app.limiter.usage("api").places == ()
    problem(limited.client.delete("/v1/limits/none/places/job"), 404, "not_found")


def test_who_waits_for_a_while_keeps_the_place_as_well(limited: Service) -> None:
    limited.post(PATH, json={"place": "job-1"})
    problem(limited.post(PATH, json={"place": "job-2", "wait_s": 0.3}), 429, "busy")
    assert [each.place for each in limited.app.limiter.usage("api").places] == ["job-2"]


@pytest.mark.parametrize("wrong", [{"keep_s": 1}, {"place": "x" * 201}, {"place": "a", "holder": "h" * 201}])
def test_what_cannot_be_asked_is_refused(limited: Service, wrong: dict[str, object]) -> None:
    problem(limited.post(PATH, json=wrong), 422, "invalid_request")


def test_each_tenant_has_places_of_its_own(app: Forebay) -> None:
    app.limiter.define(Limit("api", in_flight=4))
    with serving(app, keyed=True) as service:
        ann, bob = service.keyed("slots", "read", tenant="ann"), service.keyed("slots", "read", tenant="bob")
        app.limiter.configure("api", in_flight=2)
        assert service.post(PATH, json={"place": "job-1"}, headers=ann).status_code == 201
        assert service.post(PATH, json={"place": "job-1"}, headers=bob).status_code == 201
        problem(service.post(PATH, json={"place": "job-1"}, headers=ann), 409, "place_held")
        app.limiter.configure("api", in_flight=8)
        app.limiter.pause("api")
        problem(service.post(PATH, json={"place": "job-2"}, headers=ann), 429, "busy")
        assert [each["place"] for each in service.get("/v1/limits/api", headers=ann).json()["places"]] == ["job-2"]
        assert service.get("/v1/limits/api", headers=bob).json()["places"] == []
