"""The servers of a run, each behind its proxy: a process that obeys orders and writes down what befell them.

A line of JSON in, a line of JSON out: `where` tells the addresses, `begin` and `end` a fault of a server's line,
`restart` kills a server and starts it again soon, `state` tells which are down or were struck, `open` counts what has
not ended in the ledger, `keep` copies what they hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from chaos import copying
from chaos.fleet import keeping
from chaos.fleet.proxy import LOOPBACK, Ends, Proxy, ends_script, ends_transaction, ends_upload
from chaos.journal import Journal
from tests.servers.clients import s3_client
from tests.servers.postgres import postgres
from tests.servers.seaweedfs import seaweedfs
from tests.servers.server import Server
from tests.servers.valkey import valkey

BUCKET = "chaos"

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A server and the line to it."""

    server: Server
    proxy: Proxy

    def address(self, port: int) -> str:
        """That of the server, by way of the proxy."""
        parts = urlsplit(self.server.url)
        user, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}{at}{LOOPBACK}:{port}").geturl()


class Site:
    def __init__(self, folder: Path, journal: Journal, *, ledger: bool) -> None:
        self._folder = folder
        self._journal = journal
        self._has_ledger = ledger
        self._places: dict[str, Place] = {}
        self._where: dict[str, str] = {}
        self._down: set[str] = set()
        self._restarts: set[asyncio.Task[None]] = set()

    async def open(self, stack: ExitStack) -> None:
        # Valkey keeps nothing: whoever kills it brings it back empty. PostgreSQL keeps what it has acknowledged.
        made: dict[str, tuple[AbstractContextManager[Server], Ends]] = {
            "limits": (valkey(own=True), ends_script),
            "blobs": (seaweedfs(own=True), ends_upload),
        }
        if self._has_ledger:
            made["ledger"] = (postgres(own=True, durable=True), ends_transaction)
        for name, (serving, ends) in made.items():
            server = stack.enter_context(serving)
            parts = urlsplit(server.url)
            proxy = Proxy(name, (LOOPBACK, int(parts.port or 0)), ends, self._journal)
            self._places[name] = Place(server, proxy)
            self._where[name] = self._places[name].address(await proxy.open())
        s3_client(self._places["blobs"].server.url).create_bucket(Bucket=BUCKET)

    async def obey(self, order: Message) -> Message:
        match order["do"]:
            case "where":
                return dict(self._where)
            case "begin":
                self._places[order["server"]].proxy.begin(order["fault"], order["amount"])
            case "end":
                self._places[order["server"]].proxy.end()
            case "restart":
                self._restart(order["server"], order["down_s"])
            case "state":
                struck = [name for name, place in self._places.items() if place.proxy.struck]
                return {"down": sorted(self._down), "struck": struck}
            case "open":
                return {"open": await asyncio.to_thread(keeping.open_count, self._places["ledger"].server.url)}
            case "keep":
                await asyncio.to_thread(self._keep)
            case unknown:
                return {"error": f"no order {unknown!r}"}
        return {}

    def _restart(self, name: str, down_s: float) -> None:
        self._down.add(name)
        task = asyncio.get_running_loop().create_task(self._kill_and_start(name, down_s))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    async def _kill_and_start(self, name: str, down_s: float) -> None:
        server = self._places[name].server
        self._journal.note("killed", server=name)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(down_s)
        await asyncio.to_thread(server.start)
        self._journal.note("back", server=name)
        self._down.discard(name)

    def _keep(self) -> None:
        """Straight from the servers: what the lines do to others must not touch the evidence."""
        keeping.objects(self._places["blobs"].server.url, BUCKET, self._folder / "blobs")
        if self._has_ledger:
            copying.copy(self._places["ledger"].server.url, self._folder / "ledger.db")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(await self.obey(json.loads(line))).encode() + b"\n")
            await writer.drain()
        writer.close()


async def run(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        journal = Journal(options.folder / "logs" / "site.jsonl")
        site = Site(options.folder, journal, ledger=options.ledger == "postgres")
        await site.open(stack)
        server = await asyncio.start_server(site.serve, LOOPBACK, 0)
        print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where evidence goes")
    parser.add_argument("--ledger", choices=["postgres", "sqlite"], default="postgres")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
