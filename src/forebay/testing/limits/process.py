"""A process that uses a limit, as small as it can be: it asks, hears, confirms, gives back, and remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from forebay.errors import MaybeApplied
from forebay.model.limit import CALLS
from forebay.model.limit_record import Answer, Ask, DeclaredRun, EndedCall, Grant, ProviderRefusal, Wait
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.hand_clock import HandClock

LIMIT = "api"

_TRIES = 3


def hint(at: int, wait: int = -1, *, kind: str = "cooldown", jitter: int = 0) -> ProviderRefusal:
    return {"kind": kind, "granted_at": at, "wait_ms": wait, "jitter_permille": jitter}


class Process:
    """`calls` are those that it was granted and has not given back, with their instants; `line` who waits.

    `grants` is all that it ever heard of, `units` what the callers of each run want.
    """

    def __init__(self, store: LimitStore, clock: HandClock, sid: str, *, limit: str = LIMIT) -> None:
        self.store = store
        self.clock = clock
        self.sid = sid
        self.limit = limit
        self.n = 0
        self.acked = 0
        self.heard = 0
        self.next = 1
        self.version = 0
        self.seen = -1
        self.seen_at = 0
        self.tv = -1
        self.sure_until = 0
        self.delay = 0
        """How late it hears of grants."""
        self.calls: dict[int, int] = {}
        self.line: dict[int, DeclaredRun] = {}
        self.done: list[EndedCall] = []
        self.starts: list[int] = []
        self.hints: list[ProviderRefusal] = []
        self.grants: list[Grant] = []
        self.units: dict[int, dict[str, int]] = {}
        self.waits: list[Wait] = []
        self._runs = 0

    def joins(
        self,
        count: int = 1,
        units: Mapping[str, int] | None = None,
        *,
        key: str = "",
        front: bool = False,
        in_hand: int = 0,
    ) -> int:
        """So many callers come together; the number of their run."""
        self._runs += 1
        self.units[self._runs] = {CALLS: 1, **(units or {})}
        self.line[self._runs] = {
            "id": self._runs,
            "key": key,
            "caller_count": count,
            "units": self.units[self._runs],
            "label": "",
            "front": int(front),
            "in_hand_count": in_hand,
        }
        return self._runs

    def wants(
        self,
        count: int = 1,
        units: Mapping[str, int] | None = None,
        *,
        key: str = "",
        front: bool = False,
        in_hand: int = 0,
    ) -> list[int]:
        """Callers come, and it asks; the numbers of the calls that were granted."""
        self.joins(count, units, key=key, front=front, in_hand=in_hand)
        return self.asks()

    def leaves(self, run: int, count: int | None = None) -> None:
        """Callers give up; all of the run unless it is said how many."""
        left = self.line[run]["caller_count"] - count if count is not None else 0
        if left > 0:
            self.line[run]["caller_count"] = left
        else:
            del self.line[run]

    def ends(self, call_ids: Iterable[int], outcome: str = "ok", units: Mapping[str, int] | None = None) -> None:
        """Calls are over; the store hears of it when it is asked next."""
        for call_id in [*call_ids]:
            self.calls.pop(call_id, None)
            self.done.append({"call_id": call_id, "outcome": outcome, "units": dict(units or {})})

    def gives_back(
        self, call_ids: Iterable[int], outcome: str = "ok", units: Mapping[str, int] | None = None
    ) -> list[int]:
        self.ends(call_ids, outcome, units)
        return self.asks()

    def refused(self, at: int, wait: int = -1, *, kind: str = "cooldown", jitter: int = 0) -> Answer:
        self.hints.append(hint(at, wait, kind=kind, jitter=jitter))
        return self.exchanges()

    def ask(self) -> Ask:
        """The next request, whole; sent again it is the same."""
        said = self._said(self.acked + 1)
        said["ended_calls"] = [*self.done]
        said["refusals"] = [*self.hints]
        said["restamp_call_ids"] = [*self.starts]
        said["runs"] = [wish.copy() for wish in self.line.values()]
        return said

    def returns(self) -> Ask:
        """What ends calls without a number; they are also part of the next request, until that was answered."""
        return self._said(0) | {"ended_calls": [*self.done], "refusals": [*self.hints]}

    def _said(self, n: int) -> Ask:
        return {
            "session_id": self.sid,
            "request_number": n,
            "confirmed_grant_number": self.heard,
            "next_call_id": self.next,
            "label": self.sid,
            "seen_at": self.seen,
            "elapsed_ms": self.clock.steady - self.seen_at if self.seen >= 0 else 0,
            "seen_version": self.version,
            "answered_request_number": self.acked,
            "is_sure": int(self.clock.steady < self.sure_until),
            "grant_delay_ms": self.delay,
            "terms_version": self.tv,
            "ended_calls": [],
            "refusals": [],
            "restamp_call_ids": [],
            "runs": [],
        }

    def asks(self) -> list[int]:
        """The calls that it got by that, asking again at once while the store has more to do."""
        before = {*self.calls}
        while self.exchanges()["has_more"]:
            pass
        return [call_id for call_id in self.calls if call_id not in before]

    def exchanges(self) -> Answer:
        asked = self.ask()
        answer = self._exchanged(asked)
        self.takes(asked, answer)
        return answer

    def _exchanged(self, asked: Ask) -> Answer:
        """The answer to the same request, sent again while nobody knows whether it was applied."""
        for _ in range(_TRIES - 1):
            try:
                return self.store.exchange(self.limit, asked)
            except MaybeApplied:
                continue
        return self.store.exchange(self.limit, asked)

    def beats(self) -> Answer:
        """The heartbeat, which brings what it has not heard of."""
        asked = self._said(0)
        answer = self.store.renew(self.limit, asked)
        self.takes(asked, answer)
        return answer

    def takes(self, asked: Ask, answer: Answer) -> None:
        if answer["status"] != "ok":
            return
        self.version = max(self.version, answer["version"])
        self.seen, self.seen_at = answer["now"], self.clock.steady
        if answer["terms"]:
            self.tv = answer["terms_version"]
            self.sure_until = self.clock.steady + answer["terms"][0]["lease_ms"]
            self._lease = answer["terms"][0]["lease_ms"]
        else:
            self.sure_until = self.clock.steady + self._lease
        if asked["request_number"]:
            self.acked = asked["request_number"]
            self.done.clear()
            self.hints.clear()
            self.starts.clear()
            self.waits = answer["waits"]
            for stamp in answer["restamps"]:
                self.calls[stamp["call_id"]] = stamp["granted_at"]
        self.hears(answer["grants"])

    def hears(self, grants: Iterable[Grant]) -> None:
        """What it has heard of before, it does not take again."""
        for grant in grants:
            if grant["number"] <= self.heard:
                continue
            self.heard = grant["number"]
            self.grants.append(grant.copy())
            for call_id in range(grant["first_call_id"], grant["first_call_id"] + grant["call_count"]):
                assert call_id not in self.calls, f"{self.sid} was given call {call_id} twice"
                self.calls[call_id] = grant["granted_at"]
                self.next = max(self.next, call_id + 1)
            if grant["run_id"] in self.line:
                self.leaves(grant["run_id"], grant["call_count"])
