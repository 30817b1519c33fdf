"""Runs one blocking task after another for the worker at the other end of a socket."""

from __future__ import annotations

import socket
from typing import Any

from forebay.app.forebay import Forebay
from forebay.child import guard
from forebay.child.line import Line
from forebay.child.slots import ChildCalls
from forebay.clock import steady
from forebay.engine import outcomes, report
from forebay.engine.context import Context
from forebay.engine.desk import unpacked
from forebay.engine.registry import call_arguments
from forebay.engine.wire import Message
from forebay.model.exchange import Usage
from forebay.model.job import Event
from forebay.model.outcome import Failed, Outcome
from forebay.model.task import Task
from forebay.rules.verdict import ErrorClass


class LineDesk:
    """Speaks for one attempt, by its name: what comes after it has ended is nobody's."""

    def __init__(self, line: Line, task: Task) -> None:
        self._line = line
        self._task = task
        self._of = [task.id, task.claim_count]

    def say(self, message: Message) -> None:
        self._line.send(message | {"of": self._of})

    def ask(self, question: list[Any]) -> Any:  # noqa: ANN401 - JSON
        return self._line.ask({"ask": question, "of": self._of}, self._task)

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


_SPENT = {ErrorClass.HANDLER_MEMORY}
