"""Tenants who upload slowly, or much, leave room for others."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from forebay.app.forebay import Forebay
from forebay.server import bodies
from forebay.server.problems import Refused
from forebay.server.upload_room import FREE_BYTES, UploadRoom
from tests.server.ground import DOCUMENT, PDF, Service, problem, received, serving

MIB = 1 << 20
START = b"%PDF-1.4 this goes on for long"


def head(who: dict[str, str], size: int, to: str = "/v1/jobs") -> bytes:
    more = "".join(f"{name}: {value}\r\n" for name, value in who.items())
    return (
        f"POST {to} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/pdf\r\n{more}"
        f"Content-Length: {size}\r\nExpect: 100-continue\r\n\r\n"
    ).encode()


@contextmanager
def slow_uploads(
    service: Service, who: dict[str, str], count: int, size: int = 60_000_000, to: str = "/v1/jobs"
) -> Iterator[list[bytes]]:
    """Uploads that announce much and send little; what the server said to each after it had read its head."""
    with ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(service.place, 20)) for _ in range(count)]
        for line in lines:
            line.sendall(head(who, size, to))
        said = [line.recv(65536) for line in lines]
        for line, answer in zip(lines, said, strict=True):
            if answer.startswith(b"HTTP/1.1 100 "):
                line.sendall(START)
        yield said


def admitted(said: list[bytes]) -> int:
    return sum(each.startswith(b"HTTP/1.1 100 ") for each in said)


@pytest.fixture
def pair(app: Forebay) -> Iterator[tuple[Service, dict[str, str], dict[str, str]]]:
    # Room that does not depend on how many files this machine lets a process open.
    with serving(app, keyed=True, uploads=UploadRoom()) as service:
        yield service, service.keyed("submit", tenant="a"), service.keyed("submit", tenant="b")


def test_slow_uploads_of_one_tenant_leave_room_for_all_sizes_of_another(
    pair: tuple[Service, dict[str, str], dict[str, str]],
) -> None:
    service, a, b = pair
    with slow_uploads(service, a, 80) as said:
        assert admitted(said) == 80
        for size in (20, 10_000, 300_000, MIB, 10 * MIB):
            document = START + bytes(size)
            answer = service.post("/v1/jobs", content=document[:size], headers=PDF | b)
            assert answer.status_code == 202, (size, answer.text)


def test_a_tenant_gets_a_share_of_the_uploads_and_no_more(app: Forebay) -> None:
    with serving(app, keyed=True, uploads=UploadRoom(most_uploads=16)) as service:
        a, b = service.keyed("submit", tenant="a"), service.keyed("submit", tenant="b")
        with slow_uploads(service, a, 20) as said:
            assert admitted(said) == 4
            assert sum(each.startswith(b"HTTP/1.1 503 ") for each in said) == 16
            large = START + bytes(300_000)
            assert service.post("/v1/jobs", content=large, headers=PDF | b).status_code == 202
            # What is small is taken in also for the tenant that has its share already.
            assert service.post("/v1/jobs", content=DOCUMENT, headers=PDF | a).status_code == 202


def test_without_shares_one_tenant_takes_all(app: Forebay) -> None:
    """The control of the test above."""
    with serving(app, keyed=True, uploads=UploadRoom(most_uploads=16, share=1.0)) as service:
        a, b = service.keyed("submit", tenant="a"), service.keyed("submit", tenant="b")
        with slow_uploads(service, a, 20) as said:
            assert admitted(said) == 16
            refused = service.post("/v1/jobs", content=START + bytes(300_000), headers=PDF | b)
            problem(refused, 503, "too_many_uploads")


def test_small_uploads_of_one_tenant_leave_places_to_another(app: Forebay) -> None:
    with serving(app, keyed=True, uploads=UploadRoom(most_small=8)) as service:
        a, b = service.keyed("submit", tenant="a"), service.keyed("submit", tenant="b")
        with slow_uploads(service, a, 20, size=FREE_BYTES) as said:
            assert admitted(said) == 6
            refused = next(each for each in said if not each.startswith(b"HTTP/1.1 100 "))
            assert refused.startswith(b"HTTP/1.1 503 "), refused
            assert b"too_many_uploads" in refused
            assert b"retry-after: 5" in refused
            for size in (20, 10_000, 300_000):
                document = (START + bytes(size))[:size]
                assert service.post("/v1/jobs", content=document, headers=PDF | b).status_code == 202
        assert service.post("/v1/jobs", content=DOCUMENT, headers=PDF | a).status_code == 202


def test_without_shares_small_uploads_of_one_tenant_take_all_places(app: Forebay) -> None:
    """The control of the test above."""
    with serving(app, keyed=True, uploads=UploadRoom(most_small=8, small_per_free=math.inf)) as service:
        a, b = service.keyed("submit", tenant="a"), service.keyed("submit", tenant="b")
        with slow_uploads(service, a, 20, size=FREE_BYTES) as said:
            assert admitted(said) == 8
            problem(service.post("/v1/jobs", content=DOCUMENT, headers=PDF | b), 503, "too_many_uploads")


def test_bodies_of_json_are_counted_like_documents(app: Forebay) -> None:
    with serving(app, keyed=True, uploads=UploadRoom(most_small=8)) as service:
        a, b = service.keyed("submit", tenant="a"), service.keyed("submit", tenant="b")
        with slow_uploads(service, a, 20, size=FREE_BYTES, to="/v1/tasks") as said:
            assert admitted(said) == 6
            assert service.post("/v1/tasks", json={"kind": "x"}, headers=b).status_code == 202


def test_a_json_body_that_finds_no_memory_is_refused(app: Forebay) -> None:
    with serving(app, uploads=UploadRoom(most_bytes=100_000)) as service:
        large = {"kind": "x", "payload": "x" * 500_000}
        problem(service.post("/v1/tasks", json=large), 503, "too_many_uploads")
        large["payload"] = "x" * 100_000
        assert service.post("/v1/tasks", json=large).status_code == 202


def test_an_upload_that_finds_no_memory_is_written_out_and_taken_in_whole(app: Forebay) -> None:
    room = UploadRoom(most_bytes=0)
    with serving(app, uploads=room) as service:
        document = DOCUMENT + b"%" * (3 * MIB)
        answer = service.post("/v1/jobs", content=document, headers=PDF)
        assert answer.status_code == 202
        job = app.ledger.get_job(answer.json()["id"])
        assert job is not None
        assert job.document is not None
    assert room.held_bytes == 0


def test_memory_is_counted_by_what_came_and_shared_by_tenants() -> None:
    room = UploadRoom(most_bytes=8 * MIB, share=0.25)
    with room.enter("a", small=False) as first, room.enter("a", small=False) as second:
        assert room.held_bytes == 0
        assert first.hold(FREE_BYTES)
        assert room.held_bytes == 0
        assert first.hold(MIB)
        assert room.held_bytes == MIB - FREE_BYTES
        assert second.hold(MIB)
        assert not second.hold(2 * MIB)
        assert second.hold(FREE_BYTES)
        with room.enter("b", small=False) as other:
            assert other.hold(2 * MIB)
    assert room.held_bytes == 0


def test_who_came_without_a_key_may_have_all_of_it() -> None:
    room = UploadRoom(most_bytes=8 * MIB, most_uploads=4, share=0.25)
    with ExitStack() as stack:
        held = [stack.enter_context(room.enter(None, small=False)) for _ in range(4)]
        assert held[0].hold(8 * MIB)
        with pytest.raises(Refused):
            stack.enter_context(room.enter(None, small=False))


def test_the_least_speed_of_a_body_rises_with_its_time() -> None:
    speeds = [bodies.least_bytes_s(waited_s, 30) for waited_s in (0, 29, 30, 60, 90, 120, 150, 100_000)]
    assert speeds == [1024, 1024, 2048, 4096, 8192, 16384, 32768, 32768]


def test_a_trickle_that_was_fast_enough_at_first_is_cut_off(app: Forebay) -> None:
    with serving(app, slow_after_s=0.2) as service, socket.create_connection(service.place, 20) as line:
        line.sendall(head({}, 60_000_000))
        assert line.recv(65536).startswith(b"HTTP/1.1 100 ")
        over = threading.Event()

        def trickle() -> None:
            # Three times the first bound, and less than the last one.
            while not over.wait(0.1):
                try:
                    line.sendall(b"%" * 300)
                except OSError:
                    return

        sender = threading.Thread(target=trickle)
        sender.start()
        try:
            line.settimeout(10)
            answer = received(line)
        finally:
            over.set()
            sender.join(10)
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        assert b"too_slow" in answer


@pytest.mark.slow
def test_the_time_that_the_server_takes_is_not_the_senders(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is slow for longer than a sender may be must not cost the sender their upload."""
    writing = app.blobs.writing

    def slowly(tenant: str) -> object:
        time.sleep(0.5)
        return writing(tenant)

    monkeypatch.setattr(app.blobs, "writing", slowly)
    with serving(app, slow_after_s=0.3) as service:
        document = DOCUMENT + b"%" * (2 * MIB)
        assert service.post("/v1/jobs", content=document, headers=PDF).status_code == 202
