"""The way of a call: counted at its arrival, checked, admitted or refused, worked on, answered, counted at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from forebay.simulate import delivery
from forebay.simulate.adobe import Adobe
from forebay.simulate.api import Api
from forebay.simulate.docai import DocumentAi
from forebay.simulate.fault import BadFault, Fault
from forebay.simulate.faults import HEADER
from forebay.simulate.messages import Denial, Refused, Reply, Request, Work, json_reply
from forebay.simulate.openai import OpenAi
from forebay.simulate.record import Call
from forebay.simulate.state import State
from forebay.simulate.translate import Translate

T = TypeVar("T")
_FORMS: Final = {"openai": "seconds", "azure": "seconds"}
"""How an API's 429 says when to come again, if nothing else is set: the others say nothing."""
_CREATED: Final = range(200, 300)
_BAD_GATEWAY: Final = Reply(
    502,
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    b"</body>\r\n</html>\r\n",
    {"content-type": "text/html"},
)


class Client(delivery.Client, Protocol):
    on_last: Callable[[], None]
    """Called when the last byte was written, or none will be any more."""

    async def body(self) -> bytes:
        """All that it sends; raises Gone if it goes first."""

    async def left(self) -> None:
        """Returns when it has gone."""


class Calls:
    def __init__(self, state: State) -> None:
        self.adobe = Adobe(state)
        self._state = state
        self._apis: tuple[Api, ...] = (DocumentAi(state), self.adobe, OpenAi(state), Translate(state))

    async def answer(self, request: Request, client: Client) -> None:
        for api in self._apis:
            route = api.find(request)
            if route is not None:
                await self._answer(api, route, request, client)
                return
        message = f"No API that is simulated has {request.method} {request.path}. GET /simulate lists them."
        await client.send(json_reply(404, {"error": {"code": 404, "message": message, "status": "NOT_FOUND"}}))

    async def _answer(self, api: Api, route: str, request: Request, client: Client) -> None:
        state = self._state
        call = state.ledger.begin(route, request.arrived)

        def end() -> None:
            if call.ended is None:
                if call.admitted:
                    state.quotas.release(route)
                state.ledger.end(call, state.clock.now())

        # In the same step as the last write: what the client sends next comes after this end, never before it.
        client.on_last = end
        try:
            request.body = await client.body()
            reply, fault = await self._attended(self._reply(api, route, request, call), client)
            call.status = reply.status
            api.finish(route, request, reply)
            call.whole = await self._attended(delivery.deliver(reply, fault, client, state.garbage), client, last=True)
        except delivery.Gone:
            call.gone = True
        finally:
            end()

    async def _attended(self, work: Awaitable[T], client: Client, *, last: bool = False) -> T:
        """Until the client goes, or to the end for one that has gone, if the provider is of that kind.

        After the last write a client counts as gone too, which then means nothing.
        """
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(client.left())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            gone = leaving.done() and not (last and working.done())
            if self._state.settings.sticky:
                await asyncio.wait({working})
            if gone:
                raise delivery.Gone
            return await working
        finally:
            for task in (working, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task

    async def _reply(self, api: Api, route: str, request: Request, call: Call) -> tuple[Reply, Fault | None]:
        state = self._state
        try:
            fault = state.faults.choose(route, request.headers.get(HEADER), now=request.arrived)
        except BadFault as error:
            return json_reply(400, {"error": {"code": 400, "message": str(error), "status": "INVALID_ARGUMENT"}}), None
        try:
            work = await api.prepare(route, request)
        except Refused as refused:
            return refused.reply, fault
        call.units, call.used, call.fingerprint = dict(work.units), dict(work.used), work.fingerprint
        if fault is not None:
            call.fault = str(fault)
            if fault.refuses:
                return self._refusal(api, route, fault), None
        routes = (route, work.also) if work.also else (route,)
        denial = state.quotas.admit(routes, request.arrived, work.units)
        if denial is not None:
            call.denied_by = f"{denial.quota} {denial.bound}"
            said = Fault("429", self._form(route), denial.retry_in_s)
            return api.denied(route, denial, said), fault
        call.admitted = True
        return await self._worked(work, route, call, fault), fault

    async def _worked(self, work: Work, route: str, call: Call, fault: Fault | None) -> Reply:
        lasts_s = self._state.latency(route)
        reply: Reply | None = None
        if fault is not None:
            lasts_s += (fault.s or 1.0) if fault.kind == "slow" else 0.0
            reply = work.special(fault.kind)
        waiting = asyncio.ensure_future(asyncio.sleep(lasts_s))
        try:
            if reply is None:
                reply = await work.do()
            call.paid = reply.status in _CREATED
            await waiting
        finally:
            waiting.cancel()
        return reply

    def _refusal(self, api: Api, route: str, fault: Fault) -> Reply:
        match fault.kind:
            case "429":
                form = fault.form or self._form(route)
                return api.denied(route, None, Fault("429", form, fault.after))
            case "quota":
                denial = Denial(route, "month", "calls", 0, None, 0.0, month=True)
                return api.denied(route, denial, Fault("429", fault.form or "none", fault.after))
            case "401":
                return api.unauthorized(route)
            case "502":
                return Reply(_BAD_GATEWAY.status, _BAD_GATEWAY.body, dict(_BAD_GATEWAY.headers))
            case _:
                return api.broken(route, int(fault.kind))

    def _form(self, route: str) -> str:
        api = route.partition(".")[0]
        retry = self._state.settings.retry
        return retry.get(route) or retry.get(api) or _FORMS.get(api, "none")
