from __future__ import annotations

import pytest

from tests.pipelines.works import work
from tests.server.ground import NOBODY, Service

SAME = ("content-type", "content-length", "etag", "accept-ranges", "content-disposition", "content-range", "allow")


@pytest.mark.slow
def test_head_is_get_without_the_body(service: Service) -> None:
    job = f"/v1/jobs/{service.submit()}"
    work(service.app)
    bare = ("/livez", "/readyz", "/openapi.json", "/v1/jobs", job, f"{job}/result", f"{job}/result?format=md")
    asked: list[tuple[str, dict[str, str]]] = [
        *((path, {}) for path in (*bare, f"/v1/jobs/{NOBODY}", "/nowhere", "/v1/jobs?limit=0")),
        ("/v1/jobs", {"host": "evil.example"}),
    ]
    for path, headers in asked:
        whole, head = service.get(path, headers=headers), service.client.head(path, headers=headers)
        assert (head.status_code, head.content) == (whole.status_code, b""), path
        assert [head.headers.get(name) for name in SAME] == [whole.headers.get(name) for name in SAME], path
    # The line is good for the next request: nothing was sent that nobody reads.
    line = b"HEAD /livez HTTP/1.1\r\nhost: localhost\r\n%s\r\n"
    told = service.say(line % b"" + line % b"connection: close\r\n")
    assert told.count(b"HTTP/1.1 200") == 2
    assert b'"status"' not in told


def test_a_range_is_of_get_alone(service: Service) -> None:
    job = f"/v1/jobs/{service.submit()}"
    work(service.app)
    etag = service.get(f"{job}/result").headers["etag"]
    for wanted, status in (("bytes=2-9", 206), ("bytes=999999-", 416)):
        for headers in ({"range": wanted}, {"range": wanted, "if-range": etag}):
            assert service.get(f"{job}/result", headers=headers).status_code == status
            head = service.client.head(f"{job}/result", headers=headers)
            assert (head.status_code, "content-range" in head.headers) == (200, False)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/v1/events", "GET"), (f"/v1/jobs/{NOBODY}/events", "GET"), ("/v1/tasks", "POST")],
)
def test_what_has_no_end_or_no_get_has_no_head(service: Service, path: str, allowed: str) -> None:
    answer = service.client.head(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_what_is_allowed_names_head(service: Service) -> None:
    assert service.client.put("/v1/jobs").headers["allow"] == "GET, HEAD, POST"
