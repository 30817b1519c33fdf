"""Makes and ends API keys: the token is shown once, and only its sha256 is kept."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from forebay import ids
from forebay.app.forebay import Forebay
from forebay.model.exchange import Acted, Action
from forebay.model.key import ApiKey, Scope

_SECRET_BYTES = 32


class Made(NamedTuple):
    """`token` is what clients send; nobody can find it out again."""

    key: ApiKey
    token: str


def create(
    app: Forebay,
    name: str,
    scopes: Sequence[Scope | str],
    *,
    tenant: str | None = None,
    expires_at: float | None = None,
    who: str = "api",
) -> Made:
    key_id = ids.random_id()
    token = f"fb_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    key = ApiKey(
        id=key_id,
        name=name,
        sha256=hashlib.sha256(token.encode()).hexdigest(),
        scopes=tuple(scopes),  # type: ignore[arg-type]  # checked by the key itself
        tenant=tenant,
        expires_at=expires_at,
    )
    app.ledger.add_key(key, Action(who=who))
    # The clock of the store says when it was made.
    return Made(app.ledger.get_key(key_id) or key, token)


def revoke(app: Forebay, key_id: str, *, who: str = "api", note: str = "") -> Acted:
    return app.ledger.revoke_key(key_id, Action(who=who, note=note))
