"""A fixed number of handler children, kept warm, and the attempts that wait for one of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import takewhile

from forebay.engine import outcomes
from forebay.engine.blocking import BlockingAttempt
from forebay.engine.children import Bounds, Child, ChildEnded
from forebay.observe import emit

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_DEPTH = 32
_LOW = 8
_SLOW_S = 0.05


class Pool:
    """A child that died is replaced by a fresh one, and one that cannot even start is tried ever more rarely.

    Quick tasks queue up at a child, so that it need not wait for us between them; when the first of them turns out
    slow, the others are taken back and go to whoever is free.
    """

    def __init__(self, target: str, size: int, bounds: Bounds, *, refused: Callable[[str], None]) -> None:
        self._target = target
        self._bounds = bounds
        self._size = size
        self._children: set[Child] = set()
        self._waiting: deque[BlockingAttempt] = deque()
        self._making: set[asyncio.Task[None]] = set()
        self._burying: set[asyncio.Task[int]] = set()
        self._starting = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._refused = refused
        self._ever_ready = False
        self._closed = False
        self._planned = False

    @property
    def busy(self) -> bool:
        """Every child runs a task."""
        return len(self._children) >= self._size and all(child.queue for child in self._children)

    def start(self) -> None:
        """Make the children now, so that the first task need not wait for one."""
        while not self._closed and len(self._children) + self._starting < self._size:
            self._starting += 1
            making = asyncio.get_running_loop().create_task(self._make())
            self._making.add(making)
            making.add_done_callback(self._making.discard)

    async def _make(self) -> None:
        pause_s = _FIRST_PAUSE_S
        try:
            while not self._closed:
                child = await self._try_once()
                if child is not None:
                    self._ever_ready = True
                    self._children.add(child)
                    break
                await asyncio.sleep(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
        finally:
            self._starting -= 1
        self._dispatch()

    async def _try_once(self) -> Child | None:
        try:
            child = Child(self._target, self._bounds, freed=self._freed)
        except OSError as error:
            emit("child_ended", pid=0, how=str(error))
            return None
        try:
            await child.connect()
        except (ChildEnded, OSError) as ended:
            emit("child_ended", pid=child.pid, how=str(ended))
            await asyncio.shield(self._bury(child))
            # Later it may be a deployment under way; if it was never otherwise, nobody would ever notice.
            if isinstance(ended, ChildEnded) and ended.said is not None and not self._ever_ready:
                self._refused(ended.said)
            return None
        except asyncio.CancelledError:
            self._bury(child)
            raise
        return child

    def add(self, attempt: BlockingAttempt) -> None:
        if attempt.slot is None:
            self._waiting.append(attempt)
        else:
            holders = sum(1 for _ in takewhile(lambda each: each.slot is not None, self._waiting))
            self._waiting.insert(holders, attempt)
        self._dispatch_soon()

    def take_back(self, attempt: BlockingAttempt) -> bool:
        """Whether it had not started yet; then it will not."""
        if attempt.child is not None:
            self._waiting.extendleft(reversed(attempt.child.recall()))
        try:
            self._waiting.remove(attempt)
        except ValueError:
            return False
        return True

    def _dispatch_soon(self) -> None:
        """Once for all that come in this turn of the loop: a message with many tasks costs as much as one with one."""
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._planned = False
        free = [child for child in self._children if child.alive and len(child.queue) < _LOW and not _slow(child)]
        given: dict[Child, list[BlockingAttempt]] = {child: [] for child in free}
        while self._waiting and free:
            if self._waiting[0].overdue:
                self._waiting.popleft().report(outcomes.past_deadline())
                continue
            child = min(free, key=lambda each: len(each.queue) + len(given[each]))
            if self._waiting[0].slot is not None and (child.queue or given[child]):
                break  # its call begins at once or not yet: its slot must not grow old behind others
            given[child].append(self._waiting.popleft())
            if len(child.queue) + len(given[child]) >= _DEPTH:
                free.remove(child)
        for child, attempts in given.items():
            if attempts:
                child.give(attempts)
        if self._sweep is None and any(len(child.queue) > 1 for child in self._children):
            self._sweep = asyncio.get_running_loop().call_later(_SLOW_S, self._take_back_from_slow)

    def _take_back_from_slow(self) -> None:
        self._sweep = None
        for child in self._children:
            if _slow(child) and len(child.queue) > 1:
                self._waiting.extendleft(reversed(child.recall()))
        self._dispatch()

    def _freed(self, child: Child) -> None:
        """A child has ended a task, or itself."""
        if not child.alive and child in self._children:
            self._children.discard(child)
            self._waiting.extendleft(reversed(child.recall()))
            self._bury(child)
            self.start()
        if self._waiting and len(child.queue) < _LOW:
            self._dispatch_soon()

    def _bury(self, child: Child) -> asyncio.Task[int]:
        """End the child in a task that `close` waits for, whoever else stops waiting for it."""
        burying = asyncio.get_running_loop().create_task(child.kill())
        self._burying.add(burying)
        burying.add_done_callback(self._burying.discard)
        return burying

    async def close(self) -> None:
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for making in self._making:
            making.cancel()
        await asyncio.gather(*self._making, return_exceptions=True)
        for child in self._children:
            self._bury(child)
        while self._burying:  # one more may end while others are being ended
            await asyncio.gather(*self._burying)


def _slow(child: Child) -> bool:
    return bool(child.queue) and child.queue[0].run_s > _SLOW_S
