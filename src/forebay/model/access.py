"""Says what opening a ledger may do to it."""

from __future__ import annotations

from enum import StrEnum


class Access(StrEnum):
    """What may be done to a ledger that is missing, or older than this program; what may not is an error."""

    AS_IS = "as_is"
    USE = "use"
    MIGRATE = "migrate"
    INIT = "init"

    @property
    def creates(self) -> bool:
        return self in {Access.USE, Access.INIT}

    @property
    def migrates(self) -> bool:
        return self in {Access.MIGRATE, Access.INIT}
