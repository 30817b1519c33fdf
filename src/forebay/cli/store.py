"""The commands for the stores: store init, migrate, check, gc, backup, prune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.opening import opened, who
from forebay.cli.options import Common, Reading
from forebay.errors import BadInput, StoreUnreachable
from forebay.ids import printable, shown
from forebay.model.access import Access

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

_USUAL = Common()
_USUAL_READING = Reading()
_AT_ONCE = 1000
_DAY_S = 86_400.0


def init(*, common: Common = _USUAL) -> None:
    """What is there already stays as it is."""
    from forebay.model.task import DEFAULT_TENANT
    from forebay.observe.redact import mask_address

    with opened(common, Access.INIT) as app:
        _make_home(app.settings.home)
        output.line(f"ledger  {_ledger(app)}  {_schema(app)}")
        # The first blob makes the store; without one it would be taken for a disk that is not mounted.
        app.blobs.delete(app.blobs.put(DEFAULT_TENANT, b""))
        output.line(f"blobs   {mask_address(app.settings.blobs)}")
        # Made now, by whoever may make it: those who only work need not have the right to.
        app.limiter.names()
        output.line(f"limits  {mask_address(app.settings.limits)}")


def migrate(*, common: Common = _USUAL) -> None:
    """Stop the workers of the older version first. On PostgreSQL nothing else migrates an older ledger."""
    with opened(common, Access.MIGRATE) as app:
        output.line(f"{_ledger(app)}  {_schema(app)}")
        app.limits.migrate()


def adopt(*, common: Common = _USUAL) -> None:
    """For a ledger that belongs to another one by mistake. Idempotency keys of the other one are not found any more."""
    from forebay.cli.opening import settings_of
    from forebay.stores.address import open_ledger
    from forebay.stores.sql.ledger import SqlLedger

    settings = settings_of(common)
    with open_ledger(settings.ledger, access=Access.AS_IS) as ledger:
        if not isinstance(ledger, SqlLedger):
            raise BadInput("A ledger in memory belongs to its process.", remedy="Name one that is kept.")
        ledger.give_to(settings.env)
        output.line(f"{ledger.place}  environment {settings.env}")


def check(*, common: Reading = _USUAL_READING) -> int:
    with opened(common) as app:
        problems = app.ledger.check()
        where = _ledger(app)
    if common.output != "table":
        output.write([{"problem": each} for each in problems], common.output)
    for each in problems if common.output == "table" else ():
        output.line(printable(each))
    if problems:
        output.note(f"{where} is damaged: restore a backup, or copy what can be read.")
    elif common.output == "table":
        output.line(f"{where} is sound")
    return 1 if problems else 0


def gc(
    *,
    older_than: Annotated[float, Parameter(help="Seconds since a blob was last written.")] = _DAY_S,
    common: Reading = _USUAL_READING,
) -> None:
    """In all tenants. Run it with the ledger that the blobs belong to: what another one points at is not known."""
    from forebay.model.names import check_duration

    with opened(common) as app:
        if app.settings.ledger.startswith("memory:"):
            raise BadInput("A ledger in memory points at nothing: every blob would go.", remedy="Name the real one.")
        swept = app.blobs.sweep(app.ledger.blobs_in_use, older_than_s=check_duration("--older-than", older_than))
    if common.output != "table":
        output.write([swept], common.output, one=True)
    else:
        output.line(f"{swept.blob_count} blobs deleted ({swept.byte_count} bytes), {swept.draft_count} drafts")


def backup(
    target: Annotated[str, Parameter(name="TARGET", help="The file to write; it must not exist yet.")],
    /,
    *,
    common: Common = _USUAL,
) -> None:
    """Blobs are not in it: copy their folder or bucket after it."""
    with opened(common) as app:
        app.ledger.backup(Path(target))
    output.line(f"{printable(target)}  {Path(target).stat().st_size} bytes")


Age = Annotated[float | None, Parameter(help="Seconds since they ended; else the setting says it.")]


def prune(
    *,
    completed: Age = None,
    failed: Age = None,
    canceled: Age = None,
    remembered: Annotated[
        float | None, Parameter(help="Seconds since a result was remembered for reuse; else the setting says it.")
    ] = None,
    common: Reading = _USUAL_READING,
) -> None:
    """Ages are those of the settings `retention_…_s` unless they are given here; without either they are kept."""
    from forebay.app import cleaning
    from forebay.model.exchange import Action
    from forebay.model.names import check_duration
    from forebay.model.task import Status

    with opened(common) as app:
        settings = app.settings
        wanted = {
            Status.COMPLETED: settings.retention_completed_s if completed is None else completed,
            Status.FAILED: settings.retention_failed_s if failed is None else failed,
            Status.CANCELED: settings.retention_canceled_s if canceled is None else canceled,
        }
        ages = {status: check_duration(f"--{status}", age) for status, age in wanted.items() if age is not None}
        kept_s = settings.retention_remembered_s if remembered is None else remembered
        if not ages and kept_s is None:
            raise BadInput(
                "Nothing says how long what ended is kept.", remedy="Give --completed SECONDS, or set a retention."
            )
        kept_s = None if kept_s is None else check_duration("--remembered", kept_s)
        count = 0
        while pruned := app.ledger.prune(ages, Action(who=who()), most=_AT_ONCE):
            count += pruned
        forgotten = 0 if kept_s is None else cleaning.forget(app, kept_s, Action(who=who()))
    if common.output != "table":
        output.write([{"count": count, "forgotten_count": forgotten}], common.output, one=True)
    else:
        output.line(f"{count} deleted" if kept_s is None else f"{count} deleted, {forgotten} results forgotten")


def _make_home(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnreachable(
            f"The home folder {shown(str(home))} cannot be made: {error.strerror}.",
            remedy="Set FOREBAY_HOME to a folder of your own.",
        ) from None


def _ledger(app: Forebay) -> str:
    from forebay.observe.redact import mask_address

    return mask_address(app.settings.ledger)


def _schema(app: Forebay) -> str:
    """Opens the ledger, which creates or migrates it."""
    from forebay.stores.address import newest_schema

    app.ledger.sessions()
    schema = newest_schema(app.settings.ledger)
    return "has no schema" if schema is None else f"schema {schema}"
