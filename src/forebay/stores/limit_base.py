"""The contract of a limit store: one record per limit, changed in one atomic step, on the store's own clock.

Guarantees that every limit store keeps, and `forebay.testing` checks:

- `exchange` applies `forebay.rules.admission.decide` to the record as a whole, or not at all. A request may be sent
  again after a lost answer: grants are repeated until the session confirms them, and what was said twice counts once.
- `give_back` is un-numbered: it applies an ask whose `request_number` is 0, with its `ended_calls` and `refusals`, and
  leaves the line and the session's number as they are. It may come in any order, twice, and beside an exchange that
  says the same: a call is given back once, by its number. Whoever is next in line gets the slot in the same step, and
  hears of it.
- A session that was given something by another one's exchange hears of it through `listen`, at once and with the
  grants. That is a hint and may be lost: the session's next exchange or heartbeat brings the same.
- `change` is for the rare rest: a step from one record to the next, tried again if another was faster.
  Exchanges of others do not hold it up: only another change of the same parts does.
- Records are kept until they are changed. A store that comes back with less than it had is found out by `decide`.
- A call that raises `MaybeApplied` or `StoreUnreachable` may have been done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from forebay.model.limit_record import Answer, Ask, Grant, Record

Step = Callable[[Record | None, int], Record | None]


class Wake(Protocol):
    """Called on a thread of the store's when a session was given something; keep it short."""

    def __call__(self, limit: str, grants: list[Grant], now: int) -> None: ...


class _PooledClient(Protocol):
    @property
    def connection_pool(self) -> Any: ...  # noqa: ANN401 - a pool of either library, blocking or asyncio


class _ClusterClient(Protocol):
    @property
    def nodes_manager(self) -> Any: ...  # noqa: ANN401 - of either library, blocking or asyncio


RedisClient: TypeAlias = _PooledClient | _ClusterClient
"""A client of redis-py or valkey-py, blocking or asyncio; of one server, found by Sentinel, or of a cluster."""


class LimitStore(Protocol):
    """Blocking and thread-safe; nothing is opened before first use."""

    instant: bool
    """Whether it answers without waiting for anything, so that an event loop may call it itself."""

    def exchange(self, limit: str, ask: Ask) -> Answer: ...

    def renew(self, limit: str, ask: Ask) -> Answer:
        """Renew a session: an exchange whose `request_number` is 0, on a connection of its own that nothing delays."""

    def give_back(self, limit: str, ask: Ask) -> Answer:
        """Return when what the ask gives back is stored."""

    def send_back(self, limit: str, ask: Ask) -> bool:
        """Give back without waiting for anything: True once it is on its way, whatever happens to this process.

        False where the store cannot, or not now. Safe in an event loop, and where a signal may raise.
        """

    def find(self, limit: str, session: str) -> tuple[Record | None, int]:
        """Return the record with no session but this one, if it is there, and the store's clock; costs as an exchange.

        `rest` counts the other sessions. Tails are left out, and so is what windows have logged, but for the sums.
        """

    def read(self, limit: str) -> tuple[Record | None, int]:
        """The record as it is, and the store's clock: for people who look. It costs as much as there are sessions."""

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        """The same for many limits, in their order and in few round trips; not all at one instant."""

    def change(self, limit: str, step: Step) -> Record | None:
        """Replace the record by what the step makes of it, given the store's clock; None leaves it as it is."""

    def names(self) -> list[str]:
        """All limits of this environment, sorted."""

    def listen(self, sid: str, wake: Wake) -> Callable[[], None]:
        """Have `wake` called for this session; returns how to stop it."""

    def close(self) -> None: ...
