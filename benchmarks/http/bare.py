"""`python -m benchmarks.http.bare FOLDER`: the least that takes in a document durably and shows a job, on FastAPI."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from forebay.ids import random_id

_JOB = {
    "id": "",
    "pipeline": "ocr",
    "tenant": "default",
    "status": "pending",
    "generation": 1,
    "created_at": "2026-01-01T00:00:00.000Z",
    "document": "0" * 64,
    "label": "document",
    **{f"{status}_count": 0 for status in ("chunk", "open", "running", "completed", "failed", "canceled", "event")},
    **dict.fromkeys(("started_at", "finished_at", "cancel_requested_at", "merge_id", "error_class", "error_text")),
    "links": {name: f"/v1/jobs/{'a' * 26}/{name}" for name in ("self", "chunks", "result", "why", "events")},
}


def application(folder: Path) -> FastAPI:
    """Every check, hash and ledger is missing on purpose: a document is a synced file, a job a constant."""
    app = FastAPI()

    @app.post("/v1/jobs")
    async def submit(request: Request) -> JSONResponse:
        name = random_id()
        await asyncio.to_thread(_store, folder / name, await request.body())
        return JSONResponse({"id": name}, 202)

    @app.get("/v1/jobs/{id}")
    async def get(id: str) -> JSONResponse:  # noqa: A002 - as the path says
        return JSONResponse({**_JOB, "id": id})

    return app


def _store(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("benchmarks.http.bare: started by a benchmark, not by hand.")
    # With its protocol named: asyncio turns Nagle's algorithm off for such sockets alone, and uvicorn sends head and
    # body apart, so that each answer would wait 40 ms for the client's acknowledgement of its head.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    # As forebay.server.serving has it.
    config = uvicorn.Config(
        application(Path(sys.argv[1])),
        http="httptools",
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
