"""Runs one blocking task after another for the worker at the other end of a socket."""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from contextlib import suppress
from typing import Any

from forebay.app.forebay import Forebay
from forebay.child import guard
from forebay.child.slots import ChildCalls
from forebay.clock import steady
from forebay.engine import outcomes, report, wire
from forebay.engine.context import Context
from forebay.engine.desk import runnable, unpacked
from forebay.engine.registry import call_arguments
from forebay.engine.wire import Message
from forebay.model.exchange import Usage
from forebay.model.job import Event
from forebay.model.outcome import Failed, Outcome
from forebay.model.task import Task
from forebay.rules.verdict import ErrorClass


class Line:
    """The socket: tasks and answers in, questions and outcomes out. A task starts only with a ticket."""

    def __init__(self, connection: socket.socket, tickets: int) -> None:
        self._pid = os.getpid()
        self._connection = connection
        self._tickets = tickets
        self._reader = wire.Reader(connection)
        self._queue: deque[tuple[int, Task]] = deque()
        self._ticket: int | None = None
        self.sure_until = 0.0
        self._running = ""
        self._stopped = False

    def send(self, message: Message) -> None:
        self._leave_if_forked()
        self._connection.sendall(wire.pack(message))

    def _leave_if_forked(self) -> None:
        """A handler's fork that comes back here must neither answer for its parent nor take its tasks."""
        if os.getpid() != self._pid:
            os._exit(1)

    def task(self) -> Task | None:
        """The next task; None when the worker is gone."""
        self._leave_if_forked()
        self._stopped = False
        while True:
            while not self._queue:
                if not self._take(self._reader.next()):
                    return None
            series, task = self._queue.popleft()
            if self._has_ticket(series):
                self._running = task.id
                return task

    def _has_ticket(self, series: int) -> bool:
        """One of a later series says that the worker took this task back, and is kept for those that it is for."""
        if self._ticket is None:
            with suppress(BlockingIOError):
                self._ticket = os.read(self._tickets, 1)[0]
        if self._ticket != series:
            return False
        self._ticket = None
        return True

    def _take(self, message: Message | None) -> bool:
        """Sort in what came: False when the worker is gone."""
        if message is None:
            self._stopped = True
            return False
        if "run" in message:
            self.sure_until = message["sure_until"]
            self._queue.extend((message["series"], runnable(task)) for task in message["run"])
        elif message.get("stop") == self._running:
            self._stopped = True
        return True

    def stopping(self, task: Task) -> bool:
        if os.getpid() != self._pid or task.id != self._running:
            return False  # a fork, or a thread that outlived its task: nobody asked them
        while not self._stopped and (self._reader.waiting or select.select([self._connection], [], [], 0)[0]):
            self._take(self._reader.next())
        return self._stopped

    def answer(self) -> Any:  # noqa: ANN401 - JSON
        """What the worker says to the question that was just sent."""
        while (message := self._reader.next()) is not None:
            if "raise" in message:
                raise report.unpack_error(message)
            if "answer" in message:
                return message["answer"]
            self._take(message)
        raise SystemExit(1)


class LineDesk:
    """Speaks for one attempt, by its name: what comes after it has ended is nobody's."""

    def __init__(self, line: Line, task: Task) -> None:
        self._line = line
        self._of = [task.id, task.claim_count]

    def say(self, message: Message) -> None:
        self._line.send(message | {"of": self._of})

    def ask(self, question: list[Any]) -> Any:  # noqa: ANN401 - JSON
        self.say({"ask": question})
        return self._line.answer()

    def chunks(self, after: str | None) -> tuple[list[Task], str | None]:
        tasks, following = self.ask(["chunks", after])
        return [unpacked(task) for task in tasks], following

    def lost(self, task_id: str, blob: str, told: Event | None = None) -> None:
        self.ask(["lost", task_id, blob, None if told is None else [told.name, dict(told.fields)]])

    def progress(self, share: float, note: str) -> None:
        self.say({"progress": [share, note]})

    def used(self, usage: Usage) -> None:
        self.say({"used": [usage.meter, usage.unit, usage.amount]})


def serve(connection: socket.socket, tickets: int, app: Forebay, cpu_s: float | None) -> None:
    line = Line(connection, tickets)
    line.send({"ready": True})
    while (task := line.task()) is not None:
        desk = LineDesk(line, task)
        if cpu_s is not None:
            guard.bound_cpu(cpu_s)
        desk.say(_run(line, desk, app, task))


def _run(line: Line, desk: LineDesk, app: Forebay, task: Task) -> Message:
    kind = app.registry.find(task.kind)
    if kind is None:
        text = f"Kind {task.kind!r} has no handler in this child: its code differs from the worker's."
        return report.pack(Failed(error_class=ErrorClass.SERVICE_UNAVAILABLE, text=text))
    calls = ChildCalls(desk.ask, desk.say)
    context = Context(task, desk, app.content, calls=lambda: calls, stopping=lambda: line.stopping(task))
    begun = False
    try:
        positional, named = call_arguments(app.content.payload(task))
        if steady() >= line.sure_until and not desk.ask(["begin"]):
            return {"unsure": True}
        begun = True
        value = kind.handler(context, *positional, **named)
        if kind.chunk_kind is not None:
            return {"chunks": list(value)}
        outcome: Outcome = app.content.completed(value, task.tenant)
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome, also SystemExit
        outcome = outcomes.of_error(error)
    message = report.pack(outcome)
    if not begun:
        message["unbegun"] = True
    # After it ran out of memory, who knows what it still holds.
    return message | {"spent": True} if isinstance(outcome, Failed) and outcome.error_class in _SPENT else message


_SPENT = {ErrorClass.PARSER_MEMORY}
