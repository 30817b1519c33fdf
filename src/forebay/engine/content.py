"""Moves payloads and results between Python values and what a task row holds: JSON text, or a blob when it is large."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from forebay.blobs import BlobRef, Blobs
from forebay.errors import TooLarge
from forebay.model import payload as json_text
from forebay.model.outcome import Completed
from forebay.model.payload import Json, JsonText
from forebay.model.task import Task

MAX_IN_BLOB = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Content:
    """Where large values go. `blobs` is called only when one is met, so that small work never opens the store."""

    blobs: Callable[[], Blobs]
    max_bytes: int = json_text.MAX_BYTES

    def small(self, value: object, *, what: str = "value") -> JsonText | None:
        """JSON text that fits into a row; None for bytes and for what does not fit."""
        if isinstance(value, (bytes, bytearray, memoryview)):
            return None
        try:
            return json_text.encode(value, what=what, max_bytes=min(self.max_bytes, json_text.MAX_BYTES))
        except TooLarge:
            return None

    def fits(self, text: str) -> bool:
        return len(text) <= self.max_bytes and (text.isascii() or len(text.encode()) <= self.max_bytes)

    def write(self, value: object, tenant: str, *, what: str) -> tuple[str | None, str | None]:
        """For what is not small: the JSON text, if any, and the blob. Of bytes the row keeps the size."""
        if isinstance(value, (bytes, bytearray, memoryview)):
            ref = self.blobs().put(tenant, bytes(value))
            return json.dumps({"bytes": ref.size}), ref.sha256
        text = json_text.encode(value, what=what, max_bytes=MAX_IN_BLOB)
        return None, self.blobs().put(tenant, text.encode()).sha256

    def completed(self, value: object, tenant: str) -> Completed:
        """The outcome of a handler that returned this; what is large is stored by now."""
        text = self.small(value)
        if text is not None:
            return Completed(result_json=text)
        size, blob = self.write(value, tenant, what="result")
        return Completed(result_json=size, result_blob=blob)

    def payload(self, task: Task) -> Json:
        """A blob beside a payload is the handler's to read; a blob in its place is the payload."""
        if task.payload_blob is not None and task.payload_json in {None, "null"}:
            return _decoded(self._bytes(task.tenant, task.payload_blob))
        return task.payload

    def result(self, task: Task) -> Json | bytes:
        if task.result_blob is None:
            return task.result
        stored = self._bytes(task.tenant, task.result_blob)
        return _decoded(stored) if task.result_json is None else stored

    def _bytes(self, tenant: str, sha256: str) -> bytes:
        return self.blobs().get(BlobRef(tenant, sha256))


def _decoded(stored: bytes) -> Json:
    return json_text.decode(stored.decode())
