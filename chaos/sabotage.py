"""Ledgers that break one promise each: a judge that does not convict them is no judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from forebay.model.exchange import Reply, Settle, Settled, Submitted
from forebay.model.job import NewJob
from forebay.model.task import NewTask, Status
from forebay.stores.base import Ledger


class Unfenced:
    """Settles by id alone: whoever comes late writes under the token of whoever holds the task now."""

    def __init__(self, ledger: Ledger, *, forges: Callable[[], None] = lambda: None) -> None:
        self._ledger = ledger
        self._forges = forges

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest of the contract, as it is
        return getattr(self._ledger, name)

    def exchange(self, session_id: str, n: int, *, settles: Sequence[Settle] = (), **rest: Any) -> Reply:  # noqa: ANN401
        forged = [self._forged(settle) for settle in settles]
        reply = self._ledger.exchange(session_id, n, settles=forged, **rest)
        told = [
            Settled(settle.task_id, settle.token, answer.fenced)
            for settle, answer in zip(settles, reply.settled, strict=True)
        ]
        return replace(reply, settled=tuple(told))

    def _forged(self, settle: Settle) -> Settle:
        task = self._ledger.get(settle.task_id)
        if task is None or task.status is not Status.RUNNING:
            return settle
        if settle.token != task.claim_count:
            self._forges()
        return settle._replace(token=task.claim_count)


class Forgetful:
    """Acknowledges one submission of many without having stored it."""

    def __init__(self, ledger: Ledger, *, one_in: int = 20) -> None:
        self._ledger = ledger
        self._one_in = one_in
        self._count = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest of the contract, as it is
        return getattr(self._ledger, name)

    def submit(self, batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
        self._count += 1
        if self._count % self._one_in == 0:
            return [Submitted(new.id, "created") for new in batch]
        return self._ledger.submit(batch)


KINDS: dict[str, Callable[[Ledger], object]] = {"unfenced": Unfenced, "forgetful": Forgetful}


def apply(kind: str, ledger: Ledger) -> Ledger:
    return cast("Ledger", KINDS[kind](ledger)) if kind else ledger
