"""Turns every error into one problem document (RFC 9457): what went wrong, what to do, and never a traceback."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import compile_path

from forebay.errors import BadDocument, BlobMissing, Busy, ForebayError, ResultCorrupt, StoreError, StoreFull
from forebay.ids import printable, shown
from forebay.rules.verdict import ErrorClass
from forebay.server.heads import has_head
from forebay.server.preferences import full_507

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
_MAX_NAMED = 20
_CODES = {404: "no_such_path", 405: "method_not_allowed"}
_PASSING = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE}
UPGRADE = "Tell the operator to start a server of the newer version, then send it again."
_AGAIN = "Send it again in a moment."
_STORES = {
    "store_full": "Send it again later, or tell the operator.",
    "schema_too_new": UPGRADE,
    "store_unreachable": _AGAIN,
    "store_busy": _AGAIN,
    "maybe_applied": "Ask again in a moment, with the same Idempotency-Key where there is one.",
}
_STORE = "Tell the operator, with the request id."
_LOST = "Hand the document or the task in again, then retry it: what is still stored of it is used again."
_DOCUMENTS = {ErrorClass.UNSUPPORTED_FORMAT: 415}
log = logging.getLogger("forebay.server")


class Refused(ForebayError):
    """A request that HTTP itself has a status for; `closing` ends the connection, since its body was not read."""

    def __init__(
        self,
        status: int,
        code: str,
        what: str,
        *,
        remedy: str = "",
        headers: Mapping[str, str] | None = None,
        closing: bool = False,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what, remedy=remedy)
        self.status = status
        self.own_code = code
        self.more = more
        self.headers = {**(headers or {}), **({"connection": "close"} if closing else {})}


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    request_id: str,
    remedy: str = "",
    retry_after: int | None = None,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Response:
    document = {
        "type": f"urn:forebay:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": printable(detail),
        "code": code,
        "remedy": remedy,
        "request_id": request_id,
        **(more or {}),
    }
    told = dict(headers or {})
    if retry_after is not None:
        document["retry_after"] = retry_after
        told["retry-after"] = str(retry_after)
    body = json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    return Response(body, status, told, media_type=MEDIA_TYPE)


def of_error(error: ForebayError, request_id: str, *, full: int = HTTPStatus.SERVICE_UNAVAILABLE) -> Response:
    """`full` is the status of a store that has no room."""
    status, code = error.http_status, error.code
    headers: Mapping[str, str] = {}
    retry_after: int | None = None
    more: Mapping[str, Any] | None = None
    what, remedy = error.what, error.remedy
    if isinstance(error, Refused):
        status, code, headers, more = error.status, error.own_code, error.headers, error.more
    elif isinstance(error, BadDocument):
        code = error.error_class
        status = _DOCUMENTS.get(ErrorClass(code), status)
    elif isinstance(error, StoreError):
        status = full if isinstance(error, StoreFull) else HTTPStatus.SERVICE_UNAVAILABLE
        remedy = _STORES.get(code, _STORE)
    elif isinstance(error, BlobMissing | ResultCorrupt):
        remedy = _LOST
    if error.public is not None:
        # Its own text names addresses and folders, which are for operators: they find it in the log.
        what = error.public
        fields = {"request_id": request_id, "error_code": code, "text": printable(str(error))}
        log.warning("request_failed", extra={"fields": fields})
    if isinstance(error, Busy):
        retry_after = max(1, ceil(error.retry_in_s))
    elif status in _PASSING and "retry-after" not in headers:
        retry_after = RETRY_AFTER_S
    elif "retry-after" in headers:
        retry_after = int(headers["retry-after"])
    return problem(
        status,
        code,
        what,
        request_id=request_id,
        remedy=printable(remedy),
        retry_after=retry_after,
        headers=headers,
        more=more,
    )


def of_anything(error: BaseException, request_id: str) -> Response:
    if isinstance(error, ForebayError):
        return of_error(error, request_id)
    if isinstance(error, RequestValidationError):
        return _of_validation(error.errors(), request_id)
    if isinstance(error, HTTPException):
        return _of_http(error, request_id)
    if isinstance(error, ClientDisconnect):
        return problem(400, "client_gone", "The body ended before its time.", request_id=request_id)
    log.error("request_failed", exc_info=error, extra={"fields": {"request_id": request_id}})
    return problem(
        500,
        "bug",
        "The server failed at this request.",
        request_id=request_id,
        remedy="This is a bug: report it with the request id, under which the server has logged what happened.",
    )


def _of_http(error: HTTPException, request_id: str) -> Response:
    code = _CODES.get(error.status_code, HTTPStatus(error.status_code).phrase.lower().replace(" ", "_"))
    said = "There is nothing at this path." if error.status_code == HTTPStatus.NOT_FOUND else str(error.detail)
    return problem(
        error.status_code,
        code,
        said,
        request_id=request_id,
        remedy="See /docs for the paths and methods there are.",
        headers=error.headers,
    )


def _of_validation(errors: Sequence[Any], request_id: str) -> Response:
    named = [
        {"at": ".".join(printable(str(part))[:100] for part in each["loc"]), "what": _said(each["msg"])}
        for each in errors[:_MAX_NAMED]
    ]
    first = named[0] if named else {"at": "request", "what": "is not valid"}
    return problem(
        422,
        "invalid_request",
        f"{first['at']}: {first['what'].removesuffix('.')}.",
        request_id=request_id,
        remedy="Correct the fields that `errors` names; /docs shows what they take.",
        more={"errors": named},
    )


def _said(message: str) -> str:
    """Without what pydantic puts before the words of a validator of ours."""
    return printable(message.removeprefix("Value error, "))


def install(app: FastAPI) -> None:
    async def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            error.headers = {"allow": ", ".join(_methods(request))}
        request_id = request.scope.get("forebay_request_id", "")
        if isinstance(error, StoreFull):
            request.app.state.service.disk.is_full()
        if isinstance(error, StoreFull) and _prefers_507(request):
            return of_error(error, request_id, full=HTTPStatus.INSUFFICIENT_STORAGE)
        return of_anything(error, request_id)

    for kind in (ForebayError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)


def _prefers_507(request: Request) -> bool:
    """To most clients a full store is one that cannot serve for now: 507 is for those who know it, and say so."""
    described = HTTPStatus.INSUFFICIENT_STORAGE in getattr(request.scope.get("route"), "responses", ())
    return described and full_507(request.headers.get("prefer"))


def _methods(request: Request) -> list[str]:
    """All that the path has: each is a route of its own, and a router names only those of the first."""
    described = request.app.openapi()["paths"]
    matching = (path for path in described if compile_path(path)[0].match(request.scope["path"]))
    found = {method.upper() for path in matching for method in described[path]} or {"GET"}
    return sorted(found | ({"HEAD"} if "GET" in found and has_head(request.scope["path"]) else set()))


def not_there(what: str, identifier: str) -> Refused:
    """The same for what is not there and for what is another tenant's."""
    return Refused(
        404, "not_found", f"There is no {what} {shown(identifier)}.", remedy="List those there are, or check the id."
    )
