"""Runs one attempt of a callback: signs it, sends it, and says what the receiver's answer means for the task."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from forebay.callbacks import signing, target
from forebay.callbacks.sending import Answer, Sender
from forebay.callbacks.target import Target
from forebay.engine.context import Context
from forebay.engine.registry import Kind, Places
from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadInput
from forebay.model.callback import KIND, Endpoint
from forebay.observe import emit
from forebay.rules import retry_after
from forebay.rules.verdict import ErrorClass
from forebay.stores.base import Ledger

SCHEDULE_S: Final[tuple[float, ...]] = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""What Standard Webhooks proposes: the pauses before each further attempt, three days in all."""

PLACES: Final = Places(in_all=40, per_lane=2, per_group=4)
"""A lane is a tenant at a host, a group all tenants at that host; a tenant gets half of the places at most."""

_MOST_WAIT_S = 86_400.0
_JITTER = 0.1
_GONE = 410
_OK = range(200, 300)
_MOVED = range(300, 400)
_SLOW_DOWN = {429, 502, 503, 504}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliverer:
    """`key` is the operator's, from which all secrets follow."""

    ledger: Callable[[], Ledger]
    sender: Callable[[], Sender]
    key: Callable[[], bytes]
    schedule_s: tuple[float, ...] = SCHEDULE_S
    jitter: Callable[[], float] = random.random
    complete: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """Adds the result to the body of a callback that asks for it."""

    def kind(self, timeout_s: float) -> Kind:
        return Kind(
            name=KIND,
            handler=self.deliver,
            timeout_s=timeout_s,
            max_retries=len(self.schedule_s),
            places=PLACES,
        )

    async def deliver(self, ctx: Context, endpoint: str, url: str, body: dict[str, Any]) -> dict[str, Any]:
        """What it returns is stored as the delivery's result: no more than the status."""
        known = await asyncio.to_thread(self.ledger().endpoint, endpoint)
        if known is not None and known.disabled_at is not None:
            raise Permanent(
                f"The endpoint is disabled: {known.note or 'by an operator'}.", error_class=ErrorClass.REFUSED
            )
        generations = (1,) if known is None else signing.in_force(known.generation, known.rotated_at, time.time())
        key = await asyncio.to_thread(self.key)
        secrets = [signing.secret_of(key, endpoint, each) for each in generations]
        content = encoded(await asyncio.to_thread(self.complete, body))
        sender = self.sender()
        try:
            answer = await sender.post(
                _allowed(url, sender),
                signing.headers(secrets, ctx.task_id, content, now=time.time()),
                content,
            )
        except Retry as error:
            emit(
                "callback_failed", task_id=ctx.task_id, attempt=ctx.attempt, status=None, error_class=error.error_class
            )
            raise Retry(
                error.text, error_class=error.error_class, delay_s=self._pause_s(ctx.retry_count, None)
            ) from None
        if answer.status in _OK:
            return {"status": answer.status}
        emit("callback_failed", task_id=ctx.task_id, attempt=ctx.attempt, status=answer.status, error_class=None)
        if answer.status == _GONE:
            await asyncio.to_thread(self._disable, endpoint, url, ctx.tenant)
            raise Permanent("The receiver answered 410: it wants no more callbacks.", error_class=ErrorClass.REFUSED)
        raise self._again(ctx, answer)

    def _again(self, ctx: Context, answer: Answer) -> Retry:
        hint_s = retry_after.parse(answer.headers, now=answer.received_at) if answer.status in _SLOW_DOWN else None
        what = "a redirect, which is not followed" if answer.status in _MOVED else "no success"
        return Retry(
            f"The receiver answered {answer.status}: {what}.",
            # Not by what it says: of other classes fewer attempts are worth while.
            error_class=ErrorClass.SERVICE_UNAVAILABLE,
            delay_s=self._pause_s(ctx.retry_count, hint_s),
        )

    def _pause_s(self, retry_count: int, hint_s: float | None) -> float:
        """By the schedule, a little more for some than for others, and never sooner than the receiver asked for."""
        usual_s = self.schedule_s[min(retry_count, len(self.schedule_s) - 1)] * (1 + _JITTER * self.jitter())
        return max(usual_s, min(hint_s or 0.0, _MOST_WAIT_S))

    def _disable(self, endpoint_id: str, url: str, tenant: str) -> None:
        ledger = self.ledger()
        while True:
            now = time.time()
            known = ledger.endpoint(endpoint_id)
            if known is None:
                known = Endpoint(id=endpoint_id, tenant=tenant, url=url, created_at=now)
                changed = replace(known, disabled_at=now, note="it answered 410")
            elif known.disabled_at is not None:
                return
            else:
                changed = replace(known, disabled_at=now, note="it answered 410", version=known.version + 1)
            if ledger.put_endpoint(changed):
                emit("callback_endpoint_disabled", endpoint_id=endpoint_id)
                return


def _allowed(url: str, sender: Sender) -> Target:
    try:
        return target.read(url, sender.policy)
    except BadInput as error:
        raise Permanent(str(error), error_class=ErrorClass.REFUSED) from None


def encoded(body: Mapping[str, Any]) -> bytes:
    """The same bytes whenever they are made: what is signed is what is stored."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
