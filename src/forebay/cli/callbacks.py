"""The commands for callbacks: where they go, what was delivered, and the secrets that receivers verify with."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.acting import answer, resolved
from forebay.cli.cells import cut, when
from forebay.cli.opening import opened, who
from forebay.cli.options import All, Ids, Reading
from forebay.errors import BadInput
from forebay.model.access import Access

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.model.callback import Endpoint
    from forebay.model.task import Task

_USUAL = Reading()
_COLUMNS = ("endpoint", "tenant", "url", "since", "state")
_DELIVERED = ("callback", "type", "status", "attempts", "next or ended", "error")
Named = Annotated[str, Parameter(name="ENDPOINT", help="The URL of an endpoint, its id, or the beginning of that.")]


def listing(
    *, tenant: Annotated[str | None, Parameter(help="Only those of this tenant.")] = None, common: Reading = _USUAL
) -> None:
    with opened(common) as app:
        found = app.callbacks.endpoints(tenant=tenant)
    if common.output != "table":
        output.write(found, common.output)
        return
    now = time.time()
    rows = [(each.id, each.tenant, cut(each.url), when(each.created_at, now), _state(each)) for each in found]
    if rows:
        output.table(_COLUMNS, rows)
    else:
        output.note("There are none.")


def show(
    endpoint: Named,
    /,
    *,
    secret: Annotated[bool, Parameter(negative="", help="With the secret that its receiver verifies with.")] = False,
    common: Reading = _USUAL,
) -> None:
    """With the latest of what was sent to it."""
    from forebay.app.plain import plain

    with opened(common) as app:
        found = app.callbacks.endpoint(endpoint)
        sent = app.callbacks.deliveries_of(found)
        known = app.callbacks.secret(found) if secret else None
    if common.output != "table":
        made: dict[str, Any] = {**plain(found), **({"secret": known} if known else {})}
        output.write([{**made, "callbacks": [_plain(task) for task in sent]}], common.output, one=True)
        return
    now = time.time()
    output.pairs(
        [
            ("endpoint", found.id),
            ("tenant", found.tenant),
            ("url", found.url),
            ("state", _state(found)),
            ("secret since", when(found.rotated_at or found.created_at, now)),
            ("secret", known or ""),
        ]
    )
    if sent:
        output.line()
        output.table(_DELIVERED, [_row(task, now) for task in sent])


def resend(*ids: Ids, every: All = False, common: Reading = _USUAL) -> int:
    """Those that failed for good, by id or all of them; an endpoint that was disabled is enabled by it."""
    if bool(ids) == every:
        raise BadInput("Say which callbacks are meant.", remedy="Give ids, or --all for all that failed.")
    with opened(common) as app:
        targets = resolved(app, ids) if ids else _failed(app)
        return answer(app.callbacks.resend(*targets, who=who()), "to be sent again", common)


def send_test(endpoint: Named, /, *, common: Reading = _USUAL) -> int:
    """By a worker, as all callbacks are; a URL that is not known yet becomes an endpoint."""
    with opened(common, Access.USE) as app:
        made = app.callbacks.test(_known(app, endpoint))
    if common.output == "table":
        output.line(made.id)
    else:
        output.write([made], common.output, one=True)
    return 0


def rotate(endpoint: Named, /, *, common: Reading = _USUAL) -> int:
    """The secret before it signs as well for a day, so that the receiver can change over."""
    from forebay.app.plain import plain

    with opened(common, Access.USE) as app:
        rotated = app.callbacks.rotate(_known(app, endpoint), who=who())
        secret = app.callbacks.secret(rotated)
    if common.output == "table":
        output.line(secret)
    else:
        output.write([{**plain(rotated), "secret": secret}], common.output, one=True)
    return 0


def _known(app: Forebay, named: str) -> Endpoint:
    from forebay.errors import NotFound

    try:
        return app.callbacks.endpoint(named)
    except NotFound:
        if "://" not in named:
            raise
        return app.callbacks.known_endpoint(named)


def _failed(app: Forebay) -> list[str]:
    from forebay.model.task import Status

    found: list[str] = []
    after: str | None = None
    while True:
        page = app.callbacks.deliveries(status=Status.FAILED, after=after, size=500)
        found += [task.id for task in page.items]
        after = page.next
        if after is None:
            return found


def _state(endpoint: Endpoint) -> str:
    return "" if endpoint.disabled_at is None else f"disabled: {endpoint.note or 'by an operator'}"


def _type(task: Task) -> str:
    payload = task.payload
    body = payload.get("body") if isinstance(payload, dict) else None
    return str(body.get("type")) if isinstance(body, dict) else ""


def _row(task: Task, now: float) -> tuple[str, ...]:
    at = task.finished_at if task.status.terminal else task.available_at
    return (task.id, _type(task), str(task.status), str(task.attempt_count), when(at, now), cut(task.error_text or ""))


def _plain(task: Task) -> dict[str, Any]:
    from forebay.app.plain import plain_whole

    return plain_whole(task)
