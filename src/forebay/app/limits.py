"""The limits of an application: what its code says of them, their store, and what its workers tell that store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from forebay.engine.registry import Kind
from forebay.errors import BadInput, NotFound, StoreError
from forebay.ids import shown
from forebay.model.limit import Limit
from forebay.observe import emit
from forebay.rules.limit_actions import values_of
from forebay.stores.address import sqlite_file

if TYPE_CHECKING:
    from forebay.limits.follow import FollowedFile
    from forebay.limits.limiter import Limiter
    from forebay.stores.limit_base import LimitStore

_ANY_LIMIT = "any"
"""A store migrates its tables before it changes a limit, also one that does not exist."""


class AppLimits:
    """Nothing is opened before it is needed; where and for which environment is asked at each opening."""

    def __init__(self, address: Callable[[], str | LimitStore], environment: Callable[[], str]) -> None:
        self._address = address
        self._environment = environment
        self._defined: dict[str, Limit] = {}
        self._lock = threading.Lock()
        self._announcing = threading.Lock()
        self._limiter: Limiter | None = None
        self._followed: FollowedFile | None = None

    def add(self, limit: Limit) -> Limit:
        if not isinstance(limit, Limit):
            raise BadInput(f"{shown(limit)} is not a limit.", remedy="Give Limit(name, in_flight=…, windows=[…]).")
        if limit.name in self._defined:
            raise BadInput(f"Limit {limit.name!r} is defined already.", remedy="Define it once.")
        self._defined[limit.name] = limit
        return limit

    @property
    def limiter(self) -> Limiter:
        with self._lock:
            if self._limiter is None:
                from forebay.limits.limiter import Limiter  # noqa: PLC0415 - those who only submit need none of it

                self._limiter = Limiter(self._address(), environment=self._environment())
            return self._limiter

    def found(self) -> Limiter | None:
        """None where there is no store yet: looking must not make one."""
        return None if self._limiter is None and self._missing() else self.limiter

    def check_address(self) -> None:
        """BadInput if it names no limit store; the store itself is not opened, nor made."""
        address = self._address()
        if self._limiter is None and isinstance(address, str):
            from forebay.stores.limit_address import open_limits  # noqa: PLC0415 - same

            open_limits(address, self._environment()).close()

    def migrate(self) -> None:
        """Bring tables of limits that an older version made to this version's schema."""
        from forebay.stores.limit_address import open_limits  # noqa: PLC0415 - same

        address = self._address()
        if isinstance(address, str) and not self._missing():
            with closing(open_limits(address, self._environment())) as store:
                store.change(_ANY_LIMIT, lambda _record, _now: None)

    def _missing(self) -> bool:
        address = self._address()
        file = sqlite_file(address) if isinstance(address, str) else None
        return file is not None and not file.exists()

    def known(self, name: str) -> tuple[Limit | None, float | None]:
        """A limit as it stands, or as the code says, and how long its calls take, as far as anybody knows."""
        limiter = self.found()
        if limiter is not None:
            with suppress(NotFound):
                usage = limiter.usage(name)
                return usage.limit, usage.mean_call_s or None
        return self._defined.get(name), None

    def tell(self, kinds: Iterable[Kind]) -> None:
        """Before a worker begins: what code, file and environment say; a kind whose limit nobody knows is refused."""
        for kind in self.undefined(kinds):
            command = define_command(kind.limit or "")
            raise BadInput(
                f"Kind {kind.name!r} has the limit {kind.limit!r}, which nobody has defined.",
                remedy=f"Define it: app.limit(Limit({kind.limit!r}, in_flight=…)), or `{command}`.",
            )

    def undefined(self, kinds: Iterable[Kind]) -> list[Kind]:
        """Announce the limits, and return the kinds whose limit is unknown; none while the store does not answer."""
        known = self.announce()
        return [] if known is None else [kind for kind in kinds if kind.limit is not None and kind.limit not in known]

    def announce(self) -> list[str] | None:
        """Tell the store what code, file and environment say, and follow the file; return the names of all limits.

        None if the store does not answer: call it again later.
        """
        from forebay.limits.follow import FollowedFile  # noqa: PLC0415 - only workers and servers need it
        from forebay.limits.limiter import program  # noqa: PLC0415 - same

        limiter = self.limiter
        with self._announcing:
            for limit in self._defined.values():
                limiter.note(limit.name, "code", values_of(limit), who=program())
            if self._followed is None:
                self._followed = FollowedFile(limiter).start()
        try:
            for limit in self._defined.values():
                limiter.define(limit)
            return limiter.names()
        except StoreError as error:
            emit("store_failed", verb="define", error_code=error.code, text=str(error), pause_s=0)
            return None

    def defined(self, kinds: Iterable[Kind]) -> list[Kind]:
        """Those whose limit is known by now; none while its store does not answer."""
        try:
            known = self.limiter.names()
        except StoreError:
            return []
        return [kind for kind in kinds if kind.limit in known]

    def close(self) -> None:
        with self._lock:
            followed, self._followed = self._followed, None
            limiter, self._limiter = self._limiter, None
        if followed is not None:
            followed.close()
        if limiter is not None:
            limiter.close()


def changes_text(values: Mapping[str, object], for_s: float | None = None, note: str = "") -> str:
    """What was changed of a limit, for how long and why, as the audit trail has it."""
    said = [f"{name}={value}" for name, value in values.items()]
    if for_s is not None:
        said.append(f"for {for_s:g} s")
    return "; ".join(filter(None, [", ".join(said), note]))


def define_command(limit: str) -> str:
    """The command that defines a limit, as far as it can be told."""
    from forebay.limits.presets import presets  # noqa: PLC0415 - reads a file

    given = f"--preset {limit}` and confirm its numbers, or `--in-flight …" if limit in presets() else "--in-flight …"
    return f"forebay limits set {limit} {given}"
