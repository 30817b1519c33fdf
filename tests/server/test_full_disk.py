"""A disk that gets full while a document is being sent: the sender is told, and nothing stays of it."""

from __future__ import annotations

import io
import json
import resource
from pathlib import Path
from random import Random

import pikepdf
import pytest

from tests.limits.ground import until
from tests.pipelines.ground import pdf
from tests.server.ground import PDF, problem
from tests.server.test_serve import ended, served

ROOM = 700_000
KEY = {"idempotency-key": "once"}


def large() -> bytes:
    """It is being written before all of it has come, and would be larger than there is room for."""
    raw = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf(1))) as made:
        made.Root.Padding = made.make_stream(Random(1).randbytes(3_000_000))
        made.save(raw)
    return raw.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(("prefer", "status"), [("wait=0", 503), ("wait=0, full=507", 507)])
def test_a_full_disk_is_told_and_nothing_stays_of_the_document(tmp_path: Path, prefer: str, status: int) -> None:
    document = large()
    headers = PDF | KEY | {"prefer": prefer}
    with served(tmp_path, "--no-worker") as (client, process):
        _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (ROOM, most))
        for _ in range(2):
            told = problem(client.post("/v1/jobs", content=document, headers=headers), status, "store_full")
            assert told["retry_after"] >= 1
            assert str(tmp_path) not in json.dumps(told)
            assert "://" not in json.dumps(told)
            assert problem(client.get("/readyz"), 503, "not_ready")["checks"] == {"disk": "store_full"}
            assert [*(tmp_path / "blobs" / "tmp").iterdir()] == []
            assert [
                path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and path.stat().st_size > 99
            ] == []
        assert client.get("/v1/jobs").json()["items"] == []

        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
        # The check itself finds out that there is room again.
        until(lambda: client.get("/readyz").status_code == 200, within_s=10)
        assert [*(tmp_path / "blobs" / "tmp").iterdir()] == []
        assert client.post("/v1/jobs", content=document, headers=headers).status_code == 202
        assert client.get("/readyz").status_code == 200
        assert ended(process) == 0
