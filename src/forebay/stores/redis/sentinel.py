"""Finds the primary of a service by asking its Sentinels, and notices when another server has become the primary."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import NamedTuple

from redis.exceptions import AskError, RedisError, ResponseError

from forebay.clock import steady
from forebay.errors import StoreClosed, StoreError, StoreUnreachable
from forebay.stores.redis.connection import Link, Server, send
from forebay.stores.redis.endpoint import Watched
from forebay.stores.redis.rights import SENTINEL_COMMANDS, Rights

_KNOWN_FOR_S = 0.5
"""How long an answer counts: a server that was replaced while frozen still calls itself a primary for a while."""
_NEVER = float("-inf")
_PASSED_OVER_FOR_S = 10.0
_PASSED_OVER_IN_DOUBT_FOR_S = 1.0
"""How long a Sentinel that did not answer is left alone, while a primary is known, and while that is in trouble."""
_OLDER_FOR_S = 5.0
"""How long most Sentinels name a primary of a lower epoch until it is used: they tell each other every 2 s."""


class _Answer(NamedTuple):
    """Who the primary is; of different answers the one of the highest epoch is the newest."""

    epoch: int
    host: str
    port: int


class _Sentinel:
    """One Sentinel, and the connection to it that is kept."""

    def __init__(self, server: Server, service: str) -> None:
        self._server = server
        self._service = service
        self._link: Link | None = None
        self.failed_at = _NEVER

    def try_again(self) -> None:
        """Ask on a connection of its own, while nobody waits; it counts as well again if it answers."""
        attempt = _Sentinel(self._server, self._service)
        with suppress(StoreError):
            attempt.ask()
            self.failed_at = _NEVER
        attempt.close()

    def ask(self) -> _Answer | None:
        """Return whom it names, or None if it does not know the service; a StoreError if it does not answer."""
        link, self._link = self._link, None
        if link is not None:
            try:
                return self._ask(link)
            except RedisError:
                link.disconnect()  # it may have been restarted since
        link = self._server.dial()
        with self._server.told(sent=False):
            try:
                return self._ask(link)
            except BaseException:
                link.disconnect()
                raise

    def _ask(self, link: Link) -> _Answer | None:
        send(link, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        send(link, "SENTINEL", "MASTER", self._service)
        address = link.read_response()
        try:
            state = link.read_response()
        except ResponseError:
            if address is not None:
                raise
            state = None
        self._link = link
        if address is None or state is None:
            return None
        epoch = dict(zip(state[::2], state[1::2], strict=False)).get(b"config-epoch", b"0")
        return _Answer(int(epoch), address[0].decode(), int(address[1]))

    def close(self) -> None:
        if self._link is not None:
            self._link.disconnect()
            self._link = None


class SentinelServers:
    """The primary of a service; asked for again when it is in trouble, and from time to time."""

    def __init__(self, deployment: Watched, rights: Rights) -> None:
        self.place = deployment.place
        self._template = deployment.template
        self._rights = rights
        self._service = deployment.service
        asking = Rights(SENTINEL_COMMANDS)
        self._sentinels = [_Sentinel(Server(each, asking), self._service) for each in deployment.sentinels]
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._answer: _Answer | None = None
        self._asked_at = 0.0
        self._doubted = False
        self._older: tuple[tuple[str, int], float] | None = None  # whom most name at a lower epoch, and since when
        self._closed = False

    def of(self, key: str | None) -> Server:  # noqa: ARG002 - the primary has all keys
        server = self._server
        if server is not None and not self._doubted:
            is_fresh = steady() - self._asked_at < _KNOWN_FOR_S
            if is_fresh or not self._lock.acquire(blocking=False):
                return server  # or somebody else asks
            try:
                return self._look()
            finally:
                self._lock.release()
        with self._lock:
            if self._server is not None and not self._doubted:
                return self._server  # somebody else has asked meanwhile
            return self._look()

    def known(self, key: str) -> Server | None:  # noqa: ARG002 - same
        return self._server

    def all(self) -> list[Server]:
        return [self.of(None)]

    def is_current(self, server: Server) -> bool:
        return server is self._server

    def doubt(self, server: Server) -> None:
        if server is self._server:
            self._doubted = True

    def instead_of(self, server: Server, key: str | None) -> Server | None:
        self.doubt(server)
        other = self.of(key)
        return None if other is server else other

    def redirected(self, server: Server, error: AskError) -> Server:
        raise server.refusal(error) from error

    def demoted(self, server: Server, error: ResponseError) -> Server:
        other = self.instead_of(server, None)
        if other is None:
            self.doubt(server)
            raise StoreUnreachable(
                f"{server.place} is a replica, and the Sentinels of {self._service!r} name no other primary yet.",
                remedy="Wait until the failover is over.",
            ) from error
        return other

    def _look(self) -> Server:
        """Ask the Sentinels; the lock is held. Without an answer, the server that was known stays."""
        if self._closed:
            raise StoreClosed("The limit store was closed.", remedy="Open it again.")
        answers: list[_Answer] = []
        missing = False
        trouble: StoreError | None = None
        for sentinel in self._askable():
            if sentinel.failed_at > _NEVER and answers:
                break  # nobody waits for those that failed
            try:
                answer = sentinel.ask()
            except StoreError as error:
                sentinel.failed_at = steady()
                trouble = trouble if trouble is not None and not isinstance(trouble, StoreUnreachable) else error
                continue
            sentinel.failed_at = _NEVER
            missing = missing or answer is None
            answers += [answer] if answer is not None else []
        in_doubt, self._doubted = self._doubted, False
        self._asked_at = steady()
        self._try_again(in_doubt=in_doubt)
        if answers:
            return self._use(answers, in_doubt=in_doubt)
        if self._server is not None:
            return self._server
        raise self._nobody(trouble, missing=missing)

    def _askable(self) -> list[_Sentinel]:
        """Return the Sentinels that answered, then those that did not, as far as the primary has to be found."""
        until = _NEVER
        if self._server is None:
            until = steady()
        elif self._doubted:
            until = steady() - _PASSED_OVER_IN_DOUBT_FOR_S
        by_failure = sorted((each.failed_at, at) for at, each in enumerate(self._sentinels))
        return [self._sentinels[at] for failed_at, at in by_failure if failed_at <= until]

    def _try_again(self, *, in_doubt: bool) -> None:
        """Have those that failed a while ago asked by threads of their own: the next look asks those that answer."""
        passed_over_for_s = _PASSED_OVER_IN_DOUBT_FOR_S if in_doubt else _PASSED_OVER_FOR_S
        for sentinel in self._sentinels:
            if _NEVER < sentinel.failed_at <= steady() - passed_over_for_s:
                sentinel.failed_at = steady()
                apart = threading.Thread(target=self._ask_apart, args=(sentinel,), name="forebay-sentinel", daemon=True)
                # Where no thread can be had, as at the end of a program, a later look tries again.
                with suppress(RuntimeError):
                    apart.start()

    def _ask_apart(self, sentinel: _Sentinel) -> None:
        if not self._closed:
            sentinel.try_again()

    def _use(self, answers: list[_Answer], *, in_doubt: bool) -> Server:
        """Use the newest answer; while the primary is in trouble, also an older one that most Sentinels keep to."""
        known, answer = self._answer, max(answers)
        older = self._kept_to(answers)
        if in_doubt and older is not None:
            answer = older
        elif self._server is not None and known is not None and answer.epoch < known.epoch:
            return self._server
        if self._server is None or known is None or answer[1:] != known[1:]:
            self._server = Server(self._template.at(answer.host, answer.port), self._rights)
        self._answer = answer
        return self._server

    def _kept_to(self, answers: list[_Answer]) -> _Answer | None:
        """Return an answer older than what is known that most Sentinels have given for longer than news takes.

        Sentinels that were set up again count epochs from 0. Those that have yet to hear of a failover soon do.
        """
        known = self._answer
        older = None if known is None or max(answers).epoch > known.epoch else self._named_by_most(answers)
        if known is None or older is None or older.epoch >= known.epoch:
            self._older = None
            return None
        if self._older is None or self._older[0] != older[1:]:
            self._older = older[1:], steady()
        return older if steady() - self._older[1] >= _OLDER_FOR_S else None

    def _named_by_most(self, answers: list[_Answer]) -> _Answer | None:
        """Return whom more than half of all configured Sentinels name, if anybody."""
        for answer in answers:
            same = [each for each in answers if each[1:] == answer[1:]]
            if 2 * len(same) > len(self._sentinels):
                return max(same)
        return None

    def _nobody(self, trouble: StoreError | None, *, missing: bool) -> StoreError:
        if missing:
            return StoreError(
                f"{self.place}: the Sentinels know no service {self._service!r}.",
                remedy="Use the name that `SENTINEL MASTERS` shows.",
            )
        if trouble is not None and not isinstance(trouble, StoreUnreachable):
            return trouble
        cause = "" if trouble is None else f" ({trouble.what.removesuffix('.')})"
        return StoreUnreachable(
            f"{self.place}: no Sentinel answers{cause}.",
            remedy="Check that they run, and their addresses.",
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for sentinel in self._sentinels:
                sentinel.close()
