"""A receiver of callbacks that verifies with the official package, answers as its URL asks, and keeps a record.

`?answers=500,hang,301,ok` says what each further attempt of an id is answered; the last one stands.
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

METADATA = "http://169.254.169.254/latest/meta-data/"


class Receiver:
    """In a thread of its own; `seen` has what came in: id, timestamp, body, whether it verified, what was answered."""

    def __init__(self, record: Path, *, hang_s: float = 30.0, certificate: Path | None = None) -> None:
        self.record = record
        self.secrets = record.with_suffix(".secrets")
        self._hang_s = hang_s
        self._attempts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._ending = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.answer(self)

            def log_message(self, *_: object) -> None:
                """The record says it all."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate)
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def url(self, *answers: str, name: str = "hook") -> str:
        return f"http://127.0.0.1:{self.port}/{name}" + (f"?answers={','.join(answers)}" if answers else "")

    def knows(self, *secrets: str) -> None:
        """These are the secrets that it verifies with; any of them will do."""
        self.secrets.write_text(json.dumps(secrets))

    @property
    def seen(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.record.read_text().splitlines()] if self.record.exists() else []

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = parse_qs(urlsplit(request.path).query).get("answers", ["ok"])[0].split(",")
        message_id = headers.get("webhook-id", "")
        with self._lock:
            self._attempts[message_id] += 1
            said = asked[min(self._attempts[message_id], len(asked)) - 1]
            line = {
                "id": message_id,
                "timestamp": headers.get("webhook-timestamp"),
                "signature": headers.get("webhook-signature"),
                "host": headers.get("host"),
                "path": request.path,
                "body": body.decode(),
                "verified": self._verified(body, headers),
                "said": said,
                "at": time.time(),
            }
            with self.record.open("a") as out:
                out.write(json.dumps(line) + "\n")
        self._say(request, said)

    def _verified(self, body: bytes, headers: dict[str, str]) -> bool:
        for secret in json.loads(self.secrets.read_text()) if self.secrets.exists() else []:
            try:
                Webhook(secret).verify(body, headers)
            except WebhookVerificationError:
                continue
            return True
        return False

    def _say(self, request: BaseHTTPRequestHandler, said: str) -> None:
        if said == "hang":
            self._ending.wait(self._hang_s)
            return
        if said == "endless":
            request.send_response(200)
            request.end_headers()
            try:
                while not self._ending.is_set():
                    request.wfile.write(b"x" * 65_536)
            except OSError:
                return
        status = {"ok": 204}.get(said) or int(said.partition(":")[0])
        request.send_response(status)
        if 300 <= status < 400:
            request.send_header("location", said.partition(":")[2] or METADATA)
        elif said.partition(":")[2]:
            request.send_header("retry-after", said.partition(":")[2])
        request.send_header("content-length", "0")
        request.end_headers()

    def end(self) -> None:
        """Let no answer hang from now on."""
        self._ending.set()

    def close(self) -> None:
        self.end()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


if __name__ == "__main__":
    running = Receiver(Path(sys.argv[1]), hang_s=float(sys.argv[2]))
    print(running.port, flush=True)  # noqa: T201 - the one who started it waits for this
    sys.stdin.read()
    running.close()
