"""Large blobs go into S3 in parts: a writer that is killed between two of them leaves nothing that is served."""

import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from forebay.blobs import BlobRef, open_blobs
from forebay.errors import NotFound, ResultCorrupt
from tests.servers.clients import s3_client
from tests.servers.fresh import fresh_bucket
from tests.servers.server import Server
from tests.stores.test_blobs import use_s3

SIZE = 17 << 20
PARTS = 4

# It takes its time for each part, so that somebody can come in between.
WRITER = """
import random, sys, tempfile, time
from forebay.blobs import open_blobs

class Slow(tempfile.SpooledTemporaryFile):
    def read(self, *size):
        time.sleep(float(sys.argv[3]))
        return super().read(*size)

tempfile.SpooledTemporaryFile = Slow
open_blobs(sys.argv[1]).put("t", random.Random(1).randbytes(int(sys.argv[2])))
"""


class Bucket:
    """A bucket, and what lies in it and on the way into it."""

    def __init__(self, client: Any, name: str) -> None:  # noqa: ANN401 - boto3 makes its classes at run time
        self._client = client
        self.name = name
        self.address = f"s3://{name}/prefix"

    def parts_on_the_way(self) -> int:
        found = self._client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])
        listed = [
            self._client.list_parts(Bucket=self.name, Key=one["Key"], UploadId=one["UploadId"]).get("Parts", [])
            for one in found
        ]
        return sum(map(len, listed))

    def end_uploads(self) -> None:
        for one in self._client.list_multipart_uploads(Bucket=self.name).get("Uploads", []):
            self._client.abort_multipart_upload(Bucket=self.name, Key=one["Key"], UploadId=one["UploadId"])

    def head(self, ref: BlobRef) -> dict[str, Any]:
        found: dict[str, Any] = self._client.head_object(Bucket=self.name, Key=f"prefix/{ref.key}")
        return found

    def overwrite_in_parts(self, ref: BlobRef, content: bytes) -> None:
        key = {"Bucket": self.name, "Key": f"prefix/{ref.key}"}
        upload = self._client.create_multipart_upload(**key)["UploadId"]
        done = []
        for number, start in enumerate(range(0, len(content), 5 << 20), start=1):
            part = content[start : start + (5 << 20)]
            answer = self._client.upload_part(**key, UploadId=upload, PartNumber=number, Body=part)
            done.append({"ETag": answer["ETag"], "PartNumber": number})
        self._client.complete_multipart_upload(**key, UploadId=upload, MultipartUpload={"Parts": done})


@pytest.fixture(params=["seaweedfs", "ministack"])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    server: Server = request.getfixturevalue(f"{request.param}_server")
    use_s3(monkeypatch, server)
    client = s3_client(server.url)
    with fresh_bucket(server) as name:
        bucket = Bucket(client, name)
        yield bucket
        bucket.end_uploads()
    client.close()


def writer(bucket: Bucket, part_s: float) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", WRITER, bucket.address, str(SIZE), str(part_s)])


@pytest.mark.slow
def test_a_writer_that_is_killed_between_two_parts_leaves_nothing_that_is_served(bucket: Bucket) -> None:
    blobs = open_blobs(bucket.address)
    before = blobs.put("t", b"another one")
    child = writer(bucket, 0.5)
    deadline = time.monotonic() + 20
    while not bucket.parts_on_the_way() and time.monotonic() < deadline:
        assert child.poll() is None, "it was done before anybody could come in between"
        time.sleep(0.02)
    child.kill()
    child.wait()
    assert 0 < bucket.parts_on_the_way() <= PARTS
    content = random.Random(1).randbytes(SIZE)
    ref = BlobRef("t", hashlib.sha256(content).hexdigest(), SIZE)
    assert list(blobs.list("t")) == [before]
    assert not blobs.exists(ref)
    with pytest.raises(NotFound):
        blobs.get(ref)
    assert blobs.put("t", content) == ref
    assert blobs.get(ref) == content


@pytest.mark.slow
def test_a_writer_that_is_left_alone_writes_it_in_parts(bucket: Bucket) -> None:
    """The same writer as above: what it does when nobody kills it."""
    child = writer(bucket, 0.0)
    assert child.wait(60) == 0
    [ref] = open_blobs(bucket.address).list("t")
    assert ref.size == SIZE
    assert bucket.head(ref)["ETag"].strip('"').endswith(f"-{PARTS}")
    assert bucket.parts_on_the_way() == 0


@pytest.mark.slow
def test_a_bit_that_flips_in_a_blob_of_parts_is_found_on_read(bucket: Bucket) -> None:
    blobs = open_blobs(bucket.address)
    content = bytearray(random.Random(2).randbytes(SIZE))
    ref = blobs.put("t", content)
    content[SIZE // 2] ^= 4
    bucket.overwrite_in_parts(ref, bytes(content))
    assert blobs.exists(ref)
    with pytest.raises(ResultCorrupt, match=ref.sha256):
        blobs.get(ref)
    with pytest.raises(ResultCorrupt), blobs.open(ref):
        pytest.fail("bytes were handed out")
