"""Adobe PDF Services: tokens, assets with signed addresses, auto-tagging jobs and their polls."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Final
from urllib.parse import parse_qs, unquote

from forebay.simulate.adobe_jobs import Jobs, described
from forebay.simulate.adobe_storage import Storage, refused_by_storage
from forebay.simulate.fault import Fault
from forebay.simulate.hints import retry_headers
from forebay.simulate.messages import Denial, Refused, Reply, Request, Work, json_reply
from forebay.simulate.reading import Unreadable, page_count
from forebay.simulate.state import State

TRANSACTIONS_PER_PAGE: Final = 10
_PATHS: Final = (
    ("POST", re.compile(r"/token"), "adobe.token"),
    ("POST", re.compile(r"/assets"), "adobe.assets"),
    ("GET", re.compile(r"/assets/(?P<asset>[^/]+)"), "adobe.assets"),
    ("DELETE", re.compile(r"/assets/(?P<asset>[^/]+)"), "adobe.assets"),
    ("PUT", re.compile(r"/adobe-storage/(?P<asset>[^/]+)"), "adobe.upload"),
    ("GET", re.compile(r"/adobe-storage/(?P<asset>[^/]+)"), "adobe.download"),
    ("POST", re.compile(r"/operation/autotag"), "adobe.autotag"),
    ("GET", re.compile(r"/operation/autotag/(?P<job>[^/]+)/status"), "adobe.status"),
)
_STORAGE: Final = ("adobe.upload", "adobe.download")


class Adobe:
    def __init__(self, state: State) -> None:
        self.storage = Storage(state)
        self._state = state
        self._jobs = Jobs(state, self.storage)
        self._tokens: dict[str, float] = {}

    def find(self, request: Request) -> str | None:
        for method, path, route in _PATHS:
            found = path.fullmatch(request.path)
            if found is not None and method == request.method:
                request.groups = {name: unquote(value) for name, value in found.groupdict().items()}
                return route
        return None

    def expire_tokens(self) -> None:
        """As if they had all run out, in the middle of whatever they are used for."""
        self._tokens.clear()

    async def prepare(self, route: str, request: Request) -> Work:
        if route not in (*_STORAGE, "adobe.token"):
            self._check_token(request)
        match route:
            case "adobe.token":
                return Work(partial(self._token, request))
            case "adobe.assets":
                return Work(partial(self._assets, request))
            case "adobe.upload":
                return self.storage.upload(request)
            case "adobe.download":
                return self.storage.download(request)
            case "adobe.status":
                return self._status(request)
            case _:
                return await self._autotag(request)

    def denied(self, route: str, denial: Denial | None, fault: Fault) -> Reply:
        if route in _STORAGE:
            return refused_by_storage(503, "SlowDown", "Please reduce your request rate.")
        if denial is not None and denial.month:
            reply = _error(
                429,
                "INSUFFICIENT_QUOTA",
                "Either Quota for this operation is not available or Free trial quota is exhausted.",
            )
        elif route == "adobe.autotag":
            reply = _error(429, "TOO_MANY_REQUESTS", "Too many requests. Please try again later.")
        else:
            reply = json_reply(429, {"error_code": "429050", "message": "Too many requests"})
        reply.headers |= retry_headers(fault, self._state.clock)
        return reply

    def unauthorized(self, route: str) -> Reply:
        if route in _STORAGE:
            return refused_by_storage(403, "AccessDenied", "Request has expired")
        if route == "adobe.token":
            return json_reply(401, {"error": "invalid_client", "error_description": "invalid client_secret parameter"})
        return json_reply(401, {"error_code": "401013", "message": "Oauth token is not valid"})

    def broken(self, route: str, status: int) -> Reply:
        if route in _STORAGE:
            return refused_by_storage(status, "InternalError", "We encountered an internal error. Please try again.")
        return _error(status, "INTERNAL_ERROR", "Internal error; please try again")

    def finish(self, route: str, request: Request, reply: Reply) -> None:
        if route not in _STORAGE:
            reply.headers.setdefault("x-request-id", request.headers.get("x-request-id", "simulated"))

    def _check_token(self, request: Request) -> None:
        if not self._state.settings.auth:
            return
        until = self._tokens.get(request.bearer())
        if until is None or until <= self._state.clock.now():
            raise Refused(self.unauthorized("adobe"))
        if not request.headers.get("x-api-key"):
            raise Refused(json_reply(403, {"error_code": "403000", "message": "Api Key is required"}))

    async def _token(self, request: Request) -> Reply:
        asked = parse_qs(request.body.decode(errors="replace"))
        if self._state.settings.auth and not (asked.get("client_id") and asked.get("client_secret")):
            return json_reply(
                400, {"error": "invalid_request", "error_description": "client_id or client_secret is missing"}
            )
        token = f"simulated-{len(self._tokens) + 1}-{self._state.clock.now():.6f}"
        lasts = self._state.settings.adobe.token_ttl_s
        self._tokens[token] = self._state.clock.now() + lasts
        return json_reply(200, {"access_token": token, "token_type": "bearer", "expires_in": round(lasts)})

    async def _assets(self, request: Request) -> Reply:
        if request.method == "POST":
            kind = (request.json() or {}).get("mediaType")
            if not isinstance(kind, str) or not kind:
                return _error(400, "BAD_REQUEST", "mediaType is missing.")
            asset = self.storage.create(kind)
            return json_reply(200, {"assetID": asset.id, "uploadUri": self.storage.address(asset, "PUT", request.base)})
        found = self.storage.get(request.groups["asset"])
        if found is None:
            return _error(404, "NOT_FOUND", "Asset not found.")
        if request.method == "DELETE":
            self.storage.delete(found)
            return Reply(204)
        size = len(found.data or b"")
        return json_reply(
            200,
            {"downloadUri": self.storage.address(found, "GET", request.base), "size": size, "type": found.media_type},
        )

    async def _autotag(self, request: Request) -> Work:
        asked = request.json() or {}
        asset = self.storage.get(str(asked.get("assetID", "")))
        if asset is None or asset.data is None:
            raise Refused(_error(400, "BAD_REQUEST", "The input asset is invalid, expired or was not uploaded."))
        if len(asset.data) > self._state.settings.adobe.max_bytes:
            raise Refused(_error(400, "FILE_SIZE_LIMIT_EXCEEDED", "The file is larger than what is supported."))
        loop = asyncio.get_running_loop()
        try:
            pages = await loop.run_in_executor(self._state.parsers, page_count, asset.data)
        except Unreadable:
            pages = 0
        units = {"pages": pages, "transactions": pages * TRANSACTIONS_PER_PAGE}

        async def do() -> Reply:
            job = self._jobs.start(asset, asked, units, request.base)
            return Reply(201, b"", {"location": f"{request.base}/operation/autotag/{job.id}/status"})

        def special(kind: str) -> Reply | None:
            if kind not in ("failed", "bad_pdf"):
                return None
            job = self._jobs.start(asset, asked, units, request.base, fails=kind)
            return Reply(201, b"", {"location": f"{request.base}/operation/autotag/{job.id}/status"})

        return Work(do, units, fingerprint=asset.fingerprint, special=special, also="adobe.job")

    def _status(self, request: Request) -> Work:
        job = self._jobs.get(request.groups["job"])
        if job is None:
            raise Refused(_error(404, "NOT_FOUND", "Job not found."))

        async def do() -> Reply:
            content = described(job, self.storage, request.base)
            if job.status != "in progress":
                return json_reply(200, content)
            return json_reply(200, content, retry_after=f"{self._state.settings.adobe.retry_after_s:g}")

        return Work(do, fingerprint=job.fingerprint)


def _error(status: int, code: str, message: str) -> Reply:
    return json_reply(status, {"error": {"code": code, "message": message, "status": status}})
