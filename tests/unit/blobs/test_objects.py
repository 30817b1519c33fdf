import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from forebay.blobs import BlobRef, Blobs, objects, open_blobs
from forebay.errors import (
    ForebayError,
    MaybeApplied,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from tests.unit.blobs.http_script import Answer, answering, half_a_body, hang_up, reset, silence, status

REF = BlobRef("t", "0" * 64, 4)
READS: dict[str, Callable[[Blobs], Any]] = {
    "get": lambda blobs: blobs.get(REF),
    "exists": lambda blobs: blobs.exists(REF),
    "list": lambda blobs: list(blobs.list("t")),
    "sweep": lambda blobs: blobs.sweep(lambda *_: [], now=4_000_000_000),
}
WRITES: dict[str, Callable[[Blobs], Any]] = {
    "put": lambda blobs: blobs.put("t", b"small"),
    "put large": lambda blobs: blobs.put("t", b"large" * 2_000_000),
    "delete": lambda blobs: blobs.delete(REF),
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setattr(objects, "REQUEST_TIMEOUT_S", 0.3)
    monkeypatch.setattr(objects, "CONNECT_TIMEOUT_S", 0.1)


ANSWERS: dict[str, tuple[Answer, type[StoreError], type[StoreError]]] = {
    "silence": (silence, StoreUnreachable, MaybeApplied),
    "a reset": (reset, StoreUnreachable, MaybeApplied),
    "a hang-up": (hang_up, StoreUnreachable, MaybeApplied),
    "500": (status(500, "InternalError"), StoreUnreachable, MaybeApplied),
    "503": (status(503, "SlowDown"), StoreUnreachable, MaybeApplied),
    "507": (status(507), StoreFull, StoreFull),
    "400": (status(400, "InvalidRequest"), StoreUnreachable, StoreUnreachable),
    "401": (status(401), StoreUnreachable, StoreUnreachable),
    "403": (status(403, "AccessDenied"), StoreUnreachable, StoreReadOnly),
    "no such bucket": (status(404, "NoSuchBucket"), StoreUnreachable, StoreUnreachable),
    "a proxy's 404": (status(404), StoreUnreachable, StoreUnreachable),
    "a redirect to nowhere": (status(301), StoreUnreachable, MaybeApplied),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("operation", [*READS, *WRITES])
def test_every_bad_answer_has_our_name_and_is_asked_for_once(
    operation: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, reading, writing = ANSWERS[answer]
    with answering(what) as script:
        monkeypatch.setenv("AWS_ENDPOINT_URL", script.url)
        with pytest.raises(reading if operation in READS else writing) as caught:
            (READS | WRITES)[operation](open_blobs("s3://bucket/prefix"))
    assert "s3://bucket/prefix" in caught.value.what
    assert caught.value.remedy
    assert "very-secret" not in str(caught.value)
    # The second one, if any, asks whether the bucket itself is there.
    assert len(script.requests) == len(set(script.requests)) <= 2


def test_half_a_body_is_never_served(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(half_a_body) as script:
        monkeypatch.setenv("AWS_ENDPOINT_URL", script.url)
        with pytest.raises(StoreUnreachable):
            open_blobs("s3://bucket/prefix").get(BlobRef("t", "0" * 64))


@pytest.mark.parametrize("operation", [*READS, *WRITES])
def test_a_refused_connection_is_unreachable_and_certainly_not_applied(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    with pytest.raises(StoreUnreachable):
        (READS | WRITES)[operation](open_blobs("s3://bucket/prefix"))


def test_a_connection_that_nobody_accepts_is_given_up_and_certainly_not_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.settimeout(0)
            client.connect_ex(listener.getsockname())
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(StoreUnreachable):
            open_blobs("s3://bucket/prefix").put("t", b"small")
        assert time.monotonic() - started < 20


def test_a_name_that_does_not_resolve_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://nowhere.invalid")
    with pytest.raises(StoreUnreachable):
        open_blobs("s3://bucket/prefix").put("t", b"small")


def test_plain_http_is_used_only_when_the_environment_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with answering(status(200)) as script:
        monkeypatch.setenv("AWS_ENDPOINT_URL", script.url)
        with pytest.raises(StoreUnreachable, match="AWS_ALLOW_HTTP"):
            open_blobs("s3://bucket/prefix").put("t", b"small")
    assert script.requests == []


def test_a_store_that_cannot_even_be_set_up_is_unreachable_at_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    blobs = open_blobs("az://container/prefix")
    for call in (READS | WRITES).values():
        with pytest.raises(StoreUnreachable, match="Account must be specified"):
            call(blobs)


def test_an_upload_that_failed_half_way_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "<Bucket>b</Bucket><Key>k</Key><UploadId>U1</UploadId>"
    started = f"<InitiateMultipartUploadResult>{body}</InitiateMultipartUploadResult>"

    def answer(client: socket.socket) -> None:
        if "?uploads" in script.requests[-1]:
            client.sendall(
                f"HTTP/1.1 200 OK\r\nContent-Length: {len(started)}\r\nConnection: close\r\n\r\n{started}".encode()
            )
        else:
            status(500, "InternalError")(client)

    with answering(answer) as script:
        monkeypatch.setenv("AWS_ENDPOINT_URL", script.url)
        with pytest.raises(MaybeApplied):
            open_blobs("s3://bucket/prefix").put("t", b"large" * 2_000_000)
        until = time.monotonic() + 30
        while not any(request.startswith("DELETE") for request in script.requests):
            assert time.monotonic() < until, script.requests
            time.sleep(0.01)
    assert any("uploadId=U1" in request for request in script.requests if request.startswith("DELETE"))


FORKED = """
import os, signal
from forebay.blobs import open_blobs
from forebay.errors import StoreUnreachable
open_blobs("memory://").put("t", b"bytes")
child = os.fork()
if child == 0:
    signal.alarm(10)
    try:
        open_blobs("memory://").put("t", b"bytes")
    except StoreUnreachable as error:
        os._exit(0 if "spawn" in error.remedy else 1)
    os._exit(2)
_, result = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(result))
"""


def test_a_forked_child_is_told_instead_of_waiting_for_ever() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=150, check=True
    )
    assert run.stdout.strip() == "0"


def test_no_room_for_the_temporary_copy_is_said_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    blobs = open_blobs("memory://")
    with pytest.raises(StoreFull, match="TMPDIR"):
        blobs.put("t", b"large" * 2_000_000)


def test_errors_keep_their_remedy_between_processes() -> None:
    with pytest.raises(ForebayError) as caught:
        open_blobs("memory://").get(REF)
    assert caught.value.remedy == "Put the bytes again."
