"""The child's end of its socket: tasks and answers in, questions and outcomes out."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from forebay.engine import report, wire
from forebay.engine.desk import runnable
from forebay.engine.wire import Message
from forebay.errors import Conflict
from forebay.model.task import Task


class Line:
    """A task starts only with a ticket; an answer bears the number of its question.

    The threads of a handler share it. Of those that wait one reads, for all of them: also one that outlived its task
    hands on what comes for the next.
    """

    def __init__(self, connection: socket.socket, tickets: int) -> None:
        self._pid = os.getpid()
        self._connection = connection
        self._tickets = tickets
        self._reader = wire.Reader(connection)
        self._queue: deque[tuple[int, Task]] = deque()
        self._ticket: int | None = None
        self.sure_until = 0.0
        self._running: Task | None = None
        self._stopped = False
        self._gone = False
        self._numbers = count(1)
        self._answers: dict[int, Message | None] = {}
        self._reading = False
        self._changed = threading.Condition()
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        self._leave_if_forked()
        with self._sending:
            self._connection.sendall(wire.pack(message))

    def _leave_if_forked(self) -> None:
        """A handler's fork that comes back here must neither answer for its parent nor take its tasks."""
        if os.getpid() != self._pid:
            os._exit(1)

    def task(self) -> Task | None:
        """The next task; None when the worker is gone."""
        self._leave_if_forked()
        with self._changed:
            self._running = None
            self._stopped = False
            self._changed.notify_all()  # threads that it left behind wait for what nobody answers any more
            while self._wait(lambda: bool(self._queue)):
                series, task = self._queue.popleft()
                if self._has_ticket(series):
                    self._running = task
                    return task
        return None

    def _has_ticket(self, series: int) -> bool:
        """One of a later series says that the worker took this task back, and is kept for those that it is for."""
        if self._ticket is None:
            with suppress(BlockingIOError):
                self._ticket = os.read(self._tickets, 1)[0]
        if self._ticket != series:
            return False
        self._ticket = None
        return True

    def ask(self, question: Message, task: Task) -> Any:  # noqa: ANN401 - JSON
        """What the worker says to a question of this task's handler."""
        self._leave_if_forked()
        number = next(self._numbers)
        with self._changed:
            self._answers[number] = None
        try:
            self.send(question | {"n": number})
            with self._changed:
                self._wait(lambda: self._answers[number] is not None or self._running is not task)
                answer = self._answers[number]
        finally:
            with self._changed:
                del self._answers[number]
        if answer is None and self._gone:
            raise SystemExit(1)
        if answer is None:
            raise Conflict("This attempt is over.", remedy="Make its calls before its handler returns.")
        if "raise" in answer:
            raise report.unpack_error(answer)
        return answer["answer"]

    def stopping(self, task: Task) -> bool:
        if os.getpid() != self._pid or self._running is not task:
            return False  # a fork, or a thread that outlived its task: nobody asked them
        with self._changed:
            while not (self._stopped or self._gone or self._reading) and self._something_came():
                self._read()
        return self._stopped or self._gone

    def _something_came(self) -> bool:
        return self._reader.waiting or bool(select.select([self._connection], [], [], 0)[0])

    def _wait(self, is_there: Callable[[], bool]) -> bool:
        """Until it is there; False when the worker is gone before."""
        while not is_there():
            if self._gone:
                return False
            if self._reading:
                self._changed.wait()
            else:
                self._read()
        return True

    def _read(self) -> None:
        """Take the next message, as the only one who reads; meanwhile others may ask, or find what has come."""
        self._reading = True
        self._changed.release()
        try:
            message = self._reader.next()
        finally:
            self._changed.acquire()
            self._reading = False
            self._changed.notify_all()
        self._take(message)

    def _take(self, message: Message | None) -> None:
        if message is None:
            self._gone = True
        elif "run" in message:
            self.sure_until = message["sure_until"]
            self._queue.extend((message["series"], runnable(task)) for task in message["run"])
        elif "n" in message:
            if message["n"] in self._answers:
                self._answers[message["n"]] = message
        elif self._running is not None and message.get("stop") == self._running.id:
            self._stopped = True
