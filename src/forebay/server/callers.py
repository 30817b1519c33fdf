"""Finds out who asks, by the API key that comes with a request, and what they may do."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from fastapi.security.base import SecurityBase

from forebay.model.key import ApiKey, Scope, key_id_of
from forebay.model.task import DEFAULT_TENANT
from forebay.server.problems import Refused
from forebay.server.request_room import PLACE, Place
from forebay.server.service import Service, service_of

_BEARER = HTTPBearer(
    auto_error=False,
    description="An API key, made by `forebay keys create`; on loopback none is needed as long as there is none.",
)
_KNOWN = "forebay_caller"
_CHALLENGE = {"www-authenticate": 'Bearer realm="forebay"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """Without a tenant they see all of them, and submit for the default one."""

    who: str
    tenant: str | None = None
    key: ApiKey | None = None

    @property
    def own_tenant(self) -> str:
        return self.tenant or DEFAULT_TENANT

    @property
    def flow(self) -> str | None:
        """Whose share of the server it takes: its tenant's, or its key's; None where there are no keys."""
        return f"tenant:{self.tenant}" if self.tenant is not None else None if self.key is None else self.who

    def sees(self, tenant: str) -> bool:
        return self.tenant in {None, tenant}

    def may(self, scope: Scope) -> bool:
        return self.key is None or self.key.may(scope)


def known_caller(request: Request) -> Caller | None:
    """Who asks, if that was found out already."""
    found: Caller | None = request.scope.get(_KNOWN)
    return found


class Needs(SecurityBase):
    """A dependency that lets callers in who have one of the scopes; `everywhere` is for what concerns all tenants.

    One, and no chain of them: FastAPI solves each of a chain anew for every request.
    """

    model = _BEARER.model
    scheme_name = _BEARER.scheme_name

    def __init__(self, *scopes: Scope, everywhere: bool = False) -> None:
        self._scopes = scopes
        self._everywhere = everywhere

    async def __call__(self, request: Request) -> Caller:
        caller = await _caller(request)
        if not any(map(caller.may, self._scopes)):
            named = " or ".join(self._scopes)
            raise Refused(
                403, "missing_scope", f"The API key has no scope {named}.", remedy=f"Use a key with the scope {named}."
            )
        if self._everywhere and caller.tenant is not None:
            raise Refused(
                403,
                "tenant_key",
                f"The API key is that of the tenant {caller.tenant}, and this concerns all of them.",
                remedy="Use a key without a tenant.",
            )
        return caller


async def _caller(request: Request) -> Caller:
    """Found out once for a request, though it may be asked for before its body is read and after that."""
    if _KNOWN not in request.scope:
        place: Place = request.scope[PLACE]
        try:
            caller = await _found(request)
        except Refused as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                place.forget()
            raise
        place.take(caller.flow)
        request.scope[_KNOWN] = caller
    known: Caller = request.scope[_KNOWN]
    return known


async def _found(request: Request) -> Caller:
    service = service_of(request)
    sent = await _BEARER(request)
    if sent is None:
        if not service.keyed and await service.any_key():
            service.keyed = True
        if service.keyed:
            raise _unknown("no_key", "This needs an API key.")
        return Caller(who="http")
    return await _known(service, sent.credentials)


async def _known(service: Service, token: str) -> Caller:
    key_id = key_id_of(token)
    key = None if key_id is None else await service.ask(service.app.ledger.get_key, key_id)
    sha256 = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
    # Compared in any case, so that the time tells nothing of which ids there are.
    same = hmac.compare_digest(sha256, key.sha256 if key else "0" * 64)
    if key is None or not same or not key.alive(time.time()):
        raise _unknown("bad_key", "The API key is unknown, expired or revoked.")
    service.quotas.check_rate(key.id)
    return Caller(who=f"key:{key.id}", tenant=key.tenant, key=key)


def _unknown(code: str, what: str) -> Refused:
    return Refused(
        401, code, what, remedy="Send Authorization: Bearer KEY; `forebay keys create` makes one.", headers=_CHALLENGE
    )


Reader = Annotated[Caller, Depends(Needs(Scope.READ))]
Submitter = Annotated[Caller, Depends(Needs(Scope.SUBMIT))]
SlotTaker = Annotated[Caller, Depends(Needs(Scope.SLOTS, Scope.OPERATE))]
Operator = Annotated[Caller, Depends(Needs(Scope.OPERATE))]
Overseer = Annotated[Caller, Depends(Needs(Scope.OPERATE, everywhere=True))]
Admin = Annotated[Caller, Depends(Needs(Scope.ADMIN, everywhere=True))]
