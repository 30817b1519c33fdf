"""What a place for blobs must offer: it moves bytes, and leaves naming and checking to `Blobs`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from forebay.blobs.ref import BlobRef


class Draft(Protocol):
    """Bytes on their way in, invisible until they are published."""

    def write(self, chunk: bytes) -> None: ...

    def publish(self, ref: BlobRef) -> None:
        """Complete, durable and last written now when this returns; whole or not there at all if it does not."""


class Content(NamedTuple):
    size: int
    chunks: Iterator[bytes]


class Stored(NamedTuple):
    ref: BlobRef
    written_at: float


class Backend(Protocol):
    address: str

    def draft(self) -> AbstractContextManager[Draft]:
        """Leaving the block without publishing throws the draft away."""

    def read(self, ref: BlobRef) -> AbstractContextManager[Content]:
        """The bytes as stored, unchecked."""

    def size(self, ref: BlobRef) -> int | None: ...

    def delete(self, ref: BlobRef) -> None:
        """A missing blob is fine."""

    def scan(self, tenant: str | None) -> Iterator[Stored]:
        """Blobs in the order of their keys; whatever else lies there is passed over."""

    def now(self) -> float:
        """The time by the clock that stamps `written_at`."""

    def delete_if_older(self, ref: BlobRef, cutoff: float) -> bool:
        """Look at the time once more and delete: what was written after the cutoff stays."""

    def delete_drafts(self, cutoff: float) -> int:
        """What dead writers left behind."""
