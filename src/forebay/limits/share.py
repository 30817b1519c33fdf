"""The part of a limit that one process grants itself while the limit's store is gone."""

from __future__ import annotations

from collections.abc import Callable

from forebay.model.limit_record import Answer, Ask, Terms, UnitBound
from forebay.rules import limit_state
from forebay.rules.window_log import bound_text, in_flight_text
from forebay.stores.memory.limits import MemoryLimits

_LOOK_MS = 100  # calls of the lost store end without a word to this one, so callers ask again this soon


class Share(MemoryLimits):
    """Every bound divided by the number of processes, rounded down; a part of 0 means that callers wait.

    `held` counts the calls that this process was granted by the lost store and has not ended yet, and `held_units` what
    these take of a unit: they are part of the share.
    """

    def __init__(
        self,
        limit: str,
        terms: Terms,
        processes: int,
        held: Callable[[], int],
        held_units: Callable[[str], int],
    ) -> None:
        super().__init__()
        self._held = held
        self._held_units = held_units
        self._units: list[UnitBound] = [
            {"n": bound["n"] // processes, "unit": bound["unit"]} for bound in terms["in_flight_units"]
        ]
        self._in_flight = terms["in_flight"]
        if self._in_flight > 0:
            self._in_flight //= processes
        windows = [bound | {"n": bound["n"] // processes} for bound in terms["windows"]]
        self._terms: Terms = terms | {
            "in_flight": self._in_flight,
            "in_flight_units": self._units,
            "windows": windows,
        }
        record = limit_state.new_record(0)
        record["eras"] = [{"ends_at": -1, "terms": self._terms}]
        record["terms_version"] = 1
        self.change(limit, lambda _, now: record | {"last_step_at": now})

    @property
    def bounds(self) -> dict[str, object]:
        """What this process may use, as events have it."""
        in_flight = None if self._in_flight < 0 else self._in_flight
        texts = tuple(in_flight_text(each) for each in self._units)
        return {
            "in_flight": in_flight,
            "in_flight_units": texts,
            "windows": tuple(bound_text(each) for each in self._terms["windows"]),
        }

    def exchange(self, limit: str, ask: Ask) -> Answer:
        held = self._held()
        if self._in_flight > 0:
            with self._lock:
                self._records[limit]["eras"][0]["terms"]["in_flight"] = max(0, self._in_flight - held)
        if self._units:
            with self._lock:
                terms = self._records[limit]["eras"][0]["terms"]
                terms["in_flight_units"] = [
                    {"n": max(0, each["n"] - self._held_units(each["unit"])), "unit": each["unit"]}
                    for each in self._units
                ]
        answer = super().exchange(limit, ask)
        if held:
            for wait in answer["waits"]:
                wait["ask_again_in_ms"] = min(wait["ask_again_in_ms"], _LOOK_MS)
        return answer

    renew = exchange
