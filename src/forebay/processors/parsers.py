"""A pool of parser children: warm, shut-off processes that read untrusted bytes for this one."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence

from forebay.engine.children import how_it_ended
from forebay.engine.signals import Permanent, Retry
from forebay.engine.wire import Message
from forebay.ids import printable
from forebay.model.payload import Json
from forebay.observe import emit
from forebay.processors.level import Level
from forebay.processors.parser_child import RUBBISH, VERBS, Bounds, Ended, ParserChild
from forebay.processors.processes import MIB, failure, timed_out
from forebay.rules.verdict import ErrorClass

_START_S = 60.0
_GRACE_S = 1.0
_MOST_TEXT = 2000
_MOST_TRACE = 20_000
# Cores are shared: a task that uses its CPU time to the full may take this many times as long.
_WALL_TIMES_CPU = 6
_WHO = "The parser"
# What a document may be refused for. The child's word for it is not trusted with more: some classes stop a lane.
_REFUSALS = {
    ErrorClass.INVALID_PDF,
    ErrorClass.CORRUPTED_CONTENT,
    ErrorClass.UNSUPPORTED_FORMAT,
    ErrorClass.ENCRYPTED,
    ErrorClass.TOO_MANY_PAGES,
    ErrorClass.PAGE_TOO_LARGE,
    ErrorClass.DECOMPRESSION_LIMIT,
    ErrorClass.REFUSED,
}
_UNAVAILABLE = ErrorClass.SERVICE_UNAVAILABLE
_PASSING = {ErrorClass.PARSER_MEMORY, _UNAVAILABLE}
# What a start costs, roughly: one more child pays once others have been waited for as long, if that was not so now and
# then only: of all time, such a share is forgotten.
_PATIENCE_S = 0.6
_FORGOTTEN = 0.2


class Parsers:
    """At most `size` children, started when they are needed, each replaced once anything was wrong with it.

    The first one may have been started before, by whoever had other things to do meanwhile.
    """

    def __init__(
        self, size: int, bounds: Bounds | None = None, *, verbs: str = VERBS, first: ParserChild | None = None
    ) -> None:
        self._bounds = bounds or Bounds()
        self._verbs = verbs
        self._size = size
        self._room = asyncio.Semaphore(size)
        self._children: set[ParserChild] = set()
        self._first = first
        self._idle: list[ParserChild] = []
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._waited_s = 0.0
        self._waited_at = 0.0
        self._burying: set[asyncio.Task[object]] = set()
        self._closed = False

    async def call(
        self,
        verb: str,
        arguments: Mapping[str, Json],
        *,
        files: Sequence[int] = (),
        cpu_s: float | None = None,
        timeout_s: float | None = None,
    ) -> Json:
        """What the verb answers; Permanent for what it refused, Retry for a child that died or ran out of something.

        The files are read and written from their beginning, by the verb's own rules; they stay open here.
        """
        cpu_s = self._bounds.cpu_s if cpu_s is None else cpu_s
        timeout_s = cpu_s * _WALL_TIMES_CPU if timeout_s is None else timeout_s
        message = {"verb": verb, "arguments": dict(arguments), "cpu_s": cpu_s}
        async with self._room:
            child = await self._child()
            try:
                async with asyncio.timeout(timeout_s):
                    reply = await child.ask(message, files)
                answer = _answer(reply)
            except TimeoutError:
                self._end(child, verb, f"took longer than {timeout_s:g} s")
                raise timed_out(f"{_WHO} took longer than {timeout_s:g} s for {verb!r}.") from None
            except Ended as ended:
                raise await self._failure(child, verb, ended) from None
            except Retry as error:
                self._end(child, verb, error.text)
                raise
            except Permanent:
                self._put_back(child)
                raise
            except BaseException:
                self._end(child, verb, "canceled")
                raise
            self._put_back(child)
            return answer

    async def level(self) -> Level:
        """How far the children are shut off; starts one to find out."""
        async with self._room:
            child = await self._child()
            self._put_back(child)
            return child.level

    async def aclose(self) -> None:
        """Ends them all, also those that work."""
        self._closed = True
        if self._first is not None:
            self._children.add(self._first)
        for child in self._children:
            child.process.kill()
        # Whoever has one notices, and those that wait for one are turned away.
        for _ in range(self._size):
            await self._room.acquire()
        for child in list(self._children):
            self._bury(child)
        await asyncio.gather(*self._burying)
        for _ in range(self._size):
            self._room.release()

    async def _child(self) -> ParserChild:
        while True:
            if (closing := self._closing()) is not None:
                raise closing
            while self._idle:
                child = self._idle.pop()
                if child.process.ending() is None:
                    return child
                self._bury(child)
            if not self._children or self._waited_s >= _PATIENCE_S:
                self._waited_s = 0.0
                return await self._start()
            await self._wait()

    async def _wait(self) -> None:
        """Until one is idle or gone, or they were waited for long enough."""
        began = time.monotonic()
        self._waited_s = max(0.0, self._waited_s - _FORGOTTEN * (began - self._waited_at))
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(_PATIENCE_S - self._waited_s):
                await turn
        except TimeoutError:
            pass
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._wake()
            raise
        finally:
            self._waited_at = time.monotonic()
            self._waited_s += self._waited_at - began

    def _put_back(self, child: ParserChild) -> None:
        self._idle.append(child)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def _start(self) -> ParserChild:
        child, self._first = self._first, None
        try:
            child = child or ParserChild(self._verbs)
        except OSError as error:
            raise Retry(f"{_WHO} could not be started: {error}", error_class=_UNAVAILABLE) from error
        self._children.add(child)
        try:
            async with asyncio.timeout(_START_S):
                await child.ready(self._bounds)
        except (TimeoutError, Ended) as error:
            said = error.said or "it ended" if isinstance(error, Ended) else f"it took longer than {_START_S:g} s"
            self._bury(child)
            raise Retry(f"{_WHO} could not be started: {said}", error_class=_UNAVAILABLE) from None
        except BaseException:
            self._bury(child)
            raise
        return child

    async def _failure(self, child: ParserChild, verb: str, ended: Ended) -> Retry:
        said = ended.said
        try:
            if said is None:
                async with asyncio.timeout(_GRACE_S):
                    ending = await child.process.ended()
                emit("parser_ended", pid=child.process.pid, verb=verb, how=how_it_ended(ending.code))
                self._bury(child)
                return self._closing() or failure(_WHO, ending, self._bounds.memory_mb * MIB)
        except TimeoutError:
            said = "it closed its connection"
        except BaseException:
            self._end(child, verb, "canceled")
            raise
        self._end(child, verb, said)
        return self._closing() or Retry(f"{_WHO} crashed: {said}.", error_class=ErrorClass.PARSER_CRASHED)

    def _closing(self) -> Retry | None:
        return Retry("The parsers were closed.", error_class=_UNAVAILABLE) if self._closed else None

    def _end(self, child: ParserChild, verb: str, why: str) -> None:
        emit("parser_killed", pid=child.process.pid, verb=verb, why=why)
        self._bury(child)

    def _bury(self, child: ParserChild) -> None:
        child.kill()
        self._children.discard(child)
        self._wake()
        burying = asyncio.get_running_loop().create_task(child.process.ended())
        self._burying.add(burying)
        burying.add_done_callback(self._burying.discard)


def _answer(reply: Message) -> Json:
    match reply:
        case {"answer": answer}:
            return answer  # type: ignore[no-any-return]
        case {"refused": [str(error_class), str(text)]} if error_class in _REFUSALS:
            raise Permanent(_shown(text), error_class=error_class)
        case {"failed": [str(error_class), str(text), str(trace)]}:
            if error_class in _PASSING:
                raise Retry(f"{_WHO} failed: {_shown(text)}", error_class=error_class)
            error = Permanent(f"{_WHO} failed: {_shown(text)}", error_class=ErrorClass.BUG)
            error.add_note("\n".join(map(printable, trace[-_MOST_TRACE:].splitlines())))
            raise error
        case _:
            raise Ended(RUBBISH)


def _shown(text: str) -> str:
    return printable(text[:_MOST_TEXT])
