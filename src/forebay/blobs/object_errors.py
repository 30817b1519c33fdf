"""Says in our own errors what object storage or the way to it refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from forebay.errors import MaybeApplied, StoreError, StoreFull, StoreReadOnly, StoreUnreachable

# obstore keeps the kind of a failure in its text only.
_STATUS = re.compile(r"\bstatus: (\d{3})\b")
_NEVER_SENT = re.compile(r"HttpError \{\s*kind: Connect\b|legacy::Error\(\s*Connect\b")
_BEYOND_END = re.compile(r"\bstatus: 416\b|\bStartTooLarge\b")
_INSUFFICIENT_STORAGE = 507
_FIRST_SERVER_ERROR = 500
RAISED = (BaseError, OSError, ValueError, RuntimeError)


def starts_beyond_end(error: BaseError) -> bool:
    """Whether a range was refused because the object has not even its first byte."""
    return _BEYOND_END.search(str(error)) is not None


@contextmanager
def in_objects(address: str, *, writing: bool) -> Iterator[None]:
    try:
        yield
    except RAISED as error:
        raise store_error(error, address, writing=writing) from error


def store_error(error: Exception, address: str, *, writing: bool) -> StoreError:
    text = str(error)
    said = " ".join(text.partition("\n")[0].split())[:300]
    match = _STATUS.search(text)
    status = int(match[1]) if match else None
    if status == _INSUFFICIENT_STORAGE:
        return StoreFull(f"No room left in {address} ({said}).", remedy="Free some space, or raise the quota.")
    if isinstance(error, PermissionDeniedError) and writing:
        return StoreReadOnly(
            f"Not allowed to write in {address} ({said}).", remedy="Give these credentials write access."
        )
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return StoreUnreachable(
            f"{address} refused the credentials ({said}).", remedy="Check the keys, and that they may list and read."
        )
    if "BadScheme" in text:
        return StoreUnreachable(
            f"The endpoint of {address} is plain http ({said}).",
            remedy="Use https, or set AWS_ALLOW_HTTP=true (AZURE_, GOOGLE_) for a server of your own.",
        )
    refused = status is not None and status < _FIRST_SERVER_ERROR
    if writing and not refused and isinstance(error, BaseError) and not _NEVER_SENT.search(text):
        return MaybeApplied(
            f"{address} gave no clear answer to a write ({said}).",
            remedy="Repeat the call: the same bytes have the same name, so twice is harmless.",
        )
    return StoreUnreachable(
        f"{address} did not do it ({said}).",
        remedy="Check credentials, endpoint, region, bucket and network, then repeat the call.",
    )
