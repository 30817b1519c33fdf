"""What the provider wrote down, as calls, cool-downs and marks; all instants are of its clock."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chaos import journal
from chaos.journal import Record


@dataclass(frozen=True, slots=True)
class Call:
    """In progress from its arrival to just before its end; for ever, if no end was written down."""

    number: int
    limit: str
    who: str
    units: int
    arrived_at: float
    ended_at: float = math.inf
    status: int | None = None
    sent_at: float | None = None
    """As its caller says, which shared the clock."""


@dataclass(frozen=True, slots=True)
class CoolDown:
    limit: str
    who: str
    began_at: float
    ends_at: float
    call: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant that the leader of the run had stamped: `go`, `over`, `kill`, `stop`, `cont`, or an `exit`."""

    name: str
    at: float
    who: str = ""
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Records:
    """Calls in the order of their arrival; `flaws` are sentences about records that contradict each other."""

    calls: tuple[Call, ...] = ()
    cooldowns: tuple[CoolDown, ...] = ()
    marks: tuple[Mark, ...] = ()
    flaws: tuple[str, ...] = ()

    @property
    def limits(self) -> list[str]:
        return sorted({call.limit for call in self.calls})

    def of(self, limit: str) -> Records:
        return Records(
            calls=tuple(call for call in self.calls if call.limit == limit),
            cooldowns=tuple(one for one in self.cooldowns if one.limit == limit),
            marks=self.marks,
            flaws=self.flaws,
        )

    def marked(self, name: str) -> list[Mark]:
        return [mark for mark in self.marks if mark.name == name]

    @property
    def span(self) -> tuple[float, float]:
        """From the first arrival to the mark `over`, or to the last instant that is known."""
        if not self.calls:
            return 0.0, 0.0
        ends = [call.ended_at for call in self.calls if call.ended_at < math.inf]
        last = max([self.calls[-1].arrived_at, *ends])
        return self.calls[0].arrived_at, next((mark.at for mark in self.marked("over")), last)


def read(path: Path) -> Records:
    return parse(journal.read(path))


def parse(records: Iterable[Record]) -> Records:
    arrived: dict[int, Record] = {}
    ended: dict[int, Record] = {}
    cooldowns: list[CoolDown] = []
    marks: list[Mark] = []
    flaws: list[str] = []
    for record in records:
        match record["e"]:
            case "arrived" | "ended" as event:
                book = arrived if event == "arrived" else ended
                if record["call"] in book:
                    flaws.append(f"record: call {record['call']} {event} twice")
                book[record["call"]] = record
            case "cooldown":
                until = record["m"] + record["retry_after_s"]
                call = record.get("call", 0)
                cooldowns.append(CoolDown(record["limit"], record.get("who", ""), record["m"], until, call))
            case "mark":
                marks.append(Mark(record["name"], record["m"], record.get("who", ""), record.get("code")))
            case _:
                pass
    flaws += [f"record: call {number} ended and never arrived" for number in ended.keys() - arrived.keys()]
    calls = [_call(record, ended.get(number)) for number, record in arrived.items()]
    flaws += [
        f"record: call {call.number} ended {call.arrived_at - call.ended_at:.3f} s before it arrived"
        for call in calls
        if call.ended_at < call.arrived_at
    ]
    calls.sort(key=lambda call: call.arrived_at)
    return Records(tuple(calls), tuple(sorted(cooldowns, key=lambda one: one.began_at)), tuple(marks), tuple(flaws))


def _call(arrived: Record, ended: Record | None) -> Call:
    return Call(
        arrived["call"],
        arrived["limit"],
        arrived["who"],
        arrived["units"],
        arrived["m"],
        ended_at=math.inf if ended is None else ended["m"],
        status=None if ended is None else ended["status"],
        sent_at=arrived.get("sent"),
    )
