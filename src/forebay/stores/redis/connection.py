"""Opens connections to one Redis or Valkey server, and turns what it and redis-py report into our errors."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeAlias

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from forebay.errors import MaybeApplied, StoreBusy, StoreError, StoreUnreachable
from forebay.stores.redis.endpoint import Endpoint
from forebay.stores.redis.refusals import refusal
from forebay.stores.redis.rights import Rights
from forebay.stores.redis.tls_check import check_tls

Command: TypeAlias = tuple[str | bytes | int, ...]


class Link(Protocol):
    """What we use of a connection of redis-py's."""

    _sock: socket.socket

    def connect(self) -> None: ...

    def disconnect(self) -> None: ...

    def send_packed_command(self, packed: list[bytes], *, check_health: bool) -> None: ...

    def read_response(self, *, disconnect_on_error: bool = True) -> Any: ...  # noqa: ANN401 - what the server says

    def can_read(self, timeout: float) -> bool: ...


class Server:
    """One server: dials it, and names it in errors without its password."""

    def __init__(self, endpoint: Endpoint, rights: Rights) -> None:
        self._endpoint = endpoint
        self._rights = rights
        self.place = endpoint.place

    @property
    def host(self) -> str:
        return self._endpoint.address[0]

    def dial(self, options: Mapping[str, Any] | None = None) -> Link:
        """Open a connection; `options` take the place of the endpoint's."""
        with self.told(sent=False):
            link: Link = self._endpoint.kind(**{**self._endpoint.options, **(options or {})})
            try:
                link.connect()
            except RedisError as error:
                check_tls(self._endpoint, error)
                raise
        return link

    @contextmanager
    def told(self, *, sent: bool = True) -> Iterator[None]:
        """Say what an error means; `sent`: whether the server may have begun.

        A script that the server does not know, and a redirection, are the caller's to follow: nothing was done.
        """
        try:
            yield
        except AuthenticationError as error:
            raise StoreError(
                f"{self.place} refused the user or the password.", remedy="Check both in the address."
            ) from error
        except BusyLoadingError as error:
            raise StoreBusy(f"{self.place} is loading its data.", remedy="Try again in a moment.") from error
        except (NoScriptError, AskError):
            raise
        except ResponseError as error:
            raise self.refusal(error) from error
        except RedisError as error:
            if sent:
                raise MaybeApplied(
                    f"{self.place} did not answer: {_text(error)}.",
                    remedy="Repeat the call; if it goes on, check the server.",
                ) from error
            raise StoreUnreachable(
                f"{self.place} cannot be reached: {_text(error)}.", remedy="Check that it runs, and the address."
            ) from error

    def refusal(self, error: ResponseError) -> StoreError:
        """Return what it means that the server refused a command."""
        return refusal(error, self.place, self._rights, str(self._endpoint.options.get("username") or "default"))


def _text(error: RedisError) -> str:
    """Return an error's text without the full stop that some have."""
    return str(error).removesuffix(".")


def send(link: Link, *command: str | bytes | int) -> None:
    parts = [b"*%d\r\n" % len(command)]
    for part in command:
        raw = part if isinstance(part, bytes) else str(part).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    link.send_packed_command([b"".join(parts)], check_health=False)


def skip_reply(link: Link) -> None:
    """Read a reply that nobody waits for."""
    with suppress(ResponseError):
        read_reply(link)


def read_reply(link: Link) -> Any:  # noqa: ANN401 - what the server replies
    """Read a reply. If there is none in time, the connection stays open: it may come yet."""
    return link.read_response(disconnect_on_error=False)


def is_writable(link: Link) -> bool:
    """Whether a small command fits into the buffers of this machine."""
    asked = select.poll()
    asked.register(link._sock, select.POLLOUT)  # noqa: SLF001 - redis-py has no question for it
    return bool(asked.poll(0))
