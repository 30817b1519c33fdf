"""Limits on a Redis or Valkey server: the rules run there, in one step, on its clock."""

from __future__ import annotations

import copy
import os
import random
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from forebay.errors import StoreBusy
from forebay.model.names import check_name
from forebay.rules import limit_actions as actions
from forebay.rules import limit_state
from forebay.stores.redis import codec
from forebay.stores.redis.check import problems
from forebay.stores.redis.endpoint import Clustered
from forebay.stores.redis.links import Links
from forebay.stores.redis.listener import Listener
from forebay.stores.redis.rights import limit_rights
from forebay.stores.redis.script import Script
from forebay.stores.redis.servers import open_servers, read_deployment

if TYPE_CHECKING:
    from forebay.model.limit_record import Answer, Ask, Record
    from forebay.stores.limit_base import RedisClient, Step, Wake

_EXCHANGE = ("window_log", "cooldown", "sessions", "line", "kept_places", "forecast", "admission")
_WHOLE = (*_EXCHANGE, "whole")
_CHANGE_TRIES = 100
_CHANGE_PAUSE_S = 0.01
_READ_AT_ONCE = 200
# Of a record: what exchanges keep up by themselves, and what a change may set while they go on.
_KEPT = frozenset({"version", "last_step_at", "window_logs", "held_back_until"})
_COMPARED = ("generation", "terms_version", "layers", "paused_until", "paused_by", "pause_note")
_PARTS = _KEPT | {
    "layers",
    "eras",
    "terms_version",
    "paused_until",
    "paused_by",
    "pause_note",
    "cooldown",
    "refused_callers",
    "reports",
}


def _read_of(reply: list[bytes]) -> tuple[Record | None, int, bytes]:
    now, *found = reply
    if not found:
        return None, int(now), b""
    text, mark = found
    return codec.record_of(text), int(now), mark


def _of_the_server() -> int:
    return -1


class RedisLimits:
    """One header and seven parts per limit, on the servers that an address or a client names.

    `tags` names other hash tags than {forebay:<environment>:<limit>}, by limit. Tests add `shift` ms to
    the server's clock, or give one of their own.
    """

    instant = False
    shift = 0

    def __init__(
        self,
        source: str | RedisClient,
        *,
        environment: str = "default",
        tags: Mapping[str, str] | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._environment = check_name("environment", environment)
        self._tags = dict(tags or {})
        self._clock = clock or _of_the_server
        self._deployment = read_deployment(source)
        self._channel = f"forebay:{environment}:wake:"
        self._beat = Script("beat")
        self._exchange = Script(*_EXCHANGE, "exchange")
        self._take_over = Script(*_WHOLE, "take_over")
        self._read = Script(*_WHOLE, "read")
        self._swap = Script(*_WHOLE, "swap")
        self._patch = Script(*_WHOLE, "patch")
        self._check = Script(*_WHOLE, "check")
        self._open()
        _OPEN.add(self)

    def _open(self) -> None:
        cluster = isinstance(self._deployment, Clustered)
        rights = limit_rights(self._environment, self._tags.values(), cluster=cluster)
        self._servers = open_servers(self._deployment, rights)
        self._links = Links(self._servers)
        # Of its own: a heartbeat must not wait behind anything.
        self._beats = Links(self._servers)
        self._listener = Listener(self._servers, self._channel)

    def after_fork(self) -> None:
        """Sockets and locks are the parent's; whoever listened there does not listen here."""
        self._open()

    def exchange(self, limit: str, ask: Ask) -> Answer:
        return self._ask(self._links, limit, ask)

    def renew(self, limit: str, ask: Ask) -> Answer:
        reply = self._beat.run(self._beats, self._key(limit), *self._arguments(limit, ask))
        return codec.answer_of(reply) if reply else self._ask(self._beats, limit, ask)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return self._ask(self._links, limit, ask)

    def send_back(self, limit: str, ask: Ask) -> bool:
        return self._exchange.send(self._links, self._key(limit), *self._arguments(limit, ask), 1)

    def _ask(self, links: Links, limit: str, ask: Ask) -> Answer:
        key, arguments = self._key(limit), self._arguments(limit, ask)
        reply = self._exchange.run(links, key, *arguments, 0)
        if not reply:
            self._take_over.run(links, key)
            reply = self._exchange.run(links, key, *arguments, 0)
        return codec.answer_of(reply)

    def _arguments(self, limit: str, ask: Ask) -> tuple[str | int, ...]:
        return codec.ask_text(ask), limit, self._channel, self._clock(), self.shift

    def find(self, limit: str, session: str) -> tuple[Record | None, int]:
        reply = self._read.run(self._links, self._key(limit), self._clock(), self.shift, session)
        record, now, _ = _read_of(reply)
        if record is not None and "rest" not in record:
            return limit_state.only(record, session), now  # an older program has left it
        return record, now

    def read(self, limit: str) -> tuple[Record | None, int]:
        record, now, _ = self._marked(limit)
        return record, now

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        found: list[tuple[Record | None, int]] = []
        for at in range(0, len(limits), _READ_AT_ONCE):
            keys = [self._key(limit) for limit in limits[at : at + _READ_AT_ONCE]]
            replies = self._read.run_many(self._links, keys, self._clock(), self.shift)
            found += [_read_of(reply)[:2] for reply in replies]
        return found

    def check(self, limit: str) -> list[str]:
        """Return what is wrong in what is kept of a limit: where its header does not sum up its parts."""
        return problems(self._check.run(self._links, self._key(limit)))

    def _marked(self, limit: str) -> tuple[Record | None, int, bytes]:
        """With the mark that `swap` knows it by."""
        return _read_of(self._read.run(self._links, self._key(limit), self._clock(), self.shift))

    def change(self, limit: str, step: Step) -> Record | None:
        for _ in range(_CHANGE_TRIES):
            record, now, mark = self._marked(limit)
            before = copy.deepcopy(record)
            changed = step(record, now)
            if changed is None:
                return None
            if self._applied(limit, before, changed, mark):
                return changed
            time.sleep(random.uniform(0, _CHANGE_PAUSE_S))  # noqa: S311 - only so that two do not meet again
        raise StoreBusy(
            f"Limit {limit!r} is changed too often: {_CHANGE_TRIES} tries were overtaken.", remedy="Try again."
        )

    def _applied(self, limit: str, before: Record | None, changed: Record, mark: bytes) -> bool:
        """Whether nobody was faster. What exchanges leave alone is compared by itself, so they cannot overtake it."""
        old, new = dict(before or {}), dict(changed)
        parts = {part for part in (*old, *new) if part not in new or part not in old or old[part] != new[part]}
        key, clock = self._key(limit), (self._clock(), self.shift)
        by_hand = (
            not parts.isdisjoint({"window_logs", "held_back_until"}) and "eras" not in parts
        )  # else they follow from the windows
        if before is None or by_hand or "clock_offset_ms" in parts or not parts <= _PARTS or not parts <= {*new}:
            return bool(self._swap.run(self._links, key, mark, codec.record_text(changed), *clock))
        if not parts:
            return True
        same = codec.parts_text({part: old.get(part, "") for part in (*_COMPARED, *(parts & {"reports"}))})
        patch = codec.parts_text({part: new[part] for part in parts - _KEPT})
        sources = carried = ""
        if "eras" in parts:
            sources = codec.text(actions.log_sources(before["eras"], changed["eras"], before["window_logs"]))
            carried = codec.text(actions.carry_over(before["eras"], changed["eras"]))
        raised = changed["version"] - before["version"]
        found = self._patch.run(
            self._links, key, same, patch, sources, raised, changed["last_step_at"], carried, *clock
        )
        return bool(found)

    def names(self) -> list[str]:
        start, end = self._key("*").split("*")
        tagged = {limit for limit in self._tags if self._has(self._key(limit))}
        found = {key.removeprefix(start).removesuffix(end) for key in self._links.keys(f"{start}*{end}")}
        return sorted(tagged | found)

    def _has(self, key: str) -> bool:
        return bool(self._links.call("EXISTS", key, key=key))

    def _key(self, limit: str) -> str:
        tag = self._tags.get(limit) or f"forebay:{self._environment}:{limit}"
        return f"{{{tag}}}:limit"

    def listen(self, sid: str, wake: Wake) -> Callable[[], None]:
        return self._listener.add(sid, wake)

    def close(self) -> None:
        self._listener.close()
        self._links.close()
        self._beats.close()
        self._servers.close()


_OPEN: weakref.WeakSet[RedisLimits] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_OPEN):
        store.after_fork()


os.register_at_fork(after_in_child=_after_fork)
