"""Runs as a test run of its own that holds a server, and ends in one of many ways."""

import json
import os
import sys
import threading
import time

from tests.servers.ministack import MiniStack
from tests.servers.postgres import Postgres
from tests.servers.process import ServerProcess, started
from tests.servers.recipe import Recipe
from tests.servers.seaweedfs import SeaweedFS
from tests.servers.valkey import Valkey

RECIPES: dict[str, type[Recipe]] = {kind.name: kind for kind in (Postgres, Valkey, SeaweedFS, MiniStack)}


def hold(name: str, manner: str) -> None:
    servers: list[ServerProcess] = []
    begin = threading.Thread(target=lambda: servers.append(started(RECIPES[name]())))
    begin.start()
    begin.join()
    (server,) = servers
    copy_of_pipe = os.fork() if manner == "wait with a forked child" else os.getpid()
    if copy_of_pipe:
        litter = [str(path) for path in server.recipe.litter(server.place)]
        paths = [str(server.place.folder), *litter]
        sys.stdout.write(json.dumps({"pid": server.pid, "child": copy_of_pipe, "paths": paths}) + "\n")
        sys.stdout.flush()
    match manner:
        case "exit":
            return
        case "raise":
            raise RuntimeError(manner)
        case _:
            time.sleep(600)


if __name__ == "__main__":
    hold(*sys.argv[1:])
