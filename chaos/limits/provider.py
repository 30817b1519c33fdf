"""A provider that counts and limits nobody: it writes down when each call arrived and when it ended, by its own clock.

A line of JSON in, a line of JSON out. A call is `{"limit", "work_s", "units", "who"}` and is answered with
`{"call", "status"}` and, for a 429, `{"retry_after_s"}`. A line with `do` is an order: `refuse` the next calls of a
limit, `mark` an instant, `open` tells who has calls in progress, and of which limits. It ends with its input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from chaos.journal import Journal

LOOPBACK = "127.0.0.1"
_LONGEST_LINE = 65_536

Message = dict[str, Any]


@dataclass(slots=True)
class Refusal:
    """What the next calls are answered with, as long as both the calls and the time last."""

    status: int
    retry_after_s: float
    calls: float
    until: float
    worked: bool
    """Answered when the work would have been done, not at once."""


class Provider:
    def __init__(self, journal: Journal, *, sticky: bool) -> None:
        self.sticky = sticky
        self._journal = journal
        self._refusals: dict[str, Refusal] = {}
        self._open: dict[int, tuple[str, str]] = {}
        self._count = 0
        journal.note("provider", sticky=sticky)

    def arrived(self, call: Message) -> int:
        self._count += 1
        who = str(call.get("who", ""))
        self._journal.note(
            "arrived",
            call=self._count,
            limit=str(call["limit"]),
            units=int(call.get("units", 1)),
            who=who,
            sent=call.get("sent"),
        )
        self._open[self._count] = (who, str(call["limit"]))
        return self._count

    def ended(self, number: int, status: int) -> None:
        """To be told before the answer is written: whoever reads it may pass the slot on at once."""
        self._journal.note("ended", call=number, status=status)
        del self._open[number]

    def refusal(self, limit: str) -> Refusal | None:
        """What the call that has just arrived is to be answered with, if it is refused."""
        refusal = self._refusals.get(limit)
        if refusal is None:
            return None
        refusal.calls -= 1
        if refusal.calls < 0 or time.monotonic() >= refusal.until:
            del self._refusals[limit]
            return None
        return refusal

    def refused(self, number: int, limit: str, refusal: Refusal) -> Message:
        """The answer to this call."""
        who, _ = self._open[number]
        self.ended(number, refusal.status)
        if refusal.status != 429:
            return {"call": number, "status": refusal.status}
        self._journal.note("cooldown", limit=limit, retry_after_s=refusal.retry_after_s, call=number, who=who)
        return {"call": number, "status": refusal.status, "retry_after_s": refusal.retry_after_s}

    def obey(self, order: Message) -> Message:
        match order["do"]:
            case "refuse":
                self._refusals[str(order["limit"])] = Refusal(
                    status=int(order.get("status", 429)),
                    retry_after_s=float(order.get("retry_after_s", 1.0)),
                    calls=float(order.get("calls", "inf")),
                    until=time.monotonic() + float(order.get("for_s", "inf")),
                    worked=bool(order.get("worked", False)),
                )
            case "mark":
                self._journal.note("mark", **{name: value for name, value in order.items() if name != "do"})
            case "open":
                callers = Counter(who for who, _ in self._open.values())
                limits = Counter(limit for _, limit in self._open.values())
                return {"open": dict(callers), "limits": dict(limits)}
            case unknown:
                return {"error": f"no order {unknown!r}: refuse, mark or open"}
        return {}


class Connection(asyncio.Protocol):
    """One client, kept alive; its calls are worked on at once, whatever their number."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message: Message = json.loads(line)
            if "do" in message:
                self._answer(self._provider.obey(message))
            else:
                self._call(message)
        if len(self._rest) > _LONGEST_LINE and self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it was lost
        self._transport = None
        if self._provider.sticky:
            return
        for number, timer in self._timers.items():
            timer.cancel()
            self._provider.ended(number, 499)

    def _call(self, call: Message) -> None:
        limit = str(call["limit"])
        number = self._provider.arrived(call)
        refusal = self._provider.refusal(limit)
        if refusal is not None and not refusal.worked:
            self._answer(self._provider.refused(number, limit, refusal))
            return
        loop = asyncio.get_running_loop()
        self._timers[number] = loop.call_later(float(call["work_s"]), self._done, number, limit, refusal)

    def _done(self, number: int, limit: str, refusal: Refusal | None) -> None:
        del self._timers[number]
        if refusal is not None:
            self._answer(self._provider.refused(number, limit, refusal))
            return
        self._provider.ended(number, 200)
        self._answer({"call": number, "status": 200})

    def _answer(self, answer: Message) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(json.dumps(answer).encode() + b"\n")


async def serve(provider: Provider) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Connection(provider), LOOPBACK, 0)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, required=True, help="where it writes what it sees")
    parser.add_argument("--sticky", action="store_true", help="work on for a client that is gone")
    options = parser.parse_args()
    asyncio.run(serve(Provider(Journal(options.record), sticky=options.sticky)))


if __name__ == "__main__":
    main()
