"""API keys, and requests under an idempotency key, of a ledger in SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence

from forebay.model.exchange import Acted, Action
from forebay.model.key import ApiKey
from forebay.rules.actions import DONE, revoked
from forebay.stores.sql import rows
from forebay.stores.sql.acting import record, recorded
from forebay.stores.sql.statement import Steps, ask
from forebay.stores.sql.transaction import Transaction


def add(tx: Transaction, key: ApiKey, action: Action) -> Steps[None]:
    answered = yield from tx.one("audited", id=action.id)
    if answered:
        recorded(answered, "add_key", [key.id])
        return
    tx.write(
        "add_key",
        id=key.id,
        label=key.name,
        digest=key.sha256,
        scopes=json.dumps(key.scopes),
        tenant=key.tenant,
        expires_at=key.expires_at,
    )
    record(tx, "add_key", [key.id], action, [Acted(key.id, DONE)])


def revoke(tx: Transaction, key_id: str, action: Action) -> Steps[Acted]:
    answered, found = yield from tx.ask(ask("audited", id=action.id), ask("key", id=key_id))
    if answered:
        return recorded(answered, "revoke_key", [key_id])[0]
    answer = revoked(key_id, rows.key(found[0]) if found else None)
    if answer.done:
        tx.write("revoke_key", id=key_id)
    record(tx, "revoke_key", [key_id], action, [answer])
    return answer


def record_action(tx: Transaction, verb: str, targets: Sequence[str], action: Action) -> Steps[None]:
    answered = yield from tx.one("audited", id=action.id)
    if answered:
        recorded(answered, verb, targets)
        return
    record(tx, verb, targets, action, [Acted(each, DONE) for each in targets])


def get(tx: Transaction, key_id: str) -> Steps[ApiKey | None]:
    found = yield from tx.one("key", id=key_id)
    return rows.key(found[0]) if found else None


def every(tx: Transaction) -> Steps[list[ApiKey]]:
    return [rows.key(row) for row in (yield from tx.one("keys"))]


def begin(tx: Transaction, tenant: str, key: str, token: str, for_s: float) -> Steps[bool]:
    return bool((yield from tx.one("begin_request", last=True, tenant=tenant, key=key, token=token, for_s=for_s)))


def end(tx: Transaction, tenant: str, key: str, token: str) -> Steps[None]:
    yield from tx.one("end_request", last=True, tenant=tenant, key=key, token=token)
