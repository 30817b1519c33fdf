"""Which things the workers of an application clear away now and then, by its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.engine.chores import Chore
from forebay.model.exchange import Action
from forebay.observe import emit

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.blobs.store import Swept

_HOUR_S = 3600.0
_AT_ONCE = 1000


def chores(app: Forebay, who: str) -> list[Chore]:
    """Drafts always; blobs and what is remembered only where the settings say so."""
    settings = app.settings
    kept_s, gc_every_s = settings.retention_remembered_s, settings.gc_every_s
    made = [Chore("drafts", _HOUR_S, lambda: _tell(app.blobs.sweep_drafts()))]
    if kept_s is not None:
        made.append(Chore("forget", _HOUR_S, lambda: _forget(app, kept_s, who)))
    # A ledger in memory is that of one process, and points at nothing that others have stored.
    if gc_every_s is not None and not (app.ledger_address or "").startswith("memory:"):
        made.append(Chore("gc", gc_every_s, lambda: _tell(app.blobs.sweep(app.ledger.blobs_in_use))))
    return made


def forget(app: Forebay, older_than_s: float, action: Action) -> int:
    """How many results are not remembered any more."""
    count = 0
    while gone := app.ledger.forget_older(older_than_s, action, most=_AT_ONCE):
        count += gone
    return count


def _forget(app: Forebay, older_than_s: float, who: str) -> None:
    count = forget(app, older_than_s, Action(who=who, note="retention"))
    if count:
        emit("forgotten", count=count)


def _tell(swept: Swept) -> None:
    if swept.blob_count or swept.draft_count:
        emit("blobs_swept", blob_count=swept.blob_count, byte_count=swept.byte_count, draft_count=swept.draft_count)
