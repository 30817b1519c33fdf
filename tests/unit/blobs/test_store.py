import hashlib
import io
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.blobs import BlobRef, Blobs, Source, open_blobs
from forebay.blobs.unused import Keep
from forebay.errors import BadInput, BadName


@pytest.fixture(params=["memory", "folder"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    return open_blobs("memory://" if request.param == "memory" else (tmp_path / "blobs").as_uri())


@pytest.mark.parametrize(
    "source",
    [
        b"abc",
        bytearray(b"abc"),
        memoryview(b"abc"),
        memoryview(b"a_b_c_")[::2],
        [b"a", b"", bytearray(b"b"), memoryview(b"c")],
        iter([b"abc"]),
        io.BytesIO(b"abc"),
    ],
    ids=lambda source: type(source).__name__,
)
def test_put_takes_bytes_pieces_and_binary_files(source: Source) -> None:
    blobs = open_blobs("memory://")
    ref = blobs.put("t", source)
    assert (ref.tenant, ref.sha256, ref.size) == ("t", hashlib.sha256(b"abc").hexdigest(), 3)
    assert blobs.get(ref) == b"abc"


class NeverReady:
    def read(self, size: int, /) -> bytes | None:
        return None


@pytest.mark.parametrize(
    "source",
    ["abc", ["abc"], [b"a", "b"], [1, 2], 7, None, io.StringIO("abc"), Path("file"), NeverReady()],
    ids=lambda source: type(source).__name__,
)
def test_put_refuses_what_is_no_bytes_and_leaves_nothing(source: Source, tmp_path: Path) -> None:
    blobs = open_blobs(tmp_path.as_uri())
    with pytest.raises(BadInput, match="bytes were expected"):
        blobs.put("t", source)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_error_of_the_source_passes_unchanged_and_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "the source's own trouble")

    blobs = open_blobs(tmp_path.as_uri())
    with pytest.raises(OSError, match="the source's own trouble"):
        blobs.put("t", broken())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_error_of_the_reader_passes_unchanged(blobs: Blobs) -> None:
    ref = blobs.put("t", b"abc")
    with pytest.raises(OSError, match="the reader's own trouble"), blobs.open(ref):
        raise OSError(5, "the reader's own trouble")


def test_a_file_is_read_from_where_it_stands(blobs: Blobs) -> None:
    file = io.BytesIO(b"skipped kept")
    file.seek(8)
    assert blobs.get(blobs.put("t", file)) == b"kept"


def test_an_opened_blob_can_be_sought_and_is_closed_afterwards(blobs: Blobs) -> None:
    ref = blobs.put("t", b"0123456789")
    with blobs.open(ref) as file:
        file.seek(-3, io.SEEK_END)
        assert file.read() == b"789"
    assert file.closed


def test_the_bad_tenant_of_a_put_is_refused_before_the_source_is_read(blobs: Blobs) -> None:
    def never() -> Iterator[bytes]:
        pytest.fail("the source was read")
        yield b""

    with pytest.raises(BadInput):
        blobs.put("../other", never())
    with pytest.raises(BadInput):
        blobs.list("../other")


@pytest.mark.parametrize(("older_than_s", "now"), [(-1.0, 0.0), (float("nan"), 0.0), (1.0, float("inf"))])
def test_a_sweep_with_an_impossible_time_is_refused(blobs: Blobs, older_than_s: float, now: float) -> None:
    with pytest.raises(BadInput):
        blobs.sweep(lambda _, asked: asked, older_than_s=older_than_s, now=now)


@pytest.mark.parametrize("value", ["0" * 64, None, 5, b"x", ("t", "0" * 64)])
def test_what_is_no_reference_is_refused(blobs: Blobs, value: BlobRef) -> None:
    for call in (blobs.get, blobs.open, blobs.exists, blobs.delete):
        with pytest.raises(BadInput, match="is not a reference to a blob"):
            call(value)


@pytest.mark.parametrize("tenant", [5, None, b"t", ""])
def test_a_tenant_that_is_no_name_is_refused(blobs: Blobs, tenant: str) -> None:
    with pytest.raises(BadName):
        blobs.put(tenant, b"")
    with pytest.raises(BadName):
        blobs.list(tenant)


@pytest.mark.parametrize("source", [5, None, "text", io.BytesIO])
def test_a_source_that_cannot_give_bytes_is_refused_before_anything_is_made(source: Source, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="bytes were expected"):
        open_blobs((tmp_path / "blobs").as_uri()).put("t", source)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [None, 5, {"0" * 64}, "keep"])
def test_a_sweep_that_has_nobody_to_ask_is_refused(blobs: Blobs, keep: Keep) -> None:
    ref = blobs.put("t", b"bytes")
    with pytest.raises(BadInput, match=r"keep\(tenant, sha256s\) was expected"):
        blobs.sweep(keep, older_than_s=0)
    assert blobs.exists(ref)


@pytest.mark.parametrize("older_than_s", [float("nan"), float("inf"), -1, "1", None, True])
def test_a_sweep_of_an_impossible_age_is_refused(blobs: Blobs, older_than_s: float) -> None:
    with pytest.raises(BadInput, match="older_than_s"):
        blobs.sweep(lambda _, asked: asked, older_than_s=older_than_s)


pieces = st.lists(st.one_of(st.binary(max_size=64), st.sampled_from([b"", b"\0" * 4096, b"x" * 1_100_000])), max_size=8)


@pytest.mark.slow
@given(pieces=pieces)
@settings(max_examples=60, deadline=None)
def test_whatever_the_pieces_the_same_bytes_come_back(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        for address in ("memory://", Path(folder).as_uri()):
            _assert_round_trip(open_blobs(address), pieces, whole)


def _assert_round_trip(blobs: Blobs, pieces: Iterable[bytes], whole: bytes) -> None:
    ref = blobs.put("t", pieces)
    assert (ref.sha256, ref.size) == (hashlib.sha256(whole).hexdigest(), len(whole))
    assert blobs.put("t", whole) == ref
    assert blobs.get(ref) == whole
    with blobs.open(ref) as file:
        assert file.read() == whole
    assert list(blobs.list("t")) == [ref]
