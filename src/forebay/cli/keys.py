"""The commands for API keys: keys create, keys list, keys revoke."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.opening import opened, who
from forebay.cli.options import Duration, Reading
from forebay.model.access import Access

if TYPE_CHECKING:
    from forebay.model.key import ApiKey

_USUAL = Reading()
_COLUMNS = ("id", "name", "scopes", "tenant", "created", "ends", "state")
Scopes = Literal["read", "submit", "slots", "operate", "admin"]


def create(
    name: Annotated[str, Parameter(name="NAME", help="What it is for, such as whose it is.")],
    /,
    *,
    scope: Annotated[list[Scopes], Parameter(negative="", help="What it may do; give it once for each.")],
    tenant: Annotated[str | None, Parameter(help="Only for this tenant; for all of them if none is given.")] = None,
    lasting: Duration = None,
    common: Reading = _USUAL,
) -> None:
    """The token is shown this once."""
    from forebay.app.keys import create as make
    from forebay.cli import reading
    from forebay.errors import BadInput

    lasts_s = None if lasting is None else reading.duration("--for", lasting)
    if lasts_s == 0:
        raise BadInput("A key for 0 s would never be good.", remedy="Give a longer time with --for, such as 30d.")
    expires_at = None if lasts_s is None else time.time() + lasts_s
    with opened(common, Access.USE) as app:
        made = make(app, name, scope, tenant=tenant, expires_at=expires_at, who=who())
    if common.output != "table":
        output.write([_plain(made.key) | {"token": made.token}], common.output, one=True)
        return
    output.line(made.token)
    output.note("Keep it now: it is shown this once. Clients send it as Authorization: Bearer TOKEN.")


def listing(*, common: Reading = _USUAL) -> None:
    from forebay.cli.cells import beside, when
    from forebay.ids import printable

    with opened(common) as app:
        found = app.ledger.keys()
    if common.output != "table":
        output.write([_plain(each) for each in found], common.output)
        return
    now = time.time()
    rows = [
        (
            each.id,
            printable(each.name),
            ",".join(each.scopes),
            each.tenant or "all",
            beside(each.created_at, now),
            when(each.expires_at, now) or "never",
            _state(each, now),
        )
        for each in found
    ]
    if rows:
        output.table(_COLUMNS, rows)
    else:
        output.note("There are none: `forebay keys create` makes one.")


def revoke(
    identifier: Annotated[str, Parameter(name="ID", help="The id of the key, or the beginning of it.")],
    /,
    *,
    note: Annotated[str, Parameter(show_default=False, help="Why, for the audit trail.")] = "",
    common: Reading = _USUAL,
) -> int:
    """From now on every server refuses it."""
    from forebay.app.keys import revoke as end
    from forebay.cli.acting import answer
    from forebay.errors import Ambiguous, NotFound
    from forebay.ids import shown

    with opened(common) as app:
        known = app.ledger.keys()
        found = [each.id for each in known if each.id.startswith(identifier)]
        if not found:
            raise NotFound(f"There is no key {shown(identifier)}.", remedy="`forebay keys list` shows those there are.")
        if len(found) > 1:
            raise Ambiguous(f"More than one key begins with {shown(identifier)}.", remedy="Give more of it.")
        return answer([end(app, found[0], who=who(), note=note)], "revoked", common)


def _state(key: ApiKey, now: float) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "alive" if key.alive(now) else "expired"


def _plain(key: ApiKey) -> dict[str, Any]:
    from forebay.app.plain import plain

    return {name: value for name, value in plain(key).items() if name != "sha256"}
