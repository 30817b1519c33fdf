"""Updates one value on a server the way a store would, or on purpose without its protection."""

from abc import ABC, abstractmethod
from typing import Any

import psycopg

from tests.servers.clients import CONNECT_TIMEOUT_S, redis_client

KEY = "contended"

SET_IF_EQUAL = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('SET', KEYS[1], ARGV[2])
    return 1
end
return 0
"""


class Contender(ABC):
    """One of many writers; without `atomic` it reads and writes back unconditionally."""

    def __init__(self, url: str, corner: str, *, atomic: bool) -> None:
        self.url, self.corner, self.atomic = url, corner, atomic

    def close(self) -> None:  # noqa: B027 - most hold nothing that must be closed
        pass

    @abstractmethod
    def prepare(self) -> None:
        """Put the value in place, once for all writers."""

    @abstractmethod
    def attempt(self, turn: int, writer: int) -> bool:
        """Try one update; True only when the server acknowledged it."""

    @abstractmethod
    def values(self, turns: int) -> list[int]:
        """What the server holds in the end: one count, or the owner of each turn's object."""


class RowCounter(Contender):
    def __init__(self, url: str, corner: str, *, atomic: bool) -> None:
        super().__init__(url, corner, atomic=atomic)
        self.connection = psycopg.connect(corner, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S)

    def close(self) -> None:
        self.connection.close()

    def prepare(self) -> None:
        self.connection.execute("CREATE TABLE contended (n bigint)")
        self.connection.execute("INSERT INTO contended VALUES (0)")

    def attempt(self, turn: int, writer: int) -> bool:
        query = "SELECT n FROM contended FOR UPDATE" if self.atomic else "SELECT n FROM contended"
        with self.connection.transaction():
            row = self.connection.execute(query).fetchone()
            assert row is not None
            self.connection.execute("UPDATE contended SET n = %s", (row[0] + 1,))
        return True

    def values(self, turns: int) -> list[int]:
        row = self.connection.execute("SELECT n FROM contended").fetchone()
        assert row is not None
        return [int(row[0])]


class KeyCounter(Contender):
    def __init__(self, url: str, corner: str, *, atomic: bool) -> None:
        super().__init__(url, corner, atomic=atomic)
        self.client = redis_client(url)
        self.key = corner + KEY

    def close(self) -> None:
        self.client.close()

    def prepare(self) -> None:
        self.client.set(self.key, 0)

    def read(self) -> int:
        value: Any = self.client.get(self.key)
        return int(value)

    def attempt(self, turn: int, writer: int) -> bool:
        seen = self.read()
        if not self.atomic:
            self.client.set(self.key, seen + 1)
            return True
        return bool(self.client.eval(SET_IF_EQUAL, 1, self.key, str(seen), str(seen + 1)))

    def values(self, turns: int) -> list[int]:
        return [self.read()]
