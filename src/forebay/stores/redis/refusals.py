"""Turns what a server refuses into our errors: what it means, whether it was done, what to do."""

from __future__ import annotations

import re

from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from forebay.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from forebay.stores.redis.rights import Rights

# By a part of the text: in a script's error the command's own stands at a place that differs between versions.
_REPLICA = ("READONLY", "read only replica")
_SAID: dict[str, tuple[type[StoreError], str]] = {
    "OOM command not allowed": (StoreFull, "Raise its maxmemory, or give limits a server of their own."),
    **dict.fromkeys(_REPLICA, (StoreReadOnly, "It is a replica: give the address of the primary.")),
    "MISCONF": (StoreReadOnly, "It cannot save to its disk, and so refuses to write: see the server's log."),
    "NOREPLICAS": (StoreReadOnly, "Too few replicas follow it (min-replicas-to-write): start them, or lower it."),
    "MASTERDOWN": (StoreBusy, "Its primary is away: try again, or give the address of another."),
    "CLUSTERDOWN": (StoreUnreachable, "A part of the cluster is away: limits wait until it is back."),
    "TRYAGAIN": (StoreBusy, "The slot of this limit is being moved: limits wait until it has arrived."),
    "BUSY ": (StoreBusy, "Somebody's script runs there for too long: try again."),
    "WRONGTYPE": (StoreCorrupt, "Another program uses this key: choose another database or environment."),
    "holds no record": (StoreCorrupt, "Another program uses this key: choose another database or environment."),
    "DB index is out of range": (StoreError, "Choose a database that the server has: redis://host:6379/0."),
    "SELECT is not allowed in cluster": (StoreError, "Leave the database out: a cluster has one."),
    "MOVED": (StoreError, "It is one node of a cluster: use redis+cluster:// with the addresses of some nodes."),
}
_FORBIDDEN = ("NOPERM", "ACL failure in script", "The user executing the script can't", "no permissions to")
_NAMED_USER = re.compile(r"\b[Uu]ser (\S+) has no permissions")
# Older versions of redis-py take the code off the text and keep it nowhere.
_CODES: dict[type[ResponseError], str] = {
    MovedError: "MOVED",
    MasterDownError: "MASTERDOWN",
    ClusterDownError: "CLUSTERDOWN",
    TryAgainError: "TRYAGAIN",
    ReadOnlyError: "READONLY",
    NoPermissionError: "NOPERM",
}


def is_of_replica(error: ResponseError) -> bool:
    """Whether a server refused because it is not the primary (any more); it did nothing then."""
    text = _text(error)
    return any(said in text for said in _REPLICA)


def is_forbidden(error: ResponseError) -> bool:
    """Whether the user lacks a right."""
    text = _text(error)
    return any(said in text for said in _FORBIDDEN)


def refusal(error: ResponseError, place: str, rights: Rights, user: str) -> StoreError:
    """Return what a refusal means."""
    text = _text(error)
    if is_forbidden(error):
        return forbidden(text, place, rights, user)
    for said, (kind, remedy) in _SAID.items():
        if said in text:
            return kind(f"{place} refused: {text}.", remedy=remedy)
    return StoreError(f"{place} refused a step: {text}.", remedy="Please report this.")


def forbidden(text: str, place: str, rights: Rights, user: str) -> StoreForbidden:
    named = _NAMED_USER.search(text)
    known = named[1].strip("'\"") if named else user
    return StoreForbidden(f"{place} refused: {text}.", remedy=f"Have an administrator run: {rights.line(known)}")


def _text(error: ResponseError) -> str:
    code = getattr(error, "status_code", None) or next(
        (code for kind, code in _CODES.items() if isinstance(error, kind)), ""
    )
    return f"{code} {error}".strip().removesuffix(".")
