"""One suite for every place that keeps blobs, each on the real thing."""

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import obstore
import pytest

from forebay.blobs import BlobRef, Blobs, Swept, open_blobs
from forebay.blobs.folder import Folder
from forebay.errors import BlobMissing, NotFound, ResultCorrupt, StoreUnreachable
from tests.servers.clients import REGION, AwsEndpoint
from tests.servers.fresh import fresh_bucket
from tests.servers.server import Server

PLACES = ["folder", "memory", "seaweedfs", "ministack"]
# More than the one request that small blobs take, and not a multiple of it.
LARGE = 12_345_678


@dataclass(frozen=True)
class Place:
    """A blob store, and a way to harm it behind its back."""

    blobs: Blobs
    overwrite: Callable[[str, bytes], None]
    ticks_s: float
    """How coarse its clock is."""

    def written_at(self, ref: BlobRef) -> float:
        [at] = [stored.written_at for stored in self.blobs._backend.scan(ref.tenant) if stored.ref == ref]
        return at

    def put_later(self, tenant: str, content: bytes) -> BlobRef:
        """Put with a time that is seen to be later than all before."""
        time.sleep(self.ticks_s)
        return self.blobs.put(tenant, content)


@pytest.fixture(scope="module")
def seaweedfs_bucket(seaweedfs_server: Server) -> Iterator[str]:
    with fresh_bucket(seaweedfs_server) as bucket:
        yield bucket


@pytest.fixture(scope="module")
def ministack_bucket(ministack_server: Server) -> Iterator[str]:
    with fresh_bucket(ministack_server) as bucket:
        yield bucket


@pytest.fixture(params=[*PLACES[:-1], pytest.param(PLACES[-1], marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return tmp_path.as_uri()
    if request.param == "memory":
        return "memory://"
    use_s3(monkeypatch, request.getfixturevalue(f"{request.param}_server"))
    bucket = request.getfixturevalue(f"{request.param}_bucket")
    return f"s3://{bucket}/{uuid4().hex}/deeper"


def use_s3(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    endpoint = AwsEndpoint.of(server.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", endpoint.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", endpoint.secret_key)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def place(address: str) -> Place:
    blobs = open_blobs(address)
    if isinstance(blobs._backend, Folder):
        root = Path(address.removeprefix("file://"))
        return Place(blobs, lambda key, content: overwrite_file(root / key, content), 0.02)
    backend = blobs._backend

    def overwrite(key: str, content: bytes) -> None:
        with backend._asking(writing=True) as store:  # type: ignore[attr-defined]
            obstore.put(store, key, content, use_multipart=False)

    return Place(blobs, overwrite, 1.1 if address.startswith("s3") else 0.02)


def overwrite_file(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture
def blobs(place: Place) -> Blobs:
    return place.blobs


def nobody(_: str, __: Sequence[str]) -> set[str]:
    return set()


class TestBlobs:
    @pytest.mark.parametrize("size", [0, 1, 1000, 5 << 20, LARGE])
    def test_what_was_put_comes_back(self, size: int, blobs: Blobs) -> None:
        content = random.Random(size).randbytes(size)
        ref = blobs.put("t", content)
        assert (ref.sha256, ref.size) == (hashlib.sha256(content).hexdigest(), size)
        assert blobs.get(ref) == content
        assert blobs.get(BlobRef("t", ref.sha256)) == content
        with blobs.open(BlobRef("t", ref.sha256)) as file:
            assert file.read() == content
        assert blobs.exists(ref)
        assert blobs.exists(BlobRef("t", ref.sha256))

    def test_a_large_source_may_come_in_pieces(self, blobs: Blobs) -> None:
        piece = random.Random(1).randbytes(999_999)
        ref = blobs.put("t", (piece for _ in range(12)))
        assert blobs.get(ref) == piece * 12

    def test_the_same_bytes_have_the_same_name_and_lie_there_once(self, blobs: Blobs) -> None:
        assert blobs.put("t", b"bytes") == blobs.put("t", [b"by", b"tes"])
        assert len(list(blobs.list("t"))) == 1

    def test_a_tenant_sees_only_its_own(self, blobs: Blobs) -> None:
        ref = blobs.put("one", b"bytes")
        blobs.put("one.two", b"other bytes")
        assert not blobs.exists(BlobRef("two", ref.sha256))
        with pytest.raises(NotFound):
            blobs.get(BlobRef("two", ref.sha256))
        assert list(blobs.list("one")) == [ref]
        assert list(blobs.list("two")) == []
        blobs.delete(BlobRef("two", ref.sha256))
        assert blobs.get(ref) == b"bytes"

    def test_a_missing_blob_is_not_found(self, blobs: Blobs) -> None:
        blobs.put("t", b"another one")
        missing = BlobRef("t", "0" * 64)
        with pytest.raises(BlobMissing, match="0000") as caught:
            blobs.get(missing)
        assert blobs.address in caught.value.what
        assert blobs.address not in caught.value.public
        with pytest.raises(NotFound), blobs.open(missing):
            pytest.fail("there was nothing to open")
        assert not blobs.exists(missing)

    def test_deleting_twice_is_harmless(self, blobs: Blobs) -> None:
        ref = blobs.put("t", b"bytes")
        blobs.delete(ref)
        blobs.delete(ref)
        assert not blobs.exists(ref)
        with pytest.raises(NotFound):
            blobs.get(ref)

    def test_a_list_is_in_the_order_of_sha256_and_knows_sizes(self, blobs: Blobs) -> None:
        refs = [blobs.put("t", b"x" * size) for size in range(20)]
        listed = list(blobs.list("t"))
        assert listed == sorted(refs)
        assert [ref.size for ref in listed] == [ref.size for ref in sorted(refs)]

    def test_a_list_and_a_sweep_pass_over_what_is_no_blob(self, place: Place) -> None:
        ref = place.blobs.put("t", b"bytes")
        place.overwrite(f"blobs/t/{ref.sha256[:2]}/not-a-sha256", b"foreign")
        place.overwrite(f"blobs/t/ab/{ref.sha256}", b"in the wrong shard")
        place.overwrite("blobs/Not a tenant/ab/file", b"foreign")
        assert list(place.blobs.list("t")) == [ref]
        assert place.blobs.sweep(nobody, older_than_s=0, now=time.time() + 60).blob_count == 1

    @pytest.mark.parametrize(
        "harm",
        [
            lambda _: b"",
            lambda content: content[:-1],
            lambda content: content + b"x",
            lambda content: bytes(len(content)),
            lambda content: content[1:] + content[:1],
        ],
        ids=["emptied", "truncated", "longer", "zeroed", "shifted"],
    )
    def test_a_damaged_blob_is_never_served_and_putting_repairs_it(
        self, harm: Callable[[bytes], bytes], place: Place
    ) -> None:
        blobs = place.blobs
        content = random.Random(2).randbytes(3000)
        ref = blobs.put("t", content)
        place.overwrite(ref.key, harm(content))
        for known in (ref, BlobRef("t", ref.sha256)):
            with pytest.raises(ResultCorrupt, match=ref.sha256):
                blobs.get(known)
            with pytest.raises(ResultCorrupt), blobs.open(known):
                pytest.fail("bytes were handed out")
        assert blobs.exists(ref) == (len(harm(content)) == len(content))
        assert blobs.put("t", content) == ref
        assert blobs.get(ref) == content

    def test_a_large_blob_damaged_at_its_end_is_never_served(self, place: Place) -> None:
        content = bytearray(random.Random(3).randbytes(LARGE))
        ref = place.blobs.put("t", content)
        content[-1] ^= 1
        place.overwrite(ref.key, bytes(content))
        with pytest.raises(ResultCorrupt), place.blobs.open(ref):
            pytest.fail("bytes were handed out")

    def test_no_flipped_bit_is_ever_served(self, place: Place) -> None:
        chance = random.Random(4)
        content = chance.randbytes(2000)
        ref = place.blobs.put("t", content)
        for spot in chance.sample(range(len(content)), 200):
            flipped = bytearray(content)
            flipped[spot] ^= 1 << chance.randrange(8)
            place.overwrite(ref.key, bytes(flipped))
            with pytest.raises(ResultCorrupt):
                place.blobs.get(ref)

    def test_putting_again_makes_a_blob_young(self, place: Place) -> None:
        ref = place.blobs.put("t", b"bytes")
        before = place.written_at(ref)
        place.put_later("t", b"bytes")
        assert place.written_at(ref) > before

    def test_a_sweep_takes_what_is_old_and_unwanted_only(self, place: Place) -> None:
        blobs = place.blobs
        wanted, unwanted = blobs.put("a", b"wanted"), blobs.put("b", b"unwanted")
        cutoff = max(place.written_at(wanted), place.written_at(unwanted))
        young = place.put_later("a", b"young")
        asked: list[tuple[str, list[str]]] = []

        def keep(tenant: str, sha256s: Sequence[str]) -> list[str]:
            asked.append((tenant, list(sha256s)))
            return [sha256 for sha256 in sha256s if sha256 == wanted.sha256]

        assert blobs.sweep(keep, now=cutoff + 86_400) == Swept(blob_count=1, byte_count=8)
        assert asked == [("a", [wanted.sha256]), ("b", [unwanted.sha256])]
        assert [blobs.exists(ref) for ref in (wanted, unwanted, young)] == [True, False, True]

    def test_a_sweep_goes_by_the_clock_of_the_store(self, place: Place) -> None:
        ref = place.blobs.put("t", b"bytes")
        assert place.blobs.sweep(nobody).blob_count == 0
        assert place.blobs.sweep(nobody, older_than_s=30).blob_count == 0
        assert place.blobs.exists(ref)
        time.sleep(place.ticks_s)
        assert place.blobs.sweep(nobody, older_than_s=0) == Swept(blob_count=1, byte_count=5)
        assert list(place.blobs.list("t")) == []

    def test_a_blob_put_again_after_the_sweep_had_chosen_it_stays(self, place: Place) -> None:
        ref = place.blobs.put("t", b"bytes")
        cutoff = place.written_at(ref)

        def keep(_: str, sha256s: Sequence[str]) -> set[str]:
            assert list(sha256s) == [ref.sha256]
            place.put_later("t", b"bytes")
            return set()

        assert place.blobs.sweep(keep, now=cutoff + 86_400).blob_count == 0
        assert place.blobs.get(ref) == b"bytes"

    def test_a_sweep_whose_question_fails_deletes_nothing(self, blobs: Blobs) -> None:
        ref = blobs.put("t", b"bytes")

        def keep(_: str, __: Sequence[str]) -> set[str]:
            raise StoreUnreachable("The ledger is away.")

        with pytest.raises(StoreUnreachable):
            blobs.sweep(keep, older_than_s=0, now=time.time() + 60)
        assert blobs.exists(ref)

    @pytest.mark.slow
    def test_a_sweep_asks_for_many_blobs_at_a_time_and_deletes_all_that_nobody_wants(self, blobs: Blobs) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: blobs.put("t", str(n).encode()), range(600)))
        questions: list[int] = []

        def keep(_: str, sha256s: Sequence[str]) -> Sequence[str]:
            questions.append(len(sha256s))
            return sha256s

        blobs.sweep(keep, older_than_s=0, now=time.time() + 60)
        assert questions == [500, 100]
        assert blobs.sweep(nobody, older_than_s=0, now=time.time() + 60).blob_count == 600
        assert list(blobs.list("t")) == []

    def test_many_threads_may_use_one_store(self, blobs: Blobs) -> None:
        start = threading.Barrier(8)

        def work(number: int) -> None:
            start.wait(10)
            for turn in range(10):
                content = f"{turn} of {number % 4}".encode() * 100
                ref = blobs.put("t", content)
                assert blobs.get(ref) == content

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert len(list(blobs.list("t"))) == 40


@pytest.mark.slow
@pytest.mark.parametrize("server", ["seaweedfs_server", "ministack_server"])
def test_a_bucket_that_does_not_exist_is_unreachable_and_no_lost_blob(
    server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_s3(monkeypatch, request.getfixturevalue(server))
    blobs = open_blobs(f"s3://missing-{uuid4().hex[:12]}/prefix")
    ref = BlobRef("t", "0" * 64)
    for call in (
        lambda: blobs.put("t", b"bytes"),
        lambda: blobs.get(ref),
        lambda: blobs.exists(ref),
        lambda: blobs.delete(ref),
        lambda: list(blobs.list("t")),
        lambda: blobs.sweep(nobody),
    ):
        with pytest.raises(StoreUnreachable, match="missing-"):
            call()
