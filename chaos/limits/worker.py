"""One process of the load: its callers take a slot, call the provider and give the slot back, until its input ends."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import asdict, dataclass

from chaos.limits import adapter
from chaos.limits.adapter import Adapter, Settings, atell, tell
from chaos.limits.lines import AsyncLine, Line, Message

CRASHED = 70
_PR_SET_PDEATHSIG = 1
_GRACE_S = 1.5
_TICK_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    name: str
    provider: str
    adapter: str
    address: str
    settings: Settings
    callers: int
    tasks: bool
    """Callers are tasks of one event loop, not threads."""
    loops: int
    """Event loops in threads of their own, beside the callers, with half as many tasks each as there are callers."""
    forks: int
    """This process only forks so many, each of which is such a worker."""
    dies_at_s: float | None
    """From then on, callers dawdle for `dies_late_s` before a call, and whoever sends one first kills them all."""
    dies_late_s: float
    limit: str
    work_s: float
    units: int

    def text(self) -> str:
        return json.dumps(asdict(self))

    @property
    def call(self) -> Message:
        """With the instant of its sending, by the clock that the processes of one machine share."""
        return {
            "limit": self.limit,
            "work_s": self.work_s,
            "units": self.units,
            "who": self.name,
            "sent": time.monotonic(),
        }


class Worker:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._limiter: Adapter = adapter.load(orders.adapter, orders.address, orders.settings)
        self._stopping = threading.Event()
        self._calling: set[object] = set()
        self._crashed = False
        self._began_at = time.monotonic()

    def run(self) -> int:
        if self._orders.tasks:
            asyncio.run(self._run_tasks())
        else:
            self._run_threads()
        tell(self._limiter, "close")
        return CRASHED if self._crashed else 0

    def _run_threads(self) -> None:
        for _ in range(self._orders.callers):
            threading.Thread(target=self._guarded, daemon=True).start()
        for _ in range(self._orders.loops):
            threading.Thread(target=self._guarded_loop, daemon=True).start()
        self._wait_for_the_end()

    def _wait_for_the_end(self) -> None:
        """Whoever waits for a slot has no call in progress, and may be left behind."""
        sys.stdin.buffer.read()
        self._stopping.set()
        gives_up_at = time.monotonic() + _GRACE_S + self._orders.work_s
        while self._calling and time.monotonic() < gives_up_at:
            time.sleep(_TICK_S)

    def _guarded(self) -> None:
        try:
            self._call_again_and_again()
        except Exception:  # noqa: BLE001 - whatever it was, the judge must hear of it
            self._complain()

    def _guarded_loop(self) -> None:
        async def callers() -> None:
            await asyncio.gather(*(self._acall_again_and_again() for _ in range(max(1, self._orders.callers // 2))))

        try:
            asyncio.run(callers())
        except Exception:  # noqa: BLE001 - same
            self._complain()

    def _complain(self) -> None:
        """A limiter that is closed at the end tells those who wait; that is no crash."""
        if not self._stopping.is_set():
            traceback.print_exc()
            self._crashed = True

    def _call_again_and_again(self) -> None:
        with Line(self._orders.provider) as line:
            while not self._stopping.is_set():
                me = object()
                try:
                    with self._limiter.slot() as slot:
                        self._calling.add(me)
                        if not self._stopping.is_set():
                            self._call(line, slot)
                finally:
                    self._calling.discard(me)

    @property
    def _is_doomed(self) -> bool:
        dies_at_s = self._orders.dies_at_s
        return dies_at_s is not None and time.monotonic() - self._began_at >= dies_at_s

    def _call(self, line: Line, slot: object) -> None:
        if self._is_doomed:
            time.sleep(self._orders.dies_late_s)
            self._call_and_die(line, slot)
            return
        tell(slot, "start")
        answer = line.ask(self._orders.call)
        if answer["status"] == 429:
            tell(slot, "throttled", answer["retry_after_s"])
        elif answer["status"] != 200:
            tell(slot, "failed", answer["status"])

    def _call_and_die(self, line: Line, slot: object) -> None:
        tell(slot, "start")
        line.tell(self._orders.call)
        line.ask({"do": "mark", "name": "kill", "who": self._orders.name})
        os.kill(os.getpid(), signal.SIGKILL)

    async def _run_tasks(self) -> None:
        callers = [asyncio.create_task(self._acall_again_and_again()) for _ in range(self._orders.callers)]
        await asyncio.to_thread(self._wait_for_the_end)
        for caller in callers:
            caller.cancel()
        for error in await asyncio.gather(*callers, return_exceptions=True):
            if isinstance(error, Exception):
                traceback.print_exception(error)
                self._crashed = True

    async def _acall_again_and_again(self) -> None:
        line = await AsyncLine.to(self._orders.provider)
        try:
            while not self._stopping.is_set():
                me = object()
                try:
                    async with self._limiter.aslot() as slot:
                        self._calling.add(me)
                        if not self._stopping.is_set():
                            await self._acall(line, slot)
                finally:
                    self._calling.discard(me)
        finally:
            line.close()

    async def _acall(self, line: AsyncLine, slot: object) -> None:
        await atell(slot, "start")
        answer = await line.ask(self._orders.call)
        if answer["status"] == 429:
            await atell(slot, "throttled", answer["retry_after_s"])
        elif answer["status"] != 200:
            await atell(slot, "failed", answer["status"])


def end_with_parent() -> None:
    """A leader that is killed itself leaves nobody behind, not even those that it froze."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> None:
    end_with_parent()
    code = CRASHED
    try:
        orders = Orders(**json.loads(sys.argv[1]))
        if orders.forks:
            code = fork(orders)
        else:
            worker = Worker(orders)
            print("ready", flush=True)
            if sys.stdin.buffer.readline():
                code = worker.run()
    except BaseException:  # noqa: BLE001 - whatever it was, the judge must hear of it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def fork(orders: Orders) -> int:
    """Run many workers; each ends with the input, which all of them share, or with this process."""
    adapter.prepare(orders.adapter, orders.address)
    is_ready, ready = os.pipe()
    may_go, go = os.pipe()
    children = []
    for _ in range(orders.forks):
        child = os.fork()
        if child == 0:
            end_with_parent()
            os.close(go)
            worker = Worker(orders)
            os.close(ready)
            os.read(may_go, 1)
            return worker.run()
        children.append(child)
    os.close(ready)
    os.read(is_ready, 1)  # ends when all have closed it
    print("ready", flush=True)
    if not os.read(sys.stdin.fileno(), 1):
        return CRASHED
    os.close(go)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    main()
