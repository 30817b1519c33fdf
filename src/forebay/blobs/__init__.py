"""Keeps bytes under the sha256 of their content, in a folder or in object storage."""

from forebay.blobs.address import open_blobs
from forebay.blobs.ref import BlobRef
from forebay.blobs.store import Blobs, Source, Swept

__all__ = ["BlobRef", "Blobs", "Source", "Swept", "open_blobs"]
