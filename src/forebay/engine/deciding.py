"""Turns an outcome into what is to be written; one that cannot be written is a bug of its handler's."""

from __future__ import annotations

import random

from forebay.errors import BadInput
from forebay.model.exchange import Settle
from forebay.model.outcome import Failed, Outcome
from forebay.model.task import Task
from forebay.rules import settlement
from forebay.rules.verdict import ErrorClass


def decided(task: Task, outcome: Outcome, now: float) -> Settle:
    jitter = random.random()  # noqa: S311 - spreads retries
    try:
        return settlement.decide(task, outcome, now=now, jitter=jitter)
    except BadInput as error:
        bug = Failed(error_class=ErrorClass.BUG, text=str(error), permanent=True)
        return settlement.decide(task, bug, now=now, jitter=jitter)
