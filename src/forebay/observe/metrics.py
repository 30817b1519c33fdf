"""Counts events for Prometheus and serves the counts."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from forebay.errors import BadInput, MissingExtra
from forebay.observe.events import emit, subscribe

_OUTCOMES = {
    "task_completed": "completed",
    "task_retried": "retried",
    "task_rescheduled": "rescheduled",
    "task_failed": "failed",
    "task_canceled": "canceled",
}
_REFUSALS = {"rate_limited_retrying": "wait_s", "quota_exhausted": "retry_in_s"}
_DEGRADED = {"limit_degraded": 1, "limit_healed": 0}
_ENDINGS = {*_OUTCOMES, "task_handed_back", "task_fenced"}
_DELAYS_S = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 1800, 3600, 4 * 3600, 12 * 3600, 86_400)
_WAITS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600)
_RUNS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)


class Metrics:
    """Metrics of one process in a registry of their own; called with each event."""

    def __init__(self) -> None:
        try:
            from prometheus_client import (  # noqa: PLC0415 - an extra
                CollectorRegistry,
                Counter,
                Gauge,
                Histogram,
                Info,
                ProcessCollector,
            )
        except ImportError:
            raise MissingExtra(
                "Metrics need the package prometheus-client.", remedy="Run: pip install 'forebay[metrics]'"
            ) from None
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        kind = ["kind"]
        self._settled = Counter("forebay_tasks_settled", "Attempts settled, by outcome.", ["kind", "outcome"], **own)
        self._rescheduled = Counter("forebay_tasks_rescheduled", "Attempts to be continued later.", kind, **own)
        self._delay = Histogram(
            "forebay_reschedule_delay_seconds", "Delays that handlers asked for.", kind, buckets=_DELAYS_S, **own
        )
        self._run = Histogram("forebay_task_seconds", "Run time of settled attempts.", kind, buckets=_RUNS_S, **own)
        self._running = Gauge("forebay_tasks_running", "Tasks running in this worker.", kind, **own)
        self._fenced = Counter("forebay_settles_fenced", "Settles that came after the lease was lost.", kind, **own)
        self._rescued = Counter("forebay_tasks_rescued", "Tasks taken back from vanished workers.", **own)
        self._store_errors = Counter("forebay_store_errors", "Failed calls of a store.", ["verb", "code"], **own)
        self._killed = Counter("forebay_children_killed", "Handler processes killed.", ["why"], **own)
        limit = ["limit"]
        self._refusals = Counter(
            "forebay_rate_limit_events", "Calls that a provider refused for now.", ["limit", "code"], **own
        )
        self._wait = Histogram(
            "forebay_limit_wait_seconds", "Waits for a slot that was got.", limit, buckets=_WAITS_S, **own
        )
        self._cooldown = Counter(
            "forebay_limit_cooldown_seconds",
            "Seconds of cool-down that refusals of this process's calls began.",
            limit,
            **own,
        )
        self._degraded = Gauge(
            "forebay_limit_degraded", "1 while the store of a limit does not answer this process.", limit, **own
        )
        self._timeouts = Counter("forebay_limit_timeouts", "Callers that got no slot within their time.", limit, **own)
        self._late = Counter("forebay_late_starts", "Slots used too late, and asked for again.", limit, **own)
        self._worker = Info("forebay_worker", "The worker that these metrics are of.", **own)
        ProcessCollector(**own)
        self._kinds: dict[str, str] = {}

    def __call__(self, name: str, fields: Mapping[str, Any]) -> None:
        if name.startswith("task_"):
            self._count_task(name, fields)
        elif name == "tasks_rescued":
            self._rescued.inc(fields["count"])
        elif name == "store_failed":
            self._store_errors.labels(fields["verb"], fields["error_code"]).inc()
        elif name == "child_killed":
            self._killed.labels(fields["why"]).inc()
        elif name == "worker_started":
            self._worker.info({"worker": fields["worker"]})
        elif "limit" in fields:
            self._count_limit(name, fields["limit"], fields)

    def _count_limit(self, name: str, limit: str, fields: Mapping[str, Any]) -> None:
        if name == "slot_acquired":
            self._wait.labels(limit).observe(fields["wait_s"])
        elif name in _REFUSALS:
            self._refusals.labels(limit, fields.get("code", "quota")).inc()
            self._cooldown.labels(limit).inc(fields[_REFUSALS[name]] or 0)
        elif name == "slot_wait_timed_out":
            self._timeouts.labels(limit).inc()
        elif name == "late_start":
            self._late.labels(limit).inc()
        elif name in _DEGRADED:
            self._degraded.labels(limit).set(_DEGRADED[name])

    def _count_task(self, name: str, fields: Mapping[str, Any]) -> None:
        kind, task_id = fields["kind"], fields["task_id"]
        if name == "task_started" and task_id not in self._kinds:
            self._kinds[task_id] = kind
            self._running.labels(kind).inc()
        # Only what was seen to start can end, and only once: a fenced settle may follow another ending.
        if name in _ENDINGS and (started := self._kinds.pop(task_id, None)) is not None:
            self._running.labels(started).dec()
        if outcome := _OUTCOMES.get(name):
            self._settled.labels(kind, outcome).inc()
            self._run.labels(kind).observe(fields["run_s"])
        if name == "task_rescheduled":
            self._rescheduled.labels(kind).inc()
            self._delay.labels(kind).observe(fields["delay_s"])
        elif name == "task_fenced":
            self._fenced.labels(kind).inc()


def serve(host: str, port: int, *, gauges: Any = None) -> Callable[[], None]:  # noqa: ANN401 - a collector of the extra's
    """Count from now on and answer GET /metrics until the returned function is called; port 0 takes a free one.

    `gauges` is a collector that is asked at each scrape.
    """
    metrics = Metrics()
    if gauges is not None:
        metrics.registry.register(gauges)
    from prometheus_client import make_wsgi_app, start_wsgi_server  # noqa: PLC0415 - an extra

    try:
        server, thread = start_wsgi_server(port, host, metrics.registry)
    except OSError as error:
        raise _refused(host, port, error) from None
    server.set_app(_only_metrics(make_wsgi_app(metrics.registry)))
    unsubscribe = subscribe(metrics)
    shown = f"[{host}]" if ":" in host else host
    emit("metrics_serving", address=f"http://{shown}:{server.server_port}/metrics")

    def stop() -> None:
        unsubscribe()
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def _only_metrics(answer: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    # prometheus-client answers every path with the metrics.
    def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == "/metrics":
            return answer(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"Only /metrics is here.\n"]

    return app


def _refused(host: str, port: int, error: OSError) -> BadInput:
    if error.errno == errno.EADDRINUSE:
        return BadInput(
            f"Port {port} on {host} is in use, so metrics cannot be served there.",
            remedy="Set metrics_port to another port, or to 0 for any free one.",
        )
    return BadInput(
        f"Metrics cannot be served on port {port} of {host}: {error.strerror}.",
        remedy="Set metrics_host to an address of this machine, and metrics_port to a port above 1023 or to 0.",
    )
