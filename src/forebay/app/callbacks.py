"""The callbacks of an application: where its jobs tell of themselves, the secrets for it, and what was delivered."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any

from forebay import ids
from forebay.callbacks import guard, keys, results, signing, target
from forebay.callbacks.alerting import Alert, Alerts
from forebay.callbacks.delivering import SCHEDULE_S, Deliverer
from forebay.callbacks.sending import Sender
from forebay.callbacks.target import Policy
from forebay.clock import iso
from forebay.engine.registry import Kind
from forebay.errors import BadInput, NotFound, StoreBusy
from forebay.model.callback import KIND, Callback, Endpoint
from forebay.model.exchange import Acted, Action, Submitted
from forebay.model.names import lane_of
from forebay.model.payload import Json
from forebay.model.query import MAX_PAGE, Page, Query
from forebay.model.task import DEFAULT_TENANT, NewTask, Role, Status, Task
from forebay.pipelines import chunk_results
from forebay.pipelines.pipeline import OCR
from forebay.stores.address import sqlite_file

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

_MORE_S = 30.0  # beside the call itself: to look up the endpoint, and for a machine that is busy
_TRIES = 20
_PAGES = 20
_LOOK_S = 1.0  # the server has to answer a little later


class AppCallbacks:
    """Nothing is opened or read before it is needed."""

    def __init__(self, app: Forebay) -> None:
        self._app = app
        self.look_up = guard.resolve
        self.schedule_s: tuple[float, ...] = SCHEDULE_S

    @cached_property
    def policy(self) -> Policy:
        settings = self._app.settings
        return Policy.read(settings.callback_hosts, loopback=settings.callback_loopback == "allow")

    def key(self) -> bytes:
        """What all secrets follow from: of the settings, or of the ledger's own place."""
        given = self._app.settings.callback_key
        if given is not None:
            return given.encode()
        address = self._app.ledger_address
        if address is None or address.startswith("memory:"):
            return self._passing_key
        file = sqlite_file(address)
        if file is None:
            raise keys.unshared()
        return keys.key_beside(file)

    @cached_property
    def _passing_key(self) -> bytes:
        """Of a ledger that ends with this process."""
        return secrets.token_bytes(32)

    @property
    def sender(self) -> Sender:
        timeout_s = self._app.settings.callback_timeout_s
        return Sender(policy=self.policy, timeout_s=timeout_s, look_up=self.look_up)

    def kind(self) -> Kind:
        """What workers run beside the kinds of the application."""
        made = Deliverer(
            ledger=lambda: self._app.ledger,
            sender=lambda: self.sender,
            key=self.key,
            schedule_s=self.schedule_s,
            complete=self._complete,
        )
        return made.kind(self._timeout_s)

    def _complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return results.add_result(
            body,
            find=self._app.ledger.get,
            read=self._result,
            max_bytes=self._app.settings.callback_result_max_bytes,
        )

    def _result(self, task: Task) -> Json | bytes:
        """Return an article with its text and tags, the pages of a chunk, or the result as it is."""
        payload = task.payload
        if task.role is Role.CHUNK and isinstance(payload, dict):
            if isinstance(article := payload.get("article"), dict):
                said = task.result
                return {**article, "text": payload.get("text"), **(said if isinstance(said, dict) else {})}
            if task.kind.startswith(f"{OCR}.") and task.result_blob is not None:
                return asdict(chunk_results.read(self._app.blobs, task))
        return self._app.content.result(task)

    @property
    def _timeout_s(self) -> float:
        return self._app.settings.callback_timeout_s + _MORE_S

    # --- subscribing

    def of_job(
        self, url: str | None, *, each: bool = False, results: bool = False, tenant: str = DEFAULT_TENANT
    ) -> Callback | None:
        """What a job keeps of where its callbacks go; `each` asks for one of every chunk that ends as well.

        With `results` they carry the results.
        """
        if url is None:
            if each or results:
                given = "callback_each" if each else "callback_results"
                raise BadInput(f"{given} is given without a callback.", remedy="Give the URL that is to be told.")
            return None
        place = target.read(url, self.policy)
        endpoint = self._ensure(place, tenant)
        settings = self._app.settings
        return Callback(
            url=endpoint.url,
            endpoint=endpoint.id,
            host=place.lane(tenant),
            each=each,
            base=(settings.public_url or "").rstrip("/"),
            timeout_s=self._timeout_s,
            max_retries=len(self.schedule_s),
            results=results,
        )

    def _ensure(self, place: target.Target, tenant: str) -> Endpoint:
        self.key()  # without one nothing could be signed: better known now than when it is delivered
        endpoint_id = place.endpoint_id(tenant)
        known = self._app.ledger.endpoint(endpoint_id)
        if known is not None:
            return known
        made = Endpoint(id=endpoint_id, tenant=tenant, url=str(place.url), created_at=time.time())
        self._app.ledger.put_endpoint(made)
        return made

    # --- looking

    def endpoints(self, *, tenant: str | None = None) -> list[Endpoint]:
        return self._app.ledger.endpoints(tenant=tenant)

    def endpoint(self, named: str, *, tenant: str | None = None) -> Endpoint:
        """By its URL, its id, or the beginning of that."""
        found = [each for each in self.endpoints(tenant=tenant) if named == each.url or each.id.startswith(named)]
        exact = [each for each in found if named in {each.id, each.url}] or found
        if len(exact) != 1:
            raise NotFound(
                f"{'More than one endpoint is' if exact else 'There is no endpoint'} {ids.shown(named)}.",
                remedy="`forebay callbacks list` shows those there are.",
            )
        return exact[0]

    def deliveries(
        self, *, status: Status | None = None, tenant: str | None = None, after: str | None = None, size: int = 50
    ) -> Page[Task]:
        """Callbacks, newest first."""
        query = Query(kind=KIND, status=status, tenant=tenant, after=after, size=size)
        return self._app.ledger.list_tasks(query)

    def deliveries_of(self, endpoint: Endpoint, *, most: int = 20) -> list[Task]:
        """The latest to one endpoint, with what they said; of as many of the tenant's as can be seen in a moment.

        Only what they say tells them from those to others on the same host, who may be told a thousand times as much.
        """
        group = lane_of(KIND, target.Target.of(endpoint.url).group)
        ends_at = monotonic() + _LOOK_S
        found: list[Task] = []
        for row in self._latest(endpoint.tenant):
            if len(found) == most or monotonic() > ends_at:
                break
            task = self._app.ledger.get(row.id) if row.lane.partition(".")[0] == group else None
            payload = None if task is None else task.payload
            if task is not None and isinstance(payload, dict) and payload.get("endpoint") == endpoint.id:
                found.append(task)
        return found

    def _latest(self, tenant: str) -> Iterator[Task]:
        """Callbacks, newest first; the last thousands, not all ever made."""
        after: str | None = None
        for _ in range(_PAGES):
            page = self.deliveries(tenant=tenant, after=after, size=MAX_PAGE)
            yield from page.items
            after = page.next
            if after is None:
                return

    def secret(self, endpoint: Endpoint) -> str:
        """What its receiver verifies with."""
        return signing.secret_of(self.key(), endpoint.id, endpoint.generation)

    # --- acting

    def rotate(self, endpoint: Endpoint, *, who: str = "api", note: str = "") -> Endpoint:
        """A new secret; the one before signs as well for a day."""

        def step(known: Endpoint) -> Endpoint:
            return replace(known, generation=known.generation + 1, rotated_at=time.time())

        return self._changed(endpoint, step, Action(who=who, note=note, tenant=endpoint.tenant))

    def enable(self, endpoint: Endpoint) -> Endpoint:
        return self._changed(endpoint, lambda known: replace(known, disabled_at=None, note=""))

    def _changed(
        self, endpoint: Endpoint, step: Callable[[Endpoint], Endpoint], action: Action | None = None
    ) -> Endpoint:
        for _ in range(_TRIES):
            known = self._app.ledger.endpoint(endpoint.id)
            if known is None:
                raise NotFound(f"There is no endpoint {endpoint.id}.", remedy="`forebay callbacks list` shows them.")
            changed = replace(step(known), version=known.version + 1)
            if self._app.ledger.put_endpoint(changed, action):
                return changed
        raise StoreBusy(f"Endpoint {endpoint.id} was changed by others all the time.", remedy="Try again.")

    def resend(self, *delivery_ids: str, who: str = "api", tenant: str = DEFAULT_TENANT) -> list[Acted]:
        """Send again what lies in the dead letters, under its own id; a disabled endpoint is enabled by it."""
        for delivery_id in delivery_ids:
            task = self._app.ledger.get(ids.check_id(delivery_id))
            payload = task.payload if task is not None and task.kind == KIND else None
            if not isinstance(payload, dict):
                raise NotFound(f"There is no callback {delivery_id}.", remedy="`forebay callbacks list` shows them.")
            known = self._app.ledger.endpoint(str(payload["endpoint"]))
            if known is not None and known.disabled_at is not None:
                self.enable(known)
        return self._app.ledger.retry(list(delivery_ids), Action(who=who, note="resend", tenant=tenant), force=True)

    def test(self, endpoint: Endpoint) -> Submitted:
        """A callback that says nothing but that it is a test, delivered as all others are."""
        return self.tell(endpoint, "test", {"endpoint_id": endpoint.id})

    def tell(self, endpoint: Endpoint, name: str, data: dict[str, object], *, key: str | None = None) -> Submitted:
        """A callback of no job; of those with the same key there is one."""
        place = target.read(endpoint.url, self.policy)
        body = {"type": name, "timestamp": iso(time.time()), "data": data}
        task = NewTask(
            kind=KIND,
            payload={"endpoint": endpoint.id, "url": endpoint.url, "body": body},
            limit=place.lane(endpoint.tenant),
            tenant=endpoint.tenant,
            environment=self._app.settings.env,
            timeout_s=self._timeout_s,
            max_retries=len(self.schedule_s),
            idempotency_key=key,
        )
        return self._app.ledger.submit([task])[0]

    def alerts(self) -> Alerts | None:
        """What tells the operator; None where no alert_url is set. Refuses one that alerts may not go to."""
        url = self._app.settings.alert_url
        if url is None:
            return None
        endpoint_id = target.read(url, self.policy).endpoint_id(DEFAULT_TENANT)

        def tell(alert: Alert) -> None:
            if not self._is_own(endpoint_id, alert):
                self.tell(self.known_endpoint(url), alert.name, alert.data, key=alert.key)

        return Alerts(tell)

    def _is_own(self, endpoint_id: str, alert: Alert) -> bool:
        """Whether an alert would tell of an alert that did not arrive, and so on for ever."""
        if alert.data.get("endpoint_id") == endpoint_id:
            return True
        if alert.data.get("kind") != KIND:
            return False
        failed = self._app.ledger.get(str(alert.data["task_id"]))
        payload = None if failed is None else failed.payload
        return isinstance(payload, dict) and payload.get("endpoint") == endpoint_id

    def known_endpoint(self, url: str, tenant: str = DEFAULT_TENANT) -> Endpoint:
        """The endpoint of a URL, made if need be."""
        return self._ensure(target.read(url, self.policy), tenant)
