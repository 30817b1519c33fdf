"""The limiter for programs in other languages: take a slot, renew it, give it back; /v1/limits/NAME/slots."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from math import ceil
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from forebay import ids
from forebay.clock import iso
from forebay.limits.asking import KEEP_S, Claim
from forebay.limits.lent import Ended, Lender, Owner, SlotLost, Turn, slot_of
from forebay.model.names import LABEL_LENGTH
from forebay.server.bodies import JsonRoute
from forebay.server.callers import SlotTaker
from forebay.server.limits import Name, audit, known, owner
from forebay.server.problems import Refused
from forebay.server.service import Service, Serving
from forebay.server.shapes import SlotEnd, SlotOrder, SlotRenewal, SlotShape, answers

router = APIRouter(prefix="/v1", tags=["slots"], route_class=JsonRoute)
SlotId = Annotated[
    str, Path(pattern=rf"^[a-z2-7]{{{ids.LENGTH}}}(\.[a-z2-7]{{{ids.LENGTH}}})?$", description="As the slot was given.")
]
Place = Annotated[str, Path(min_length=1, max_length=LABEL_LENGTH, description="What the caller calls its place.")]
MAX_SLOTS = 100
_LONGEST_PAUSE_S = 1.0
_LONGEST_WAIT_S = 3600
_LEAST_PAUSE_S = 0.02
_BAD = (400, 401, 403, 404, 408, 409, 410, 413, 415, 422, 429, 503)


def _lender(service: Service, name: str) -> Lender:
    return known(service, name).lender


@router.post("/limits/{name}/slots", status_code=201, responses=answers({201: SlotShape}, *_BAD))
async def take(
    service: Serving, caller: SlotTaker, request: Request, name: Name, order: SlotOrder | None = None
) -> JSONResponse:
    """Leave to make one call, from all bounds of the limit at once; 429 says when to ask again."""
    asked = order or SlotOrder(wait_s=0, label="", place="", keep_s=KEEP_S, holder="")
    mine = owner(caller)
    lender = await service.ask(_lender, service, name)
    claim = mine.claim(asked.place, keep_s=asked.keep_s, holder=asked.holder) if asked.place else None
    place = claim.session if claim else ""
    claims = await service.ask(lender.claims, name, mine, service.slots_share, place=place)
    if claims.slots >= MAX_SLOTS:
        raise _too_many(f"This key holds or waits for {MAX_SLOTS} slots of {name} already.")
    if claims.beyond_share:
        raise _beyond_share(name)
    if claims.cooled_s:
        raise Refused(
            429,
            "busy",
            f"Limit {name} cools down for this tenant: the provider refused its calls, or they failed.",
            remedy="Ask again then.",
            headers={"retry-after": str(max(1, ceil(claims.cooled_s)))},
        )
    turn, slot_id = await _stood(service, request, lender, name=name, order=asked, owner=mine, claim=claim)
    if not turn.granted:
        place_told = {"place": asked.place} if claim else {}
        raise Refused(
            429,
            "busy",
            f"Limit {name} had no slot within {asked.wait_s:g} s: {', '.join(turn.blocked_by)}; {turn.ahead} ahead.",
            remedy="Ask again then, or stand in line for longer: wait_s.",
            headers={"retry-after": str(max(1, ceil(min(turn.retry_in_s, _LONGEST_WAIT_S))))},
            more={
                **place_told,
                "position": turn.ahead,
                "eta_s": turn.eta_s,
                "blocked_by": list(turn.blocked_by),
            },
        )
    location = f"/v1/limits/{name}/slots/{slot_id}"
    return JSONResponse(_shown(name, slot_id, turn), 201, {"location": location})


async def _stood(
    service: Service,
    request: Request,
    lender: Lender,
    *,
    name: str,
    order: SlotOrder,
    owner: Owner,
    claim: Claim | None,
) -> tuple[Turn, str]:
    """Asks until there is a slot or the time is over; whoever leaves takes nothing along but a place that is kept."""
    slot_id = ids.random_id() if claim is None else slot_of(claim)
    ends_at = time.monotonic() + order.wait_s
    for n in count(1):
        turn = await service.ask(
            lender.ask, name, slot_id, n, owner=owner, label=order.label, units=dict(order.units), claim=claim
        )
        left_s = ends_at - time.monotonic()
        gone = await request.is_disconnected()
        if turn.granted and not gone:
            return turn, slot_id
        if claim is not None and not turn.granted and (gone or left_s <= 0 or service.stopping.is_set()):
            return turn, slot_id
        if gone or left_s <= 0 or service.stopping.is_set():
            await service.ask(lender.leave, name, slot_id, n + 1, owner=owner)
            if not gone and not turn.granted:
                await service.ask(lender.refused, name, owner, turn.retry_in_s)
            return turn._replace(granted=False), slot_id
        if await service.ask(lender.has_share, name, owner, service.slots_share):
            if claim is None:
                await service.ask(lender.leave, name, slot_id, n + 1, owner=owner)
            raise _beyond_share(name)
        await asyncio.sleep(min(left_s, max(_LEAST_PAUSE_S, min(turn.again_s, _LONGEST_PAUSE_S))))
    raise AssertionError


@router.delete("/limits/{name}/places/{place:path}", status_code=204, responses=answers({204: None}, *_BAD))
async def leave(service: Serving, caller: SlotTaker, name: Name, place: Place) -> Response:
    """Give up a place that was kept; 409 if somebody holds its slot."""
    lender = await service.ask(_lender, service, name)
    await service.ask(lender.leave_place, name, owner(caller), place)
    return Response(status_code=204)


@router.patch("/limits/{name}/slots/{id}", responses=answers({200: SlotShape}, *_BAD))
async def renew(
    service: Serving,
    caller: SlotTaker,
    name: Name,
    id: SlotId,  # noqa: A002 - as the path says
    order: SlotRenewal | None = None,
) -> JSONResponse:
    """Keep a slot for another lease."""
    lender = await service.ask(_lender, service, name)
    start = bool(order and order.start)
    try:
        turn = await service.ask(lender.renew, name, id, owner=owner(caller), start=start, share=service.slots_share)
    except SlotLost as error:
        raise _gone(error) from None
    return JSONResponse(_shown(name, id, turn))


@router.delete("/limits/{name}/slots/{id}", status_code=204, responses=answers({204: None}, *_BAD))
async def end(
    service: Serving,
    caller: SlotTaker,
    name: Name,
    id: SlotId,  # noqa: A002 - as the path says
    order: SlotEnd | None = None,
) -> Response:
    """Give a slot back, and say what became of the call.

    `throttled` cools the limit down, and so does `failed` several times in a row: for everybody if the key has no
    tenant, else for that tenant, and for everybody once a second tenant says the same. A tenant's call takes at most
    twice the units that it reserved.
    """
    lender = await service.ask(_lender, service, name)
    asked = order or SlotEnd(retry_after_s=None)
    throttled = asked.outcome == "throttled"
    try:
        ended = await service.ask(
            lender.end,
            name,
            id,
            owner=owner(caller),
            outcome=asked.outcome,
            units=dict(asked.units),
            throttled=throttled,
            retry_after_s=asked.retry_after_s,
        )
    except SlotLost as error:
        raise _gone(error) from None
    if throttled:
        told = "" if asked.retry_after_s is None else f"retry_after_s={asked.retry_after_s:g}"
        await service.ask(audit, service, caller, "throttle_limit", name, told)
    elif asked.outcome == "failed":
        await service.ask(audit, service, caller, "fail_limit", name, _cooled(ended))
    if ended.beyond:
        told = ", ".join(f"{unit}={count}" for unit, count in ended.beyond)
        await service.ask(audit, service, caller, "exceed_limit", name, told)
    return Response(status_code=204)


def _cooled(ended: Ended) -> str:
    cooled = {"the tenant": ended.own_s, "everybody": ended.all_s}
    return ", ".join(f"cools {whom} down for {for_s:g} s" for whom, for_s in cooled.items() if for_s > 0)


def _gone(error: SlotLost) -> Refused:
    return Refused(410, "slot_lost", error.what, remedy=error.remedy)


def _beyond_share(name: str) -> Refused:
    return _too_many(f"This tenant has its share of {name}, and others use the limit as well.")


def _too_many(what: str) -> Refused:
    return Refused(429, "too_many_slots", what, remedy="Give some back.", headers={"retry-after": "5"})


def _shown(name: str, slot_id: str, turn: Turn) -> dict[str, Any]:
    return {
        "id": slot_id,
        "limit": name,
        "lease_s": turn.lease_s,
        "call_timeout_s": turn.call_timeout_s,
        "start_within_s": turn.start_within_s,
        "start_by_s": max(0.0, round(turn.start_within_s - turn.age_s, 3)),
        "granted_at": iso(time.time() - turn.age_s),
    }
