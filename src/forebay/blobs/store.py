"""Puts bytes in under their sha256, and hands none out before that sha256 was checked."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import IO, Protocol

from forebay.blobs.base import Backend, Content, Draft
from forebay.blobs.os_errors import in_temp_folder
from forebay.blobs.ref import BlobRef, check_ref
from forebay.blobs.unused import Keep, check_keep, unused
from forebay.errors import BadInput, ResultCorrupt
from forebay.ids import shown
from forebay.model.names import check_duration, check_instant, check_name

DAY_S = 86_400.0
_CHUNK = 1 << 20
_IN_MEMORY = 8 << 20


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


Source = bytes | bytearray | memoryview | Iterable[bytes] | Readable


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep took away; drafts are what writers that died left behind."""

    blob_count: int = 0
    byte_count: int = 0
    draft_count: int = 0


class Writing:
    """A blob on its way in. Blocking, and for one thread at a time."""

    def __init__(self, tenant: str, draft: Draft) -> None:
        self._tenant = tenant
        self._draft = draft
        self._sha256 = hashlib.sha256()
        self.size = 0

    def write(self, chunk: bytes) -> None:
        self._sha256.update(chunk)
        self.size += len(chunk)
        self._draft.write(chunk)

    @property
    def ref(self) -> BlobRef:
        """Of what was written so far."""
        return BlobRef(self._tenant, self._sha256.hexdigest(), self.size)

    def publish(self) -> BlobRef:
        """Durable when it returns."""
        ref = self.ref
        self._draft.publish(ref)
        return ref


class Blobs:
    """Blocking and thread-safe; nothing is touched before the first call.

    Every call is safe to repeat, so after MaybeApplied or StoreUnreachable just call again.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def address(self) -> str:
        return self._backend.address

    def put(self, tenant: str, source: Source) -> BlobRef:
        """Store the bytes durably; storing them again is harmless, repairs a damaged copy, and makes it young again."""
        check_name("tenant", tenant)
        pieces = _pieces(source)
        with self.writing(tenant) as blob:
            for chunk in _chunks(pieces):
                blob.write(chunk)
            return blob.publish()

    @contextmanager
    def writing(self, tenant: str) -> Iterator[Writing]:
        """For bytes that come by and by; what was not published when the block ends is gone."""
        check_name("tenant", tenant)
        with self._backend.draft() as draft:
            yield Writing(tenant, draft)

    def get(self, ref: BlobRef) -> bytes:
        check_ref(ref)
        with self._backend.read(ref) as content:
            return b"".join(self._checked(ref, content))

    def open(self, ref: BlobRef) -> AbstractContextManager[IO[bytes]]:
        """A private copy to read from, checked as a whole before it is handed out; large ones lie in TMPDIR."""
        check_ref(ref)
        return self._copy(ref)

    @contextmanager
    def _copy(self, ref: BlobRef) -> Iterator[IO[bytes]]:
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as copy:
            with self._backend.read(ref) as content:
                for chunk in self._checked(ref, content):
                    with in_temp_folder():
                        copy.write(chunk)
            copy.seek(0)
            yield copy

    def exists(self, ref: BlobRef) -> bool:
        """Whether a blob of this name (and size, if the reference has one) is there; only reading checks its bytes."""
        check_ref(ref)
        size = self._backend.size(ref)
        return size is not None and ref.size in {None, size}

    def delete(self, ref: BlobRef) -> None:
        """Deleting what is not there is harmless."""
        check_ref(ref)
        self._backend.delete(ref)

    def list(self, tenant: str) -> Iterator[BlobRef]:
        """In the order of sha256."""
        check_name("tenant", tenant)
        return (stored.ref for stored in self._backend.scan(tenant))

    def sweep(
        self,
        keep: Keep,
        *,
        older_than_s: float = DAY_S,
        now: float | None = None,
    ) -> Swept:
        """Delete what nobody wrote for `older_than_s` and nobody points at, in all tenants.

        `keep` gets a tenant and some hundred sha256s of its old blobs, and returns those still pointed at: the
        ledger's `blobs_in_use` is one. An answer that names anything else is BadInput, and deletes none of them.
        Age is measured by the store's own clock; `now` is for tests.

        Whoever wants to point at a blob puts it first, which makes it young, and points at it within
        `older_than_s`. Each blob's age is read again just before it is deleted. In a folder, that look and the
        deletion exclude the writers on the same machine, so a blob that is put again at the same moment stays.
        In object storage (and in a folder that several machines share) they are two steps: a put that ends
        exactly between them is undone, and its reader gets BlobMissing.
        """
        check_keep(keep)
        check_duration("older_than_s", older_than_s)
        if now is not None:
            check_instant("now", now)
        cutoff = (self._backend.now() if now is None else now) - older_than_s
        blob_count = byte_count = 0
        old = (stored.ref for stored in self._backend.scan(None) if stored.written_at <= cutoff)
        for ref in unused(old, keep):
            if self._backend.delete_if_older(ref, cutoff):
                blob_count += 1
                byte_count += ref.size or 0
        return Swept(blob_count, byte_count, self._backend.delete_drafts(cutoff))

    def sweep_drafts(self, *, older_than_s: float = DAY_S, now: float | None = None) -> Swept:
        """Delete only what writers that died left behind; nobody has to say what is in use."""
        check_duration("older_than_s", older_than_s)
        if now is not None:
            check_instant("now", now)
        cutoff = (self._backend.now() if now is None else now) - older_than_s
        return Swept(draft_count=self._backend.delete_drafts(cutoff))

    def _checked(self, ref: BlobRef, content: Content) -> Iterator[bytes]:
        if ref.size is not None and content.size != ref.size:
            raise self._corrupt(ref, f"has {content.size} bytes instead of {ref.size}")
        sha256 = hashlib.sha256()
        for chunk in content.chunks:
            sha256.update(chunk)
            yield chunk
        if sha256.hexdigest() != ref.sha256:
            raise self._corrupt(ref, f"has the sha256 {sha256.hexdigest()}", sha256.hexdigest())

    def _corrupt(self, ref: BlobRef, how: str, computed: str | None = None) -> ResultCorrupt:
        return ResultCorrupt(
            f"The stored {ref} {how}, in {self.address}.",
            remedy="It is not served: put the bytes again, and check the disk or bucket.",
            computed=computed,
        )


def _chunks(pieces: Iterable[object]) -> Iterator[bytes]:
    """The same bytes in pieces small enough to be held twice."""
    for piece in pieces:
        # None is what a file that does not block gives when it has nothing yet: the end would be guessed.
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise _not_bytes(piece)
        whole = bytes(piece)
        if len(whole) <= _CHUNK:
            yield whole
        else:
            yield from (whole[start : start + _CHUNK] for start in range(0, len(whole), _CHUNK))


def _pieces(source: object) -> Iterable[object]:
    if isinstance(source, bytes | bytearray | memoryview):
        return (source,)
    if hasattr(source, "read") and not isinstance(source, type):
        return _read_all(source)
    if isinstance(source, Iterable) and not isinstance(source, str):
        return source
    raise _not_bytes(source)


def _read_all(source: Readable) -> Iterator[object]:
    while (chunk := source.read(_CHUNK)) != b"":
        yield chunk


def _not_bytes(value: object) -> BadInput:
    return BadInput(
        f"put() got {shown(value)} where bytes were expected.",
        remedy="Give bytes, an iterable of bytes, or a file opened with 'rb'.",
    )
