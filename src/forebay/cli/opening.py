"""Opens the application that a command works on: from its options and the settings."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.cli.options import Common, LimitReading
from forebay.errors import BadInput, NotFound, StoreUnreachable
from forebay.ids import shown
from forebay.model.access import Access

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.limits import Limiter
    from forebay.settings import Settings

_FILE_VARIABLE = "FOREBAY_CONFIG"
_LIMIT_VARIABLES = "FOREBAY_LIMIT_"


def settings_of(common: Common) -> Settings:
    from forebay.settings import load

    limits = common.limits if isinstance(common, LimitReading) else None
    environ = environment(common)
    if any(name.startswith(_LIMIT_VARIABLES) for name in environ):
        from forebay.limits.written import from_environment

        from_environment(environ)  # a number that cannot be read must not be passed over
    return load({"ledger": common.ledger, "limits": limits}, environ=environ)


def environment(common: Common) -> dict[str, str]:
    """The environment, as if the settings file that was named were named there."""
    if common.config is None:
        return dict(os.environ)
    file = Path(common.config)
    if not file.is_file():
        if file.exists():
            raise BadInput(f"{shown(common.config)} is not a file.", remedy="--config names a forebay.toml.")
        raise NotFound(f"There is no file {shown(common.config)}.", remedy="--config names a forebay.toml.")
    return {**os.environ, _FILE_VARIABLE: common.config}


@contextmanager
def opened(common: Common, access: Access = Access.AS_IS) -> Iterator[Forebay]:
    """Open the application of the settings. Unless `access` says more, its ledger is left as it is.

    A verbose command logs what it does, such as who asked for a retry.
    """
    from forebay.app.forebay import Forebay

    settings = settings_of(common)
    if common.verbose:
        from forebay.observe.logs import configure

        configure("info", settings.log_format)
    with Forebay(settings=settings) as app:
        app.access = access
        yield app


def lacks_limits(common: LimitReading) -> bool:
    """Return whether the limits are in a SQLite file that nobody has created yet, in a folder that can be reached."""
    from forebay.stores.address import sqlite_file

    file = sqlite_file(settings_of(common).limits)
    if file is None:
        return False
    try:
        file.stat()
    except FileNotFoundError:
        # The folder beside the ledger comes with the first limit; any other folder is part of the address.
        from forebay.stores.sqlite.limit_files import BESIDE_LEDGER

        return file.name.endswith(BESIDE_LEDGER) or file.parent.is_dir()
    except OSError as error:
        raise StoreUnreachable(f"Cannot read {file}: {error.strerror}.", remedy="Correct its rights or path.") from None
    return False


@contextmanager
def opened_limits(common: LimitReading, *, create: bool = False) -> Iterator[Limiter]:
    """Without `create`, a file that is not there yet is an error: looking must not make one."""
    from forebay.limits import Limiter
    from forebay.stores.address import sqlite_file

    settings = settings_of(common)
    if settings.limits.startswith("memory:"):
        raise BadInput(
            "Limits in memory are those of one process, and no command sees them.",
            remedy="Name a store that is shared: --limits sqlite:///limits.db, or set FOREBAY_LIMITS.",
        )
    file = sqlite_file(settings.limits)
    if file is not None and not file.exists() and not create:
        raise StoreUnreachable(
            f"There is no limit store at {file} yet:", remedy="define a limit, by `forebay limits set` or in code."
        )
    with Limiter(settings.limits, environment=settings.env) as limiter:
        yield limiter


def who() -> str:
    """Whom the audit trail names."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli"
