"""Keeps blobs in object storage through obstore: one request or one multipart upload each, no hidden retries."""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import IO, TYPE_CHECKING, ClassVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import MemoryStore, from_url

from forebay.blobs.base import Content, Stored
from forebay.blobs.object_errors import in_objects, starts_beyond_end
from forebay.blobs.os_errors import in_temp_folder
from forebay.blobs.ref import BlobRef, ref_of_key
from forebay.errors import BlobMissing, StoreUnreachable

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore

CONNECT_TIMEOUT_S = 3
REQUEST_TIMEOUT_S = 30
# One request moves at most this much, so that the timeout bounds it on slow lines too; also S3's least part size.
PART = 5 << 20
_MAX_PARTS = 9_000
_UPLOADS_AT_ONCE = 2
_PAGE = 1000
_CLOCK = "clock"
_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_ALLOW_HTTP = {"s3": "AWS_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP", "az": "AZURE_ALLOW_HTTP"}


def memory() -> ObjectStore:
    return MemoryStore()


def cloud(address: str) -> ObjectStore:
    # Options given in code make obstore forget this one of the environment.
    allow_http = os.environ.get(_ALLOW_HTTP[address.partition(":")[0]], "").lower() in {"1", "true", "yes", "on"}
    return from_url(
        address,
        client_options={
            "allow_http": allow_http,
            "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
            "timeout": timedelta(seconds=REQUEST_TIMEOUT_S),
        },
        retry_config={"max_retries": 0, "retry_timeout": timedelta(0)},
    )


class Objects:
    _process: ClassVar[int | None] = None

    def __init__(self, address: str, connect: Callable[[], ObjectStore]) -> None:
        self.address = address
        self._connect = connect
        self._lock = threading.Lock()
        self._connected: ObjectStore | None = None

    @contextmanager
    def draft(self) -> Iterator[ObjectDraft]:
        with tempfile.SpooledTemporaryFile(max_size=PART) as spool:
            yield ObjectDraft(self._asking, spool)

    @contextmanager
    def read(self, ref: BlobRef) -> Iterator[Content]:
        first = self._first_part(ref)
        if first is None:
            yield Content(0, iter(()))
        else:
            size = first.meta["size"]
            yield Content(size, self._parts(ref, first, size))

    def size(self, ref: BlobRef) -> int | None:
        meta = self._head(ref)
        return None if meta is None else meta["size"]

    def delete(self, ref: BlobRef) -> None:
        with self._asking(writing=True) as store:
            try:
                obstore.delete(store, ref.key)
            except FileNotFoundError:
                self._ask_for_anything(store)

    def scan(self, tenant: str | None) -> Iterator[Stored]:
        for meta in self._list("blobs" if tenant is None else f"blobs/{tenant}"):
            ref = ref_of_key(meta["path"], meta["size"])
            if ref is not None:
                yield Stored(ref, meta["last_modified"].timestamp())

    def now(self) -> float:
        key = f"{_CLOCK}/{secrets.token_hex(16)}"
        with self._asking(writing=True) as store:
            obstore.put(store, key, b"", use_multipart=False)
            written_at = obstore.head(store, key)["last_modified"].timestamp()
            obstore.delete(store, key)
        return written_at

    def delete_if_older(self, ref: BlobRef, cutoff: float) -> bool:
        meta = self._head(ref)
        if meta is None or meta["last_modified"].timestamp() > cutoff:
            return False
        self.delete(ref)
        return True

    def delete_drafts(self, cutoff: float) -> int:
        """Uploads that died are invisible here: only a lifecycle rule of the bucket ends them."""
        old = [meta["path"] for meta in self._list(_CLOCK) if meta["last_modified"].timestamp() <= cutoff]
        with self._asking(writing=True) as store:
            for key in old:
                obstore.delete(store, key)
        return len(old)

    @contextmanager
    def _asking(self, *, writing: bool) -> Iterator[ObjectStore]:
        store = self._store()
        with in_objects(self.address, writing=writing):
            yield store

    def _store(self) -> ObjectStore:
        # obstore's threads stay behind in the parent: without this a forked child would wait for them for ever.
        if Objects._process not in {None, os.getpid()}:
            raise StoreUnreachable(
                f"{self.address} cannot be used in a process forked from one that used object storage.",
                remedy="Start children with the 'spawn' or 'forkserver' method.",
            )
        with self._lock, in_objects(self.address, writing=False):
            if self._connected is None:
                self._connected = self._connect()
                Objects._process = os.getpid()
            return self._connected

    def _first_part(self, ref: BlobRef) -> GetResult | None:
        """None for an empty object: it has no range to ask for."""
        whole = ref.sha256 == _EMPTY or (ref.size is not None and ref.size <= PART)
        with self._asking(writing=False) as store:
            try:
                return obstore.get(store, ref.key, options={} if whole else {"range": (0, PART)})
            except FileNotFoundError:
                raise self._missing(ref) from None
            except BaseError as error:
                if starts_beyond_end(error):
                    return None
                raise

    def _parts(self, ref: BlobRef, first: GetResult, size: int) -> Iterator[bytes]:
        with self._asking(writing=False):
            chunk = first.bytes().to_bytes()
        yield chunk
        for start in range(len(chunk), size, PART):
            with self._asking(writing=False) as store:
                try:
                    chunk = obstore.get_range(store, ref.key, start=start, length=PART).to_bytes()
                except FileNotFoundError:
                    raise self._missing(ref) from None
            yield chunk

    def _head(self, ref: BlobRef) -> ObjectMeta | None:
        with self._asking(writing=False) as store:
            try:
                return obstore.head(store, ref.key)
            except FileNotFoundError:
                self._ask_for_anything(store)
                return None

    def _missing(self, ref: BlobRef) -> BlobMissing:
        with self._asking(writing=False) as store:
            self._ask_for_anything(store)
        return BlobMissing(f"There is no {ref} in {self.address}.", remedy="Put the bytes again.")

    def _ask_for_anything(self, store: ObjectStore) -> None:
        # A missing bucket and a proxy in the way answer 404 too; taken for a lost result, it would be bought again.
        next(obstore.list(store, "blobs", chunk_size=1), None)

    def _list(self, prefix: str) -> Iterator[ObjectMeta]:
        with self._asking(writing=False) as store:
            pages = obstore.list(store, prefix, chunk_size=_PAGE)
        while True:
            with self._asking(writing=False):
                page = next(pages, None)
            if page is None:
                return
            yield from page


class ObjectDraft:
    """Lies in memory, then in a temporary file: the name is known only when the last byte was seen."""

    def __init__(self, asking: Callable[..., AbstractContextManager[ObjectStore]], spool: IO[bytes]) -> None:
        self._asking = asking
        self._spool = spool

    def write(self, chunk: bytes) -> None:
        with in_temp_folder():
            self._spool.write(chunk)

    def publish(self, ref: BlobRef) -> None:
        size = self._spool.tell()
        self._spool.seek(0)
        with self._asking(writing=True) as store:
            if size <= PART:
                obstore.put(store, ref.key, self._spool.read(), use_multipart=False)
            else:
                chunk_size = max(PART, size // _MAX_PARTS)
                obstore.put(store, ref.key, self._spool, chunk_size=chunk_size, max_concurrency=_UPLOADS_AT_ONCE)
