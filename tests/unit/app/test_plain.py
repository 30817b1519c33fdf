from __future__ import annotations

import json

import pytest

from forebay.app.plain import plain, plain_whole, remedy
from forebay.clock import ManualClock
from forebay.model.exchange import Submitted
from forebay.model.outcome import Completed
from forebay.stores.memory.ledger import MemoryLedger
from forebay.testing.workers import Worker, job_of, lone


def test_a_task_keeps_the_names_of_the_model_and_has_instants_as_text() -> None:
    clock = ManualClock()
    with MemoryLedger(clock) as ledger:
        (answer,) = ledger.submit([lone({"n": 1}, tags=("a",))])
        worker = Worker(ledger, clock)
        worker.settle(worker.take(), Completed(result_json="[2]"))
        task = ledger.get(answer.id)
    assert task is not None
    made = plain_whole(task)
    assert (made["payload"], made["result"], made["tags"]) == ({"n": 1}, [2], ["a"])
    assert (made["status"], made["created_at"]) == ("completed", "2027-01-15T08:00:00.000Z")
    assert "payload_json" not in made
    assert json.loads(json.dumps(made)) == made


def test_bytes_in_the_blob_store_are_no_result_here() -> None:
    clock = ManualClock()
    with MemoryLedger(clock) as ledger:
        (answer,) = ledger.submit([lone()])
        worker = Worker(ledger, clock)
        worker.settle(worker.take(), Completed(result_json='{"bytes":3}', result_blob="0" * 64))
        task = ledger.get(answer.id)
    assert task is not None
    assert plain_whole(task)["result"] is None
    assert plain_whole(task)["result_blob"] == "0" * 64


def test_a_job_has_its_progress_and_what_failed_its_remedy() -> None:
    clock = ManualClock()
    with MemoryLedger(clock) as ledger:
        (answer,) = ledger.submit([job_of(1)])
        worker = Worker(ledger, clock)
        task = worker.take()
        worker.fail(task)
        job, chunk = ledger.get_job(answer.id), ledger.get(task.id)
    assert job is not None
    assert chunk is not None
    assert plain(job)["progress"] == 0.5
    assert plain(chunk)["remedy"] == remedy("internal_error")
    assert remedy("ocr_failed") == ""


def test_only_records_are_made_plain() -> None:
    assert plain(Submitted("a", "created")) == {"id": "a", "outcome": "created"}
    with pytest.raises(TypeError):
        plain("text")
