"""The one seam for what happened: names every event, logs it and tells whoever subscribed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

Callback = Callable[[str, Mapping[str, object]], None]

_DEBUG, _INFO, _WARNING = logging.DEBUG, logging.INFO, logging.WARNING
_TASK = ("task_id", "kind", "attempt")
_ENDED = (*_TASK, "job_id", "chunk")
_CHUNK = ("job_id", "index", "page_start", "page_end")
_LIMIT = ("limit", "in_flight", "in_flight_units", "windows")
_WAITING = (*_LIMIT, "wait_s", "ahead", "attempt", "suppressed")


class Event(NamedTuple):
    level: int
    meaning: str
    fields: tuple[str, ...]


EVENTS: dict[str, Event] = {
    "worker_started": Event(
        _INFO,
        "A worker opened its session and asks for work.",
        ("worker", "session_id", "kinds", "concurrency", "processes"),
    ),
    "kind_left_out": Event(
        _WARNING,
        "A worker does not run this kind, because its limit is not defined. It starts once the limit is.",
        ("kind", "limit", "remedy"),
    ),
    "worker_draining": Event(
        _INFO, "A worker claims no more tasks and finishes those that run.", ("reason", "running")
    ),
    "worker_stopped": Event(_INFO, "A worker closed its session.", ("worker", "settled", "handed_back")),
    "worker_failed": Event(
        _WARNING,
        "A worker ended by an error, such as a ledger that fails; others take over its tasks when its lease ends.",
        ("error_code", "text"),
    ),
    "schema_newer": Event(
        _WARNING,
        "A newer version has migrated the ledger: a worker drains and ends with exit code 5, a server answers 503.",
        ("worker", "schema"),
    ),
    "session_lost": Event(
        _WARNING, "The session expired before it was renewed, so its tasks are free for others.", ("session_id",)
    ),
    "loop_wedged": Event(_WARNING, "The event loop was blocked for so long that leases are at risk.", ("silent_s",)),
    "task_started": Event(_DEBUG, "An attempt began.", _TASK),
    "task_completed": Event(_DEBUG, "An attempt succeeded and its result is stored.", (*_ENDED, "run_s")),
    "task_retried": Event(
        _INFO,
        "An attempt failed and the task waits for its next one.",
        (*_ENDED, "error_class", "retry_count", "max_retries", "delay_s", "run_s"),
    ),
    "task_rescheduled": Event(
        _INFO,
        "An attempt asked to be continued later.",
        (*_ENDED, "delay_s", "reschedule_count", "max_reschedules", "run_s"),
    ),
    "task_failed": Event(_WARNING, "A task failed for good.", (*_ENDED, "error_class", "run_s")),
    "task_canceled": Event(_INFO, "A running task was stopped because somebody canceled it.", (*_ENDED, "run_s")),
    "task_handed_back": Event(
        _INFO, "A worker gave a task back unfinished or not begun, at no cost to the task.", ("task_id", "kind")
    ),
    "task_fenced": Event(
        _WARNING,
        "A settle came too late: another worker holds the task's lease, so nothing changed.",
        ("task_id", "kind", "token"),
    ),
    "task_progress": Event(_INFO, "A handler reported its progress.", ("task_id", "kind", "share", "note")),
    "task_error": Event(
        _DEBUG, "The text of what a handler raised; the task's history also has it.", ("task_id", "kind", "error_text")
    ),
    "chunk_permanently_failed": Event(
        _WARNING, "A chunk failed and is not retried automatically.", (*_CHUNK, "error_class")
    ),
    "all_chunks_completed_merging": Event(
        _INFO, "The last chunk of a job is done, so its merge follows.", ("job_id", "chunks", "holes")
    ),
    "retry_requested": Event(
        _INFO,
        "Somebody asked for a retry; `done_count` of the targets run again.",
        ("who", "targets", "target_count", "done_count", "force", "note"),
    ),
    "retrying_failed_chunks": Event(
        _INFO, "The failed chunks of a job run again, and its results are kept.", ("job_id", "failed", "kept")
    ),
    "retry_partial_failure": Event(
        _WARNING, "After a retry some chunks of a job failed again.", ("job_id", "failed", "kept")
    ),
    "chunk_result_checksum_mismatch": Event(
        _WARNING,
        "A stored result does not match its sha256: it is not served, and its chunk runs again.",
        ("job_id", "index", "expected", "computed"),
    ),
    "chunk_result_load_failed": Event(
        _WARNING,
        "A stored result is gone, and its chunk runs again.",
        (*_CHUNK, "expected"),
    ),
    "tasks_rescued": Event(_WARNING, "Tasks whose worker vanished became pending again.", ("count",)),
    "child_started": Event(_DEBUG, "A process for blocking handlers started.", ("pid",)),
    "child_killed": Event(
        _WARNING,
        "A handler's process was killed, together with the strays that it had started.",
        ("pid", "kind", "task_id", "why", "strays"),
    ),
    "document_lost": Event(
        _WARNING,
        "The stored bytes of a document are gone or damaged: its job fails until the document is handed in again.",
        ("tenant", "sha256", "error_code", "text"),
    ),
    "child_ended": Event(_WARNING, "A handler's process ended by itself.", ("pid", "how")),
    "parser_started": Event(
        _DEBUG, "A process that reads documents started; `level` is how far it is sandboxed.", ("pid", "level")
    ),
    "parser_killed": Event(
        _WARNING, "A process that reads documents was killed, because of its task or with it.", ("pid", "verb", "why")
    ),
    "parser_ended": Event(_WARNING, "A process that reads documents ended by itself.", ("pid", "verb", "how")),
    "store_failed": Event(
        _WARNING,
        "A store did not answer as it should and is asked again after a pause.",
        ("verb", "error_code", "text", "pause_s"),
    ),
    "store_recovered": Event(_INFO, "A store answers again.", ("verb", "after_s")),
    "slot_acquired": Event(_DEBUG, "A call got its slot.", (*_LIMIT, "slot_id", "wait_s", "attempt")),
    "slot_released": Event(
        _DEBUG, "A call gave its slot back; `in_flight` is the count without it.", (*_LIMIT, "slot_id")
    ),
    "slot_wait_timed_out": Event(
        _WARNING, "A caller got no slot within its timeout_s.", (*_LIMIT, "wait_s", "ahead", "blocked_by")
    ),
    "at_in_flight_capacity": Event(
        _INFO, "Callers of this process wait because as many calls as allowed are in progress.", _WAITING
    ),
    "rate_limit_reached": Event(_INFO, "Callers of this process wait for a window to open.", (*_WAITING, "window")),
    "limit_cooling_down": Event(_INFO, "Callers of this process wait for a cool-down to end.", _WAITING),
    "limit_breaker_open": Event(
        _INFO, "Callers of this process wait because the provider failed several times in a row.", _WAITING
    ),
    "limit_parked": Event(_INFO, "Callers of this process wait for a used-up quota to come back.", _WAITING),
    "limit_paused": Event(_INFO, "Callers of this process wait because somebody paused the limit.", _WAITING),
    "limit_relearning": Event(
        _INFO, "Callers of this process wait because the limit's store lost what was in use.", _WAITING
    ),
    "limit_ramping_up": Event(
        _INFO, "Callers of this process wait because a limit ramps up after a cool-down.", _WAITING
    ),
    "rate_limited_retrying": Event(
        _WARNING,
        "A provider refused a call, so the whole limit cools down.",
        (*_LIMIT, "code", "wait_s", "attempt", "error", "task_id", "kind", "job_id"),
    ),
    "cut_off_calls_hold_limit": Event(
        _WARNING,
        "Calls whose callers stopped waiting hold half of a limit or more: see on_disconnect and call_timeout_s.",
        (*_LIMIT, "cut_off", "bound"),
    ),
    "quota_exhausted": Event(_WARNING, "A quota is used up, so the limit is parked.", ("limit", "retry_in_s")),
    "late_start": Event(
        _INFO, "A slot was used later than its limit allows, so the caller asked for it again.", ("limit", "age_s")
    ),
    "limit_degraded": Event(
        _WARNING,
        "The store of a limit does not answer; its policy says what happens.",
        ("limit", "policy", "error_code"),
    ),
    "limit_shared": Event(
        _WARNING,
        "This process continues with its share of a limit whose store is gone: the bounds it may use.",
        ("limit", "processes", "in_flight", "in_flight_units", "windows"),
    ),
    "limit_unusable": Event(
        _WARNING,
        "A worker cannot use the limit of a kind at all: its tasks wait, and it is tried again after a pause.",
        ("limit", "kind", "error_code", "text", "pause_s"),
    ),
    "limit_healed": Event(_INFO, "The store of a limit answers again.", ("limit",)),
    "limit_redefined": Event(
        _WARNING,
        "A program defined a limit with other numbers than another program did; the last definition holds.",
        ("limit", "layer", "who", "values", "former_who", "former"),
    ),
    "limit_wakes_forbidden": Event(
        _WARNING,
        "A Redis user may not publish or subscribe: callers hear of free slots with the next heartbeat only.",
        ("problem", "remedy"),
    ),
    "limits_file_bad": Event(
        _WARNING,
        "Limits in a settings file or in variables cannot be used; the former ones stay.",
        ("file", "problem"),
    ),
    "callback_failed": Event(
        _WARNING,
        "A receiver did not accept a callback; it is sent again on schedule.",
        ("task_id", "attempt", "status", "error_class"),
    ),
    "callback_endpoint_disabled": Event(
        _WARNING, "A receiver answered that it wants no more callbacks, so none are sent.", ("endpoint_id",)
    ),
    "pruned": Event(_INFO, "Finished tasks older than their retention were removed.", ("count",)),
    "forgotten": Event(_INFO, "Results older than their retention were forgotten.", ("count",)),
    "blobs_swept": Event(
        _INFO,
        "Blobs that nothing points at were deleted, and drafts of writers that died.",
        ("blob_count", "byte_count", "draft_count"),
    ),
    "metrics_serving": Event(_INFO, "Metrics can be read at this address.", ("address",)),
    "server_started": Event(_INFO, "The HTTP API can be reached at this address.", ("address", "keyed")),
    "accept_failed": Event(
        _WARNING,
        "The server has no file descriptor left for a new connection. Logged every 10 s at most; `count` is how often.",
        ("text", "count"),
    ),
    "connections_full": Event(
        _WARNING,
        "All connections of the server were in use: it closed the oldest idle one, or refused the new one. "
        "Logged every 10 s at most; `count` is how often.",
        ("connections", "count"),
    ),
    "server_stopped": Event(_INFO, "The HTTP API has answered its last request.", ("address",)),
    "internal_thread_failed": Event(
        _WARNING,
        "An internal thread raised: a bug in Forebay, please report it. Its work begins again after a pause.",
        ("thread", "error_class", "place", "restart_count", "pause_s"),
    ),
    "store_too_slow": Event(
        _WARNING,
        "Grants of a limit come later than its windows let calls start, so callers wait for a quicker store.",
        ("limit", "delay_s", "most_s", "suppressed"),
    ),
    "limit_stuck": Event(
        _WARNING,
        "A limit's requests were stuck for longer than the lease, so this process stopped renewing its session.",
        ("limit", "silent_s"),
    ),
    "variable_ignored": Event(
        _WARNING,
        "An environment variable is not a setting of this version and has no effect. Logged once for each.",
        ("variable",),
    ),
    "subscriber_failed": Event(
        _WARNING, "A subscriber to events raised. Logged once for each subscriber.", ("subscriber", "error_class")
    ),
}


class _Subscription:
    __slots__ = ("callback", "failed")

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        self.failed = False


_logger = logging.getLogger("forebay")
# Without it, Python prints the warnings of a library in a program that has set up no logging.
_logger.addHandler(logging.NullHandler())
_subscriptions: tuple[_Subscription, ...] = ()
_lock = threading.Lock()


def emit(name: str, /, **fields: object) -> None:
    """Says that something happened; a name outside `EVENTS` is a KeyError."""
    level = EVENTS[name].level
    if _logger.isEnabledFor(level):
        _logger.log(level, name, extra={"fields": fields}, stacklevel=2)
    for subscription in _subscriptions:
        try:
            subscription.callback(name, fields)
        except Exception as error:  # noqa: BLE001 - whoever watches must not harm the work
            _complain(subscription, error)


def wanted(name: str) -> bool:
    """Whether anybody would hear of it: asked before fields are put together that cost something."""
    return bool(_subscriptions) or _logger.isEnabledFor(EVENTS[name].level)


def subscribe(callback: Callback) -> Callable[[], None]:
    """Calls back for each event, on the thread that emits it; the answer ends that."""
    global _subscriptions  # noqa: PLW0603 - a tuple swapped whole, so that emit needs no lock
    subscription = _Subscription(callback)
    with _lock:
        _subscriptions = (*_subscriptions, subscription)

    def unsubscribe() -> None:
        global _subscriptions  # noqa: PLW0603 - same
        with _lock:
            _subscriptions = tuple(each for each in _subscriptions if each is not subscription)

    return unsubscribe


def _complain(subscription: _Subscription, error: Exception) -> None:
    if subscription.failed:
        return
    subscription.failed = True
    called = getattr(subscription.callback, "__qualname__", type(subscription.callback).__qualname__)
    fields = {"subscriber": called, "error_class": type(error).__name__}
    _logger.log(EVENTS["subscriber_failed"].level, "subscriber_failed", extra={"fields": fields})
