"""What an application stands on: its settings and stores, each opened when it is first needed."""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

from forebay.app.limits import AppLimits
from forebay.blobs import Blobs, open_blobs
from forebay.engine.content import Content
from forebay.engine.registry import Registry
from forebay.engine.submission import Submissions
from forebay.model.access import Access
from forebay.model.exchange import Session
from forebay.stores.address import open_ledger, sqlite_file
from forebay.stores.base import Ledger

if TYPE_CHECKING:
    from forebay.limits.limiter import Limiter
    from forebay.settings import Settings
    from forebay.stores.limit_base import LimitStore


class Stands:
    """Nothing is read, written or opened before it is needed, so that any process may import it."""

    access = Access.USE
    """What opening the ledger may do to it: commands that only look leave it as it is."""

    def __init__(
        self,
        ledger: str | Ledger | None = None,
        *,
        limits: str | LimitStore | None = None,
        blobs: str | Blobs | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._given_ledger = ledger
        self._given_limits = limits
        self._given_blobs = blobs
        self._given_settings = settings
        self._lock = threading.RLock()
        self._opened_ledger: Ledger | None = None
        self.limits = AppLimits(self._limits_address, lambda: self.settings.env)
        self.registry = Registry()

    @cached_property
    def settings(self) -> Settings:
        from forebay.settings import load  # noqa: PLC0415 - pydantic takes longer to import than all the rest

        return self._given_settings or load()

    @property
    def ledger(self) -> Ledger:
        opened = self._opened_ledger
        if opened is not None:
            return opened
        with self._lock:
            if self._opened_ledger is None:
                given = self._given_ledger
                self._opened_ledger = self._open_ledger() if given is None or isinstance(given, str) else given
            return self._opened_ledger

    def has_ledger(self) -> bool:
        """Whether there is one already: looking must not make one."""
        given = self._given_ledger
        file = sqlite_file(given or self.settings.ledger) if given is None or isinstance(given, str) else None
        return file is None or file.exists()

    @property
    def own_ledger(self) -> bool:
        """Whether it was made with a ledger, so that the settings' one does not count."""
        return self._given_ledger is not None

    @property
    def ledger_address(self) -> str | None:
        """None for a ledger that was made elsewhere."""
        given = self._given_ledger
        return self.settings.ledger if given is None else given if isinstance(given, str) else None

    def _open_ledger(self) -> Ledger:
        address = self._given_ledger if isinstance(self._given_ledger, str) else self.settings.ledger
        return open_ledger(address, environment=self.settings.env, access=self.access)

    @property
    def limiter(self) -> Limiter:
        """Of the limit store that the settings name; with a ledger that was given, of the one beside that."""
        return self.limits.limiter

    def _limits_address(self) -> str | LimitStore:
        if self._given_limits is not None:
            return self._given_limits
        if isinstance(self._given_ledger, str) and self.settings.origin("limits") == "default":
            from forebay.settings.loading import beside  # noqa: PLC0415 - same

            return str(beside(self._given_ledger))
        return self.settings.limits

    @cached_property
    def blobs(self) -> Blobs:
        given = self._given_blobs
        return open_blobs(given or self.settings.blobs) if given is None or isinstance(given, str) else given

    def own_folders(self) -> list[Path]:
        """The folders of this machine that ledger and blobs are written to."""
        address = self.ledger_address
        file = sqlite_file(address) if address is not None else None
        folders = [] if file is None else [file.parent]
        given = self._given_blobs
        blobs = self.settings.blobs if given is None else given
        if isinstance(blobs, str) and blobs.startswith("file://"):
            folders.append(Path(unquote(blobs.removeprefix("file://"))))
        return folders

    def check_addresses(self) -> None:
        """Refuses those of blobs and limits that name no store, before anything begins; nothing is opened."""
        self.blobs  # noqa: B018 - made of its address
        self.limits.check_address()

    @cached_property
    def content(self) -> Content:
        return Content(lambda: self.blobs, self.settings.payload_max_bytes)

    @cached_property
    def submissions(self) -> Submissions:
        def sessions() -> list[Session]:
            return self.ledger.sessions()

        return Submissions(self.registry, self.content, self.settings.env, sessions)

    def close(self) -> None:
        """Let go of the ledger and the limits; they are opened again when they are next needed."""
        self.limits.close()
        with self._lock:
            if self._opened_ledger is not None:
                self._opened_ledger.close()
                self._opened_ledger = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
