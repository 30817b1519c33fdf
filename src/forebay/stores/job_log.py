"""Logs the events of jobs that an operator looks for, once the ledger has stored them."""

from __future__ import annotations

from collections.abc import Iterable

from forebay.model.job import Event
from forebay.observe import emit


def log_events(noted: Iterable[tuple[str, Event]]) -> None:
    """Emit those that tell of retries, merges and lost results, each with the id of its job."""
    for job_id, event in noted:
        fields = {**event.fields, "job_id": job_id}
        match event.name:
            case "chunk_permanently_failed":
                emit("chunk_permanently_failed", **fields)
            case "all_chunks_completed_merging":
                emit("all_chunks_completed_merging", **fields)
            case "retrying_failed_chunks":
                emit("retrying_failed_chunks", **fields)
            case "retry_partial_failure":
                emit("retry_partial_failure", **fields)
            case "chunk_result_checksum_mismatch":
                emit("chunk_result_checksum_mismatch", **fields)
            case "chunk_result_load_failed":
                emit("chunk_result_load_failed", **fields)
            case _:
                pass
