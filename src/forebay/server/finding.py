"""Finds what a path names, for callers who may see it: what is another tenant's is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Path

from forebay.errors import Conflict, NotFound
from forebay.ids import LENGTH
from forebay.model.exchange import Acted
from forebay.model.job import Job
from forebay.model.task import Task
from forebay.server.callers import Caller
from forebay.server.problems import Refused, not_there
from forebay.server.service import Service

Id = Annotated[str, Path(pattern=rf"^[a-z2-7]{{{LENGTH}}}$", description="As submit and list give it.")]


async def job(service: Service, caller: Caller, identifier: str) -> Job:
    found = await service.ask(service.app.ledger.get_job, identifier)
    if found is None or not caller.sees(found.tenant):
        raise not_there("job", identifier)
    return found


async def task(service: Service, caller: Caller, identifier: str) -> Task:
    found = await service.ask(service.app.ledger.get, identifier)
    if found is None or not caller.sees(found.tenant):
        raise not_there("task", identifier)
    return found


def acted(answers: Sequence[Acted], what: str) -> dict[str, str]:
    """Of one target; what was refused is a conflict with its present state."""
    (answer,) = answers
    if answer.done:
        return {"id": answer.id, "outcome": answer.outcome}
    if answer.outcome == NotFound.code:
        raise not_there(what, answer.id)
    raise Refused(
        Conflict.http_status,
        answer.outcome,
        answer.text or f"It cannot be done to {what} {answer.id} now.",
        remedy='Send {"force": true}.' if answer.needs_force else f"GET /v1/{what}s/{answer.id} says how it stands.",
    )
