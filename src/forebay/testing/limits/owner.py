"""The owner of a kept place, who remembers nothing between two asks but what it was granted."""

from __future__ import annotations

from collections.abc import Mapping

from forebay.model.limit import CALLS
from forebay.model.limit_record import Answer, Ask, DeclaredRun
from forebay.rules import kept_places
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.process import LIMIT

KEEP = 120_000


class Owner:
    """`holder` is the token of this delivery; another one of the same place has another token.

    `call` is what it was granted and has not given back, 0 for nothing; `again` is when it was told to come back.
    """

    def __init__(self, store: LimitStore, name: str, holder: str = "first", *, limit: str = LIMIT) -> None:
        self.store = store
        self.name = name
        self.holder = holder
        self.limit = limit
        self.sid = name + kept_places.SUFFIX
        self.call = 0
        self.again = 0
        self.told_at = 0
        self.ahead = 0
        self._heard = 0
        self._next = 1
        self._n = 0

    def ask(
        self, units: Mapping[str, int] | None = None, *, keep: int = KEEP, key: str = "", leaves: bool = False
    ) -> Ask:
        """What it says to get a slot, or to leave the line."""
        run: DeclaredRun = {
            "id": 1,
            "key": key,
            "caller_count": 1,
            "units": {CALLS: 1, **(units or {})},
            "label": "",
            "front": 0,
        }
        ask = self._said(1)
        ask["keep_ms"] = keep
        ask["place_name"] = self.name
        ask["runs"] = [] if leaves else [run]
        return ask

    def _said(self, n: int) -> Ask:
        return {
            "session_id": self.sid,
            "request_number": n,
            "confirmed_grant_number": self._heard,
            "next_call_id": self._next,
            "label": self.name,
            "seen_at": -1,
            "elapsed_ms": 0,
            "seen_version": 0,
            "answered_request_number": 0,
            "is_sure": 0,
            "terms_version": -1,
            "grant_delay_ms": 0,
            "ended_calls": [],
            "refusals": [],
            "restamp_call_ids": [],
            "runs": [],
            "holder": self.holder,
        }

    def asks(self, units: Mapping[str, int] | None = None, *, keep: int = KEEP, key: str = "") -> bool:
        """Whether it has a slot now."""
        return self.takes(self.store.exchange(self.limit, self.ask(units, keep=keep, key=key)))

    def takes(self, answer: Answer) -> bool:
        for grant in answer["grants"]:
            self.call = grant["first_call_id"]
            self._heard, self._next, self._n = grant["number"], grant["first_call_id"] + 1, 1
        for wait in answer["waits"]:
            self.again, self.ahead = wait["ask_again_in_ms"], wait["ahead_count"]
        return bool(answer["grants"])

    def leaves(self) -> Answer:
        return self.store.exchange(self.limit, self.ask(leaves=True))

    def beats(self) -> Answer:
        return self.store.renew(self.limit, self._said(0))

    def returning(self, call: int = 0, *, numbered: bool = True) -> Ask:
        """What it says to give its slot back, or a call that it knows of."""
        self._n += numbered
        ask = self._said(self._n if numbered else 0)
        ask["ended_calls"] = [{"call_id": call or self.call, "outcome": "ok", "units": {}}]
        return ask

    def gives_back(self, call: int = 0, *, numbered: bool = True) -> Answer:
        verb = self.store.exchange if numbered else self.store.give_back
        answer = verb(self.limit, self.returning(call, numbered=numbered))
        self.call = 0
        return answer
