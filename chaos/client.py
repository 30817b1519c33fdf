"""Speaks to a ledger through its contract and keeps a journal of every question and every answer."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from chaos import orders
from forebay.errors import ForebayError
from forebay.model.exchange import Action, Hold, Release, Renewal, Reply, Session, Settle, Want
from forebay.model.task import Task
from forebay.stores.base import Ledger

T = TypeVar("T")
_DROPPED = 0.04
_SLOW = 0.35


class Notes(Protocol):
    """Where questions and answers are written down."""

    def note(self, event: str, **fields: Any) -> None: ...  # noqa: ANN401 - whatever JSON takes


class Client:
    """Repeats by the same ids whatever was not answered; now and then it acts as if an answer had been lost."""

    def __init__(self, ledger: Ledger, journal: Notes, name: str, *, seed: float, loses: bool = True) -> None:
        self._ledger = ledger
        self._journal = journal
        self._name = name
        self._chance = random.Random(seed)
        self._loses = loses
        self._calls = itertools.count(1)

    def _ask(self, asked: dict[str, Any], ask: Callable[[], T], told: Callable[[T], dict[str, Any]]) -> T:
        call = f"{self._name}/{next(self._calls)}"
        while True:
            self._journal.note("asked", c=call, **asked)
            try:
                answer = ask()
            except ForebayError as error:
                self._journal.note("error", c=call, verb=asked["verb"], kind=type(error).__name__, text=str(error))
                time.sleep(0.01)
                continue
            luck = self._chance.random() if self._loses else 1.0
            if luck < _DROPPED:
                self._journal.note("dropped", c=call, verb=asked["verb"], **told(answer))
                continue
            if luck < _SLOW:
                # Answered, but nobody knows it yet: the moment in which a kill loses a reply.
                time.sleep(self._chance.uniform(0.002, 0.03))
            self._journal.note("told", c=call, verb=asked["verb"], **told(answer))
            return answer

    def submit(self, keys: Sequence[str], *, again: bool = False) -> None:
        batch = [orders.make(key) for key in keys]
        items = [[key, item.id, orders.chunk_count(item)] for key, item in zip(keys, batch, strict=True)]
        self._ask(
            {"verb": "submit", "items": items, "again": again},
            lambda: self._ledger.submit(batch),
            lambda answers: {"outcomes": [[one.id, one.outcome] for one in answers]},
        )

    def open_session(self, session: Session) -> None:
        self._ask(
            {"verb": "open", "s": session.id, "lease_s": session.lease_s},
            lambda: self._ledger.open_session(session),
            lambda _: {},
        )

    def close_session(self, session_id: str) -> None:
        self._ask({"verb": "close", "s": session_id}, lambda: self._ledger.close_session(session_id), lambda _: {})

    def renew(self, session_id: str, holds: Sequence[Hold]) -> Renewal:
        return self._ask(
            {"verb": "renew", "s": session_id},
            lambda: self._ledger.renew(session_id, holds),
            lambda renewal: {"alive": renewal.alive},
        )

    def rescue(self) -> list[str]:
        return self._ask({"verb": "rescue"}, self._ledger.rescue, lambda ids: {"ids": ids})

    def mine(self, session_id: str) -> list[Task]:
        return self._ask(
            {"verb": "mine", "s": session_id},
            lambda: self._ledger.mine(session_id),
            lambda tasks: {"s": session_id, "claims": [_claim(task) for task in tasks]},
        )

    def act(self, verb: str, target: str, action: Action) -> None:
        asked = {"verb": verb, "target": target, "action": action.id}
        if verb == "cancel":
            self._ask(asked, lambda: self._ledger.cancel([target], action), lambda acted: {"outcome": acted[0].outcome})
        else:
            self._ask(
                asked,
                lambda: self._ledger.retry([target], action, force=True),
                lambda acted: {"outcome": acted[0].outcome},
            )

    def exchange(
        self, session_id: str, n: int, settles: Sequence[Settle], releases: Sequence[Release], wants: Sequence[Want]
    ) -> Reply:
        asked = {
            "verb": "exchange",
            "s": session_id,
            "n": n,
            "settles": [[one.task_id, one.token, one.outcome, one.status] for one in settles],
            "releases": [[one.task_id, one.token, one.started] for one in releases],
        }
        return self._ask(
            asked,
            lambda: self._ledger.exchange(session_id, n, settles=settles, releases=releases, wants=wants),
            lambda reply: {
                "s": session_id,
                "settled": [[one.task_id, one.token, one.fenced] for one in reply.settled],
                "claims": [_claim(task) for task in reply.claims],
                "alive": reply.alive,
            },
        )


def _claim(task: Task) -> list[Any]:
    return [task.id, task.claim_count, task.exchange_n]
