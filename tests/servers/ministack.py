"""Runs MiniStack, an emulator of S3 and DynamoDB that loses no conditional write, for the tests."""

import http.client
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from tests.servers.ports import LOOPBACK
from tests.servers.process import started
from tests.servers.recipe import Command, Place, Recipe
from tests.servers.server import Server
from tests.servers.wheels import missing

VARIABLE = "FOREBAY_TEST_DDB_URL"


@dataclass(frozen=True)
class MiniStackServer(Server):
    """`url` is S3. All data is in memory: a stop or a kill forgets it."""

    dynamodb_url: str = ""


class MiniStack(Recipe):
    name: ClassVar[str] = "ministack"

    def command(self, place: Place) -> Command:
        if find_spec("ministack") is None:
            raise missing("MiniStack", "ministack", VARIABLE)
        settings = {
            "BIND_HOST": LOOPBACK,
            "GATEWAY_PORT": str(place.port),
            "SERVICES": "s3,dynamodb",
            "LOG_LEVEL": "ERROR",
            # At its start it would remove containers that it takes for its own.
            "DOCKER_HOST": f"unix://{place.folder}/none",
        }
        return Command([sys.executable, "-I", "-m", "ministack"], settings)

    def check_ready(self, place: Place) -> None:
        connection = http.client.HTTPConnection(LOOPBACK, place.port, timeout=2)
        try:
            connection.request("GET", "/_ministack/health")
            status = connection.getresponse().status
        finally:
            connection.close()
        if status != http.client.OK:
            raise ConnectionError(f"its health page answered {status}")

    def url(self, place: Place) -> str:
        return f"http://{LOOPBACK}:{place.port}"


@contextmanager
def ministack(*, own: bool = False) -> Iterator[MiniStackServer]:
    """Serve S3 always from the emulator, DynamoDB from the given server if there is one."""
    given = None if own else os.environ.get(VARIABLE)
    recipe = MiniStack()
    with started(recipe) as process:
        url = recipe.url(process.place)
        yield MiniStackServer(url, process, given or url)
