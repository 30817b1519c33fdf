from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from tests.cli.ground import Ground


def test_a_key_is_made_listed_and_revoked(here: Ground) -> None:
    made = here.ok("keys", "create", "ann's laptop", "--scope", "read", "--scope", "submit", "--tenant", "acme")
    token = made.out.strip()
    assert token.startswith("fb_")
    assert "once" in made.err
    (listed,) = here.ok("keys", "list", "-o", "json").json
    assert (listed["name"], listed["scopes"], listed["tenant"]) == ("ann's laptop", ["read", "submit"], "acme")
    assert token not in str(listed)
    assert "sha256" not in listed
    with here.app() as app:
        (kept,) = app.ledger.keys()
    assert kept.sha256 == hashlib.sha256(token.encode()).hexdigest()
    assert "alive" in here.ok("keys", "list").out
    assert here.ok("keys", "revoke", listed["id"][:6], "--note", "lost").code == 0
    assert "revoked" in here.ok("keys", "list").out
    with here.app() as app:
        assert [(line.verb, line.note) for line in app.ledger.audit()] == [("revoke_key", "lost"), ("add_key", "")]


def test_a_key_may_end_by_itself(here: Ground) -> None:
    made = here.ok("keys", "create", "short", "--scope", "admin", "--for", "1h", "-o", "json").json
    created, expires = (datetime.fromisoformat(made[name]) for name in ("created_at", "expires_at"))
    assert created > datetime.now(UTC) - timedelta(minutes=5)
    assert timedelta(minutes=50) < expires - created < timedelta(minutes=61)
    assert made["token"].startswith(f"fb_{made['id']}_")


def test_what_makes_no_key_is_refused(here: Ground) -> None:
    assert here.run("keys", "create", "none").code == 2
    assert here.run("keys", "create", "bad", "--scope", "root").code == 2
    assert here.run("keys", "create", "bad", "--scope", "read", "--tenant", "../x").code == 2
    for never in ("0", "0s", "-1"):
        assert here.run("keys", "create", "bad", "--scope", "read", "--for", never).code == 2
    here.ok("store", "init")
    assert "There are none" in here.ok("keys", "list").err
    assert here.run("keys", "revoke", "abc").code == 4
