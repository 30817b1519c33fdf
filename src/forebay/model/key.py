"""An API key as a ledger keeps it: what it may do and for whom, and never the token itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from forebay import ids
from forebay.errors import BadInput, BadName
from forebay.model.names import check_instant, check_label, check_name
from forebay.model.task import check_blob

_TOKEN = re.compile(rf"fb_([a-z2-7]{{{ids.LENGTH}}})_[A-Za-z0-9_-]{{43}}")


class Scope(StrEnum):
    """What a key may do; each is given by itself, and `admin` stands for all of them."""

    READ = "read"
    SUBMIT = "submit"
    SLOTS = "slots"
    OPERATE = "operate"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """`sha256` is that of the token. Without a tenant it is good for all of them."""

    name: str
    sha256: str
    scopes: tuple[Scope, ...]
    tenant: str | None = None
    expires_at: float | None = None
    id: str = field(default_factory=ids.random_id)
    created_at: float = 0.0
    revoked_at: float | None = None

    def __post_init__(self) -> None:
        ids.check_id(self.id)
        check_label("name", self.name)
        check_blob(self.sha256)
        if self.tenant is not None:
            check_name("tenant", self.tenant)
        if self.expires_at is not None:
            check_instant("expires_at", self.expires_at)
        object.__setattr__(self, "scopes", check_scopes(self.scopes))

    def alive(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


def check_scopes(scopes: object) -> tuple[Scope, ...]:
    """Each once, in the order of the table."""
    known = ", ".join(Scope)
    if not isinstance(scopes, (tuple, list)) or not scopes:
        raise BadInput("A key needs a scope.", remedy=f"Scopes are: {known}.")
    for scope in scopes:
        if scope not in list(Scope):
            raise BadName(f"{ids.shown(scope)} is not a scope.", remedy=f"Scopes are: {known}.")
    return tuple(scope for scope in Scope if scope in scopes)


def key_id_of(token: str) -> str | None:
    """The id that a token names, or None for what cannot be one."""
    found = _TOKEN.fullmatch(token)
    return None if found is None else found[1]
