from __future__ import annotations

import pytest

from forebay.app.forebay import Forebay
from forebay.server.application import create_app
from tests.server.ground import DOCUMENT, NOBODY, PDF, Service, problem

OPERATIONS = [
    (method.upper(), path)
    for path, methods in create_app(Forebay("memory://")).openapi()["paths"].items()
    for method in methods
    if path.startswith("/v1/")
]


def test_a_parameter_that_a_path_does_not_know_is_refused_at_all_of_them(service: Service) -> None:
    assert len(OPERATIONS) > 25
    for method, path in OPERATIONS:
        url = path.format(id=NOBODY, name="api", index=0, place="job-1")
        answer = service.client.request(method, url, params={"fromat": "md"})
        found = problem(answer, 422, "invalid_request")
        assert found["errors"][0]["at"] == "query.fromat", path
        assert found["detail"].startswith("query.fromat: is no parameter here; there are "), path


def test_a_refusal_names_the_parameters_there_are(service: Service) -> None:
    found = problem(service.get("/v1/jobs", params={"tenant": "nobody"}), 422, "invalid_request")
    assert found["detail"].endswith("there are cursor, limit, pipeline, status, tag.")
    found = problem(service.get("/v1/limits", params={"x": ""}), 422, "invalid_request")
    assert found["detail"].endswith("there are none at this path.")
    posted = service.post("/v1/jobs", params={"prioritty": 5}, content=DOCUMENT, headers=PDF)
    assert "priority, processor, reuse" in problem(posted, 422, "invalid_request")["detail"]


@pytest.mark.parametrize("query", ["priority=5&priority=6", "priority=5&priority=5", "name=&name=x"])
def test_a_parameter_that_is_given_twice_is_refused(service: Service, query: str) -> None:
    answer = service.post(f"/v1/jobs?{query}", content=DOCUMENT, headers=PDF)
    assert "is given more than once" in problem(answer, 422, "invalid_request")["detail"]
    problem(service.get("/v1/jobs?limit=5&limit=6"), 422, "invalid_request")


def test_probes_may_carry_whatever_their_sender_puts_there(service: Service) -> None:
    assert service.get("/livez?at=1").status_code == service.get("/readyz?at=1").status_code == 200
