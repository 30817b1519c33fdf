"""Shows limits and changes them, for every process at once: /v1/limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from forebay.app.limits import changes_text
from forebay.errors import NotFound
from forebay.limits.lent import Owner
from forebay.limits.limiter import Limiter
from forebay.limits.usage import Holder, Usage
from forebay.model.exchange import Action
from forebay.server import paging
from forebay.server.bodies import JsonRoute
from forebay.server.callers import Caller, Overseer, Reader
from forebay.server.problems import not_there
from forebay.server.service import Service, Serving
from forebay.server.shapes import ForgottenShape, LimitList, LimitOrder, LimitShape, PauseOrder, ResetOrder, answers

router = APIRouter(prefix="/v1", tags=["limits"], route_class=JsonRoute)
Name = Annotated[str, Path(pattern=r"^[a-z0-9_.-]{1,64}$", description="The limit's name.")]
_READS = (401, 403, 404, 422, 503)
_ACTS = (400, 401, 403, 404, 408, 413, 415, 422, 503)


@router.get("/limits", responses=answers({200: LimitList}, 401, 403, 422, 503))
async def listing(service: Serving, caller: Reader) -> JSONResponse:
    """Every limit, and how it stands."""
    return JSONResponse(await service.ask(_all, service, caller))


def _all(service: Service, caller: Caller) -> dict[str, Any]:
    limiter = service.app.limits.found()
    if limiter is None:
        return paging.items([])
    return paging.items(_told(usage, caller) for usage in limiter.usages())


@router.get("/limits/{name}", responses=answers({200: LimitShape}, *_READS))
async def get(service: Serving, caller: Reader, name: Name) -> JSONResponse:
    """A limit: its bounds and who set them, what is used, who holds it and who waits.

    A key of a tenant sees all counts, but names and ids only of what it holds itself.
    """
    return JSONResponse(await service.ask(_usage, service, name, caller))


def _usage(service: Service, name: str, caller: Caller) -> dict[str, Any]:
    return _told(known(service, name).usage(name), caller)


def _told(usage: Usage, caller: Caller) -> dict[str, Any]:
    if caller.tenant is None:
        return usage.plain()
    mine = owner(caller)
    holders = tuple(each if each.label == mine.label else _nameless(each) for each in usage.holders)
    layers = tuple(replace(each, who="", note="") for each in usage.layers)
    keys = tuple(each for each in usage.keys if each.key == mine.flow)
    places = tuple(each for each in usage.places if each.label == mine.label)
    return replace(usage, holders=holders, keys=keys, places=places, layers=layers, note="", paused_by="").plain()


def _nameless(holder: Holder) -> Holder:
    calls = tuple(replace(each, label="", job_id=None, task_id=None) for each in holder.calls)
    return replace(holder, session="", label="", place="", calls=calls)


def owner(caller: Caller) -> Owner:
    """Who has the slots that were taken over HTTP."""
    return Owner(caller.key.id if caller.key else "anybody", caller.tenant or "")


def audit(service: Service, caller: Caller, verb: str, name: str, note: str = "") -> None:
    """Leave a line in the audit trail for what was done to a limit."""
    service.app.ledger.record_action(verb, [name], Action(who=caller.who, tenant=caller.own_tenant, note=note))


def known(service: Service, name: str) -> Limiter:
    """The limiter, unless there is no such limit, or none at all."""
    limiter = service.app.limits.found()
    if limiter is None:
        raise not_there("limit", name)
    return limiter


@router.patch("/limits/{name}", responses=answers({200: LimitShape}, *_ACTS))
async def change(service: Serving, caller: Overseer, name: Name, order: LimitOrder) -> JSONResponse:
    """Change some of a limit, or define one that there is not, as `forebay limits set` does."""
    return JSONResponse(await service.ask(_change, service, name, order, caller))


def _change(service: Service, name: str, order: LimitOrder, caller: Caller) -> dict[str, Any]:
    values = order.model_dump(exclude={"for_s", "note"}, exclude_none=True)
    if "windows" in values:
        values["windows"] = [[each["n"], each["per_s"], each["unit"]] for each in values["windows"]]
    limiter = service.app.limiter
    limiter.configure(name, for_s=order.for_s, note=order.note, who=caller.who, **values)
    audit(service, caller, "set_limit", name, changes_text(values, order.for_s, order.note))
    return limiter.usage(name).plain()


@router.post("/limits/{name}/pause", responses=answers({200: LimitShape}, *_ACTS))
async def pause(service: Serving, caller: Overseer, name: Name, order: PauseOrder | None = None) -> JSONResponse:
    """Let no call start, for so long or until it is resumed; what runs goes on."""

    def run() -> dict[str, Any]:
        limiter = known(service, name)
        for_s, note = (order.for_s, order.note) if order else (None, "")
        limiter.pause(name, for_s=for_s, note=note, who=caller.who)
        audit(service, caller, "pause_limit", name, changes_text({}, for_s, note))
        return limiter.usage(name).plain()

    return JSONResponse(await service.ask(run))


@router.post("/limits/{name}/resume", responses=answers({200: LimitShape}, *_READS))
async def resume(service: Serving, caller: Overseer, name: Name) -> JSONResponse:
    """End a pause, a cool-down or a park; calls start at once."""

    def run() -> dict[str, Any]:
        limiter = known(service, name)
        limiter.resume(name)
        audit(service, caller, "resume_limit", name)
        return limiter.usage(name).plain()

    return JSONResponse(await service.ask(run))


@router.post("/limits/{name}/reset", responses=answers({200: ForgottenShape}, *_ACTS))
async def reset(service: Serving, caller: Overseer, name: Name, order: ResetOrder | None = None) -> JSONResponse:
    """Forget what processes hold that have ended, or all of it; never needed to go on."""

    def run() -> dict[str, Any]:
        try:
            count = known(service, name).reset(name, everything=bool(order and order.everything))
        except NotFound:
            raise not_there("limit", name) from None
        audit(service, caller, "reset_limit", name, "everything" if order and order.everything else "")
        return {"limit": name, "forgotten_count": count}

    return JSONResponse(await service.ask(run))
