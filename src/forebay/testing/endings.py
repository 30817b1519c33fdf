"""How attempts may end in the random runs: every outcome that a handler can have."""

from __future__ import annotations

from forebay.model.job import Event
from forebay.model.outcome import Canceled, Completed, Failed, Outcome, Rescheduled
from forebay.model.task import Role, Task
from forebay.testing.workers import blob, chunk, follow, usage

ENDINGS = ("complete", "blob", "follow", "chunks", "fail", "give_up", "retry", "reschedule", "cancel")
# So that jobs come to their merge, and past it.
MOSTLY_DONE = (*ENDINGS, *["complete", "follow", "complete", "chunks"] * 2)


def outcome(task: Task, ending: str, delay_s: float) -> Outcome:
    """The outcome of that name; one that does not fit the task is a plain completion."""
    used = (usage(1),)
    number = task.chunk_index or 0
    outcomes: dict[str, Outcome] = {
        "blob": Completed(result_blob=blob(task.claim_count), usage=used),
        "fail": Failed(error_class="invalid_pdf", text="torn", usage=used),
        "give_up": Failed(error_class="timeout", text="60 s", permanent=True, usage=used),
        "retry": Failed(error_class="timeout", text="60 s", delay_s=delay_s, usage=used),
        "reschedule": Rescheduled(delay_s=delay_s),
        "cancel": Canceled(),
    }
    if task.job_id:
        outcomes["follow"] = Completed(follow_ups=(follow(f"{task.role} {number % 2}"),), usage=used)
    if task.role in {Role.SPLIT, Role.CHUNK}:
        outcomes["chunks"] = Completed(follow_ups=(chunk(10 + number % 3), chunk(11 + number % 3)))
    return outcomes.get(ending) or Completed(usage=used, events=(Event(name="seen"),))
