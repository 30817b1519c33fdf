"""Opens the limit store that an address or a Redis client names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.stores.address import sqlite_file
from forebay.stores.limit_base import LimitStore, RedisClient

_LATER = {
    "dynamodb": "A limit store in DynamoDB",
    "ssm": "Configuration from SSM",
}
REDIS_SCHEMES = frozenset(
    {"redis", "rediss", "unix", *(f"{tls}+{form}" for tls in ("redis", "rediss") for form in ("sentinel", "cluster"))}
)
_POSTGRES = {"postgresql", "postgres"}
_REMEDY = (
    "Use redis://host:6379/0 (also rediss://, redis+sentinel://, redis+cluster://), postgresql://user@host/database, sqlite:///path/to/limits.db,"
    " or memory:// for one process."
)


def open_limits(
    source: str | RedisClient, environment: str, *, tags: Callable[[str], Mapping[str, str]] = lambda _: {}
) -> LimitStore:
    """Nothing is read or written before the store is used. `tags`: hash tags of limits with own keys in Redis."""
    if not isinstance(source, str):
        return _open_redis(source, environment, tags)
    if source.partition("://")[0] in REDIS_SCHEMES:  # several hosts make no URL that could be split
        return _open_redis(source, environment, tags)
    try:
        scheme, host, path, query, fragment = urlsplit(source)
    except ValueError:
        raise BadInput("That is no address.", remedy=_REMEDY) from None
    if scheme == "memory" and not (host or path or query or fragment):
        from forebay.stores.memory.limits import MemoryLimits  # noqa: PLC0415 - each store is loaded when named

        return MemoryLimits()
    if scheme == "sqlite" and (file := sqlite_file(source)) is not None:
        from forebay.stores.sqlite.limits import SqliteLimits  # noqa: PLC0415 - same

        return SqliteLimits(file, environment=environment)
    if scheme in _POSTGRES:
        from forebay.stores.postgres.limits import PostgresLimits  # noqa: PLC0415 - same

        return PostgresLimits(source, environment=environment)
    if scheme in _LATER:
        raise BadInput(f"{_LATER[scheme]} ({scheme}://) is not available in this version.", remedy=_REMEDY)
    # The address may carry a password: only its scheme is shown.
    raise BadInput(f"{shown(scheme)}:// does not name a limit store.", remedy=_REMEDY)


def _open_redis(source: str | RedisClient, environment: str, tags: Callable[[str], Mapping[str, str]]) -> LimitStore:
    from forebay.stores.redis.limits import RedisLimits  # noqa: PLC0415 - each store is loaded when named

    return RedisLimits(source, environment=environment, tags=tags(environment))
