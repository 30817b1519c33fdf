"""Has results made again whose stored bytes are gone or damaged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from forebay.blobs import BlobRef
from forebay.errors import BlobMissing, ResultCorrupt
from forebay.model.exchange import Acted, Action
from forebay.model.task import Status

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

_WHY = "its stored result is lost"


def redo_lost(
    app: Forebay, identifier: str, *, who: str, tenant: str, note: str = "", read: bool = True
) -> Acted | None:
    """Run again a completed job's merge, or a completed task, whose stored result is lost; None if that is not so.

    A merge makes no call: of the chunks only those run again whose own results are lost. With `read` a result is
    checked by its sha256; without, only whether it is there. Blocking.
    """
    job = app.ledger.get_job(identifier)
    merge_id = None if job is None or job.status is not Status.COMPLETED else job.merge_id
    wanted = identifier if job is None else merge_id
    task = None if wanted is None else app.ledger.get(wanted)
    if task is None or task.status is not Status.COMPLETED or task.result_blob is None:
        return None
    if not _is_lost(app, BlobRef(task.tenant, task.result_blob), read=read):
        return None
    acted = app.ledger.lose_result(task.id, task.result_blob, Action(who=who, note=note or _WHY, tenant=tenant))
    return replace(acted, id=identifier) if acted.done else None


def _is_lost(app: Forebay, ref: BlobRef, *, read: bool) -> bool:
    if not read:
        return not app.blobs.exists(ref)
    try:
        with app.blobs.open(ref):
            return False
    except (BlobMissing, ResultCorrupt):
        return True
