"""Promises of API keys and of requests under an idempotency key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

import pytest

from forebay import ids
from forebay.clock import ManualClock
from forebay.errors import BadInput, Conflict
from forebay.model.exchange import Action
from forebay.model.key import ApiKey, Scope
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase
from forebay.testing.workers import action, blob

ONE, OTHER = "a" * ids.LENGTH, "b" * ids.LENGTH


def key(number: int = 1, **fields: object) -> ApiKey:
    made = ApiKey(name=f"key {number}", sha256=blob(number), scopes=(Scope.SUBMIT, Scope.READ), tenant="acme")
    return replace(made, **fields)  # type: ignore[arg-type]  # a test's own


class KeyPromises(LedgerCase):
    def test_a_key_comes_back_as_it_was_added(self, ledger: Ledger, clock: ManualClock) -> None:
        first = key(1, expires_at=clock.now() + 10.5)
        ledger.add_key(first, action())
        clock.advance(1)
        second = key(2, tenant=None, scopes=(Scope.ADMIN,), name="ÄÖ's \N{GRINNING FACE}")
        ledger.add_key(second, action())
        again = self.reopened(ledger, clock)
        assert again.get_key(first.id) == replace(first, created_at=clock.now() - 1)
        assert again.keys() == [replace(first, created_at=clock.now() - 1), replace(second, created_at=clock.now())]
        assert first.scopes == (Scope.READ, Scope.SUBMIT)
        assert again.get_key(ids.random_id()) is None

    def test_a_key_that_is_added_again_stays_as_it_is(self, ledger: Ledger) -> None:
        first = key(1)
        once = action()
        ledger.add_key(first, once)
        ledger.add_key(first, once)
        ledger.add_key(replace(first, scopes=(Scope.ADMIN,), tenant=None), action())
        (found,) = ledger.keys()
        assert (found.scopes, found.tenant) == (first.scopes, "acme")
        assert [line.verb for line in ledger.audit()] == ["add_key", "add_key"]

    def test_a_revoked_key_stays_revoked_from_the_first_time_on(self, ledger: Ledger, clock: ManualClock) -> None:
        first, second = key(1), key(2)
        for each in (first, second):
            ledger.add_key(each, action())
        revoking = action("ann", note="lost laptop")
        assert ledger.revoke_key(first.id, revoking).done
        clock.advance(5)
        assert ledger.revoke_key(first.id, revoking).done
        assert ledger.revoke_key(first.id, action()).done
        ledger.add_key(first, action())
        found = ledger.get_key(first.id)
        assert found is not None
        assert (found.revoked_at, found.alive(clock.now())) == (clock.now() - 5, False)
        kept = ledger.get_key(second.id)
        assert kept is not None
        assert kept.alive(clock.now())
        line = next(line for line in ledger.audit() if line.id == revoking.id)
        assert (line.verb, line.targets, line.note) == ("revoke_key", (first.id,), "lost laptop")

    def test_to_revoke_what_is_not_there_is_refused(self, ledger: Ledger) -> None:
        assert ledger.revoke_key(ids.random_id(), action()).outcome == "not_found"
        with pytest.raises(BadInput):
            ledger.revoke_key("' OR 1=1--", action())

    def test_an_action_on_a_key_is_good_for_one_request(self, ledger: Ledger) -> None:
        once = action()
        ledger.add_key(key(1), once)
        with pytest.raises(Conflict):
            ledger.add_key(key(2), once)
        with pytest.raises(Conflict):
            ledger.revoke_key(key(1).id, once)
        assert len(ledger.keys()) == 1

    def test_what_was_done_elsewhere_is_in_the_audit_trail_once(self, ledger: Ledger) -> None:
        pausing = action(note="maintenance")
        for _ in range(2):
            ledger.record_action("pause_limit", ["adobe"], pausing)
        (line,) = [line for line in ledger.audit() if line.verb == "pause_limit"]
        assert (line.id, line.targets, line.note, line.who) == (pausing.id, ("adobe",), "maintenance", pausing.who)
        with pytest.raises(Conflict):
            ledger.record_action("resume_limit", ["adobe"], pausing)
        for verb, target in (("Pause it", "adobe"), ("pause_limit", "../x")):
            with pytest.raises(BadInput):
                ledger.record_action(verb, [target], action())

    def test_bad_keys_are_refused(self, ledger: Ledger) -> None:
        with pytest.raises(BadInput):
            ledger.add_key(cast("ApiKey", "a key"), action())
        with pytest.raises(BadInput):
            ledger.add_key(key(1), cast("Action", None))
        for wrong in ({"scopes": ()}, {"scopes": ("root",)}, {"tenant": "../x"}, {"sha256": "ab"}, {"name": ""}):
            with pytest.raises(BadInput):
                key(1, **wrong)
        assert ledger.keys() == []

    def test_one_request_at_a_time_has_an_idempotency_key(self, ledger: Ledger, clock: ManualClock) -> None:
        assert ledger.begin_request("acme", "k 1/ä", ONE, 30)
        assert not ledger.begin_request("acme", "k 1/ä", OTHER, 30)
        assert ledger.begin_request("other", "k 1/ä", OTHER, 30)
        assert ledger.begin_request("acme", "k 2", OTHER, 30)
        ledger.end_request("acme", "k 1/ä", OTHER)
        assert not ledger.begin_request("acme", "k 1/ä", OTHER, 30)
        ledger.end_request("acme", "k 1/ä", ONE)
        assert ledger.begin_request("acme", "k 1/ä", OTHER, 30)
        clock.advance(1)
        assert not ledger.begin_request("acme", "k 1/ä", ONE, 30)

    def test_a_request_that_vanished_gives_its_key_up_in_time(self, ledger: Ledger, clock: ManualClock) -> None:
        assert ledger.begin_request("acme", "k", ONE, 30)
        clock.advance(20)
        assert ledger.begin_request("acme", "k", ONE, 30)
        clock.advance(20)
        assert not ledger.begin_request("acme", "k", OTHER, 30)
        clock.advance(10)
        assert ledger.begin_request("acme", "k", OTHER, 30)
        assert not ledger.begin_request("acme", "k", ONE, 30)

    def test_of_many_requests_at_once_one_has_the_key(self, ledger: Ledger) -> None:
        tokens = [ids.random_id() for _ in range(8)]
        with ThreadPoolExecutor(4) as pool:
            won = [*pool.map(lambda token: ledger.begin_request("acme", "k", token, 30), tokens)]
        assert won.count(True) == 1
