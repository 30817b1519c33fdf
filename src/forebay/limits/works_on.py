"""Writes and reads the label of a slot that a task holds: what it works on, its kind, its job and its id."""

from __future__ import annotations

import re
from typing import NamedTuple

from forebay.model.names import LABEL_LENGTH

_IDS = re.compile(r" #(?:([0-9a-z]+)/)?([0-9a-z]+)$")


class WorksOn(NamedTuple):
    job_id: str | None
    task_id: str

    def label(self, kind: str, text: str) -> str:
        ids = f" #{self.job_id}/{self.task_id}" if self.job_id else f" #{self.task_id}"
        shown = f"{text} ({kind})" if text else kind
        if len(shown) + len(ids) > LABEL_LENGTH:
            rest = f"… ({kind})"
            shown = text[: max(0, LABEL_LENGTH - len(ids) - len(rest))] + rest
        return f"{shown}{ids}"[-LABEL_LENGTH:]


def split_label(label: str) -> tuple[str, WorksOn | None]:
    """Return what a slot works on, and the task that holds it; None if no task does."""
    found = _IDS.search(label)
    if found is None:
        return label, None
    return label[: found.start()], WorksOn(found[1], found[2])
