"""Tasks for Celery's workers."""

from __future__ import annotations

from celery import Celery

from tests.queues import calls

app = Celery("calls", broker=calls.ADDRESS)
app.conf.update(
    task_default_queue=calls.NAME or "celery",
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    # On a busy machine a child takes longer than the usual 4 s to start.
    worker_proc_alive_timeout=60.0,
)

call = app.task(calls.call, name="call")
