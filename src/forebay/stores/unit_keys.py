"""API keys, requests and endpoints of a ledger that keeps each unit whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from forebay import ids
from forebay.model.callback import Endpoint
from forebay.model.exchange import Acted, Action
from forebay.model.key import ApiKey
from forebay.rules.actions import DONE, ROTATE, audited, revoked
from forebay.stores.checks import check_drain, check_key, check_record, check_repeat, check_request
from forebay.stores.unit_lanes import UnitLanes
from forebay.stores.unit_reads import verb

Taken = tuple[str, float]
"""The token of the request that has an idempotency key, and until when."""


class UnitKeys(UnitLanes):
    @abstractmethod
    def _put_key(self, key: ApiKey) -> None:
        """Unless there is one of its id."""

    @abstractmethod
    def _change_key(self, key_id: str, step: Callable[[ApiKey], ApiKey]) -> ApiKey | None: ...

    @abstractmethod
    def _all_keys(self) -> list[ApiKey]: ...

    @abstractmethod
    def _change_request(self, tenant: str, key: str, step: Callable[[Taken | None], Taken | None]) -> Taken | None:
        """Apply a step atomically to who has the key; what is left then."""

    @abstractmethod
    def _put_endpoint(self, endpoint: Endpoint) -> bool:
        """Whether it is new, or follows the one that is stored."""

    @verb
    def add_key(self, key: ApiKey, action: Action) -> None:
        check_key(key, action)
        if (before := self._recorded(action)) is not None:
            check_repeat(before[0], "add_key", [key.id])
            return
        now = self._clock.now()
        self._put_key(replace(key, created_at=now, revoked_at=None))
        self._record(audited(action, "add_key", [key.id], now), [Acted(key.id, DONE)])

    @verb
    def revoke_key(self, key_id: str, action: Action) -> Acted:
        check_drain(key_id, action)
        if (before := self._recorded(action)) is not None:
            check_repeat(before[0], "revoke_key", [key_id])
            return before[1][0]
        now = self._clock.now()
        answer = revoked(
            key_id, self._change_key(key_id, lambda key: replace(key, revoked_at=key.revoked_at or now))
        )  # fmt: skip
        self._record(audited(action, "revoke_key", [key_id], now), [answer])
        return answer

    @verb
    def record_action(self, verb: str, targets: Sequence[str], action: Action) -> None:
        check_record(verb, targets, action)
        if (before := self._recorded(action)) is not None:
            check_repeat(before[0], verb, targets)
            return
        line = audited(action, verb, targets, self._clock.now())
        self._record(line, [Acted(each, DONE) for each in targets])

    @verb
    def get_key(self, key_id: str) -> ApiKey | None:
        return self._change_key(ids.check_id(key_id), lambda key: key)

    @verb
    def keys(self) -> list[ApiKey]:
        return sorted(self._all_keys(), key=lambda key: (key.created_at, key.id))

    @verb
    def begin_request(self, tenant: str, key: str, token: str, for_s: float) -> bool:
        check_request(tenant, key, token, for_s)
        now = self._clock.now()

        def step(taken: Taken | None) -> Taken:
            free = taken is None or taken[0] == token or taken[1] <= now
            return (token, now + for_s) if taken is None or free else taken

        taken = self._change_request(tenant, key, step)
        return taken is not None and taken[0] == token

    @verb
    def end_request(self, tenant: str, key: str, token: str) -> None:
        check_request(tenant, key, token)
        self._change_request(tenant, key, lambda taken: taken if taken and taken[0] != token else None)

    @verb
    def put_endpoint(self, endpoint: Endpoint, action: Action | None = None) -> bool:
        if action is not None and (before := self._recorded(action)) is not None:
            check_repeat(before[0], ROTATE, [endpoint.id])
            return True
        stored = self._put_endpoint(endpoint)
        if stored and action is not None:
            line = audited(action, ROTATE, [endpoint.id], self._clock.now())
            self._record(line, [Acted(endpoint.id, DONE)])
        return stored
