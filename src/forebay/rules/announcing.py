"""Decides which callbacks follow from what happened in a job, and what each of them says."""

from __future__ import annotations

from datetime import UTC, datetime

from forebay.model.callback import KIND, Callback
from forebay.model.job import Job, member, member_id
from forebay.model.payload import Json
from forebay.model.task import NewTask, Role, Status

_OF_CHUNKS = {Status.COMPLETED, Status.FAILED}


def ended(job: Job, sequence: int, now: float) -> tuple[NewTask, ...]:
    """Of a job that has come to its end; `sequence` is the number of the event that says so."""
    if job.callback_json is None:
        return ()
    callback = Callback.of_json(job.callback_json)
    links: dict[str, Json] = {"result": f"{_link(callback, job)}/result"} if job.status is Status.COMPLETED else {}
    data: dict[str, Json] = {
        "status": str(job.status),
        "error_class": job.error_class,
        "chunk_count": job.chunk_count,
        "completed_count": job.completed_count,
        "failed_count": job.failed_count,
    }
    if callback.results and job.status is Status.COMPLETED and job.merge_id is not None:
        data["result_of"] = job.merge_id
    return (_task(job, callback, f"job.{job.status}", data, links, sequence=sequence, now=now),)


def chunk_ended(
    job: Job, status: Status, index: int | None, error_class: str | None, *, now: float
) -> tuple[NewTask, ...]:
    """Of one of a job's chunks, for those who asked for them; the job's last event is the one that says so."""
    if job.callback_json is None or status not in _OF_CHUNKS:
        return ()
    callback = Callback.of_json(job.callback_json)
    if not callback.each:
        return ()
    data: dict[str, Json] = {"chunk_index": index, "chunk_status": str(status), "error_class": error_class}
    chunks = f"{_link(callback, job)}/chunks"
    links: dict[str, Json] = {"chunk": f"{chunks}/{index}", "chunks": chunks}
    if callback.results and status is Status.COMPLETED and index is not None:
        data["result_of"] = member_id(job.id, Role.CHUNK, index)
    return (_task(job, callback, f"chunk.{status}", data, links, sequence=job.event_count, now=now),)


def _task(
    job: Job,
    callback: Callback,
    name: str,
    data: dict[str, Json],
    links: dict[str, Json],
    *,
    sequence: int,
    now: float,
) -> NewTask:
    """The whole body is settled here, so that every attempt sends the same bytes under the same id.

    `result_of` names the task whose stored result is added when the callback is sent.
    """
    body: Json = {
        "type": name,
        "timestamp": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": {
            "job_id": job.id,
            "pipeline": job.pipeline,
            "label": job.label,
            "generation": job.generation,
            "sequence": sequence,
            **data,
            "links": {"job": _link(callback, job), **links},
        },
    }
    task = NewTask(
        kind=KIND,
        payload={"endpoint": callback.endpoint, "url": callback.url, "body": body},
        limit=callback.host,
        timeout_s=callback.timeout_s,
        max_retries=callback.max_retries,
        role=Role.FOLLOW,
        idempotency_key=f"callback {sequence}",
    )
    return member(task, job.id, tenant=job.tenant)


def _link(callback: Callback, job: Job) -> str:
    return f"{callback.base}/v1/jobs/{job.id}"
