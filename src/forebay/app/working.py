"""Runs a worker of an application as a program does: from the settings, until a signal or until nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack

from forebay.app import cleaning
from forebay.app.forebay import Forebay
from forebay.app.limits import define_command
from forebay.app.target import locate
from forebay.engine.children import Bounds
from forebay.engine.idle import drain_when_idle
from forebay.engine.late import LeftOut
from forebay.engine.room import Limits
from forebay.engine.worker import Worker
from forebay.errors import BadInput, ForebayError, MissingExtra
from forebay.ids import printable
from forebay.model.task import Status
from forebay.observe import emit
from forebay.observe.logs import bind

T = TypeVar("T")
_LEAVE_S = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Options(TypedDict, total=False):
    """What may differ from the settings, how the children find the application, and the kind that it is all for."""

    concurrency: int | None
    processes: int | None
    name: str | None
    target: str | None
    needs: str | None


Beside = Callable[[Callable[[str], None]], Coroutine[Any, Any, None]]
"""Runs beside a worker, which it may tell to drain; when it fails, so does the worker."""


def register_documents(app: Forebay) -> None:
    """Let a worker of any application read documents as well, as far as what reads them is installed."""
    with suppress(MissingExtra):
        app.documents.pipeline  # noqa: B018 - the first look registers its steps


def work(app: Forebay, *, until_idle: bool = False, **options: Unpack[Options]) -> None:
    run(awork(app, when_idle(app) if until_idle else None, **options))


def when_idle(app: Forebay) -> Beside:
    return partial(drain_when_idle, app.ledger, app.registry)


def run(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run does it, but a handler that will not be cancelled cannot keep the program from ending."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            _, stubborn = loop.run_until_complete(asyncio.wait(left, timeout=_LEAVE_S))
            for task in stubborn:
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it was left behind knowingly
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def awork(
    app: Forebay,
    beside: Beside | None = None,
    *,
    on_signal: Callable[[], None] | None = None,
    **options: Unpack[Options],
) -> None:
    """The only one in this process that reads documents, which it closes in the end."""
    try:
        await awork_among_others(app, beside, on_signal=on_signal, **options)
    finally:
        await app.aclose_documents()


async def awork_among_others(
    app: Forebay,
    beside: Beside | None = None,
    *,
    on_signal: Callable[[], None] | None = None,
    **options: Unpack[Options],
) -> None:
    worker = make_worker(app, **options)
    loop = asyncio.get_running_loop()

    def drain(name: str) -> None:
        if on_signal is not None:
            on_signal()
        worker.drain(name)

    with suppress(NotImplementedError, ValueError, RuntimeError):  # not in a thread beside the main one
        for number in _SIGNALS:
            loop.add_signal_handler(number, drain, signal.Signals(number).name)
    watch = None if beside is None else loop.create_task(_beside(beside, worker.drain))
    alerts = app.callbacks.alerts()
    if alerts is not None:
        alerts.start()
    try:
        await worker.run()
        if watch is not None and watch.done():
            watch.result()
    finally:
        if alerts is not None:
            await asyncio.to_thread(alerts.close)
        # The signals stay ours until the loop is closed: one that comes late must not end what has ended well.
        if watch is not None:
            watch.cancel()


def report_failure(error: Exception) -> None:
    """Log that the worker ended by this error."""
    code = error.code if isinstance(error, ForebayError) else "bug"
    emit("worker_failed", error_code=code, text=printable(str(error)))


async def _beside(beside: Beside, drain: Callable[[str], None]) -> None:
    try:
        await beside(drain)
    except Exception:
        drain("failed")
        raise


def make_worker(app: Forebay, **options: Unpack[Options]) -> Worker:
    """In a running event loop."""
    _check_no_child()
    app.check_addresses()
    app.check_documents()
    app.check_budgets()
    settings = app.settings
    limits = Limits(
        concurrency=options.get("concurrency") or settings.concurrency,
        processes=options.get("processes") or settings.processes,
        claims_per_exchange=settings.claims_per_exchange,
        lease_s=settings.lease_s,
        poll_s=settings.poll_s,
        drain_grace_s=settings.drain_grace_s,
    )
    memory_mb = settings.handler_memory_mb
    kept = {
        Status.COMPLETED: settings.retention_completed_s,
        Status.FAILED: settings.retention_failed_s,
        Status.CANCELED: settings.retention_canceled_s,
    }
    optional = [kind for kind in app.registry if kind.optional and kind.name != options.get("needs")]
    left_out = app.limits.undefined(optional) if optional else []
    for kind in left_out:
        emit("kind_left_out", kind=kind.name, limit=kind.limit, remedy=define_command(kind.limit or ""))
    registry = app.registry.without({kind.name for kind in left_out}) if left_out else app.registry
    target = options.get("target") or locate(app)
    registry.check_runnable(target)
    with_callbacks = registry.plus(app.callbacks.kind())
    name = options.get("name") or f"{socket.gethostname()}-{os.getpid()}"
    bind(worker=name)
    return Worker(
        app.ledger,
        with_callbacks,
        app.submissions,
        name=name,
        limits=limits,
        limiter=lambda: app.limiter,
        tell_limits=partial(app.limits.tell, registry),
        target=target,
        bounds=Bounds(
            memory_bytes=memory_mb and memory_mb * 1024 * 1024,
            cpu_s=settings.handler_cpu_s,
            environment=settings.as_environment(),
        ),
        retention_s={status: seconds for status, seconds in kept.items() if seconds is not None},
        chores=cleaning.chores(app, name),
        left_out=LeftOut(left_out, app.limits.defined),
    )


def _check_no_child() -> None:
    """A script that works as soon as it is imported would start workers in its children, and they in theirs."""
    started = sys.modules["__main__"].__spec__
    if started is not None and started.name == "forebay.child.__main__":
        raise BadInput(
            "A worker was to be started in a child that runs handlers.",
            remedy='Put app.work() below `if __name__ == "__main__":`.',
        )
