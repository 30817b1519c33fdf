"""The commands that run workers and show them: worker, workers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.cells import beside, short_ids
from forebay.cli.interpreter import collect_rarely, hand_over_soon
from forebay.cli.opening import environment, opened, who
from forebay.cli.options import Common, Reading
from forebay.errors import BadInput, ForebayError, StoreError
from forebay.ids import printable, shown

if TYPE_CHECKING:
    from types import TracebackType

    from forebay.app.forebay import Forebay

_USUAL = Common()
_BUILT_IN = "forebay.app.builtin:app"
_USUAL_READING = Reading()
_MAX_CONCURRENCY = 1000
_MAX_PROCESSES = 1024
_MAX_PORT = 65_535
_NOT_THEIRS = {__name__, "forebay.app.target", "importlib"}
_COLUMNS = ("worker", "host", "version", "session", "kinds", "opened", "renewed", "expires", "runs")
_SHOWN_KINDS = 3


def worker(
    target: Annotated[
        str | None,
        Parameter(
            name="TARGET", help="The application: module:app or path/to/file.py:app; documents alone if none is given."
        ),
    ] = None,
    /,
    *,
    concurrency: Annotated[int | None, Parameter(help="Tasks that run at once.")] = None,
    processes: Annotated[int | None, Parameter(help="Processes for blocking handlers.")] = None,
    metrics_port: Annotated[int | None, Parameter(help="Port of /metrics; 0 takes a free one.")] = None,
    name: Annotated[str | None, Parameter(help="Its name in history and `forebay workers`.")] = None,
    until_idle: Annotated[bool, Parameter(negative="", help="End when nothing is left to do for its kinds.")] = False,
    drain: Annotated[
        str | None, Parameter(name="--drain", help="End another worker, by its name or session; it finishes what runs.")
    ] = None,
    common: Common = _USUAL,
) -> int:
    """An application that was made with a ledger keeps it; else the settings say which."""
    if drain is not None:
        if target is not None:
            raise BadInput("Both TARGET and --drain are given.", remedy="Run a worker, or end another one.")
        return _drain(drain, common)
    if target is None:
        target = _BUILT_IN
    _check("concurrency", concurrency, 1, _MAX_CONCURRENCY)
    _check("processes", processes, 1, _MAX_PROCESSES)
    _check("metrics_port", metrics_port, 0, _MAX_PORT)
    app = application(target, common)
    from forebay.app.working import register_documents, work

    register_documents(app)
    if not len(app.registry):
        raise BadInput(
            f"{shown(target)} has no handlers, and nothing that reads documents is installed.",
            remedy="Register a handler before it is loaded: @app.task(\"kind\"), or pip install 'forebay[ocr]'.",
        )
    return _run(
        app,
        metrics_port,
        partial(
            work,
            app,
            concurrency=concurrency,
            processes=processes,
            name=name,
            target=target,
            until_idle=until_idle,
        ),
    )


def _drain(name: str, common: Common) -> int:
    from forebay.cli.acting import answer
    from forebay.errors import Ambiguous, NotFound
    from forebay.model.exchange import Action

    reading = Reading(ledger=common.ledger, config=common.config, verbose=common.verbose)
    with opened(reading) as app:
        sessions = app.ledger.sessions()
        found = [each for each in sessions if each.worker == name] or [
            each for each in sessions if each.id.startswith(name.lower())
        ]
        if not found:
            raise NotFound(f"There is no worker {shown(name)}.", remedy="`forebay workers` shows those there are.")
        if len(found) > 1:
            raise Ambiguous(f"More than one worker is {shown(name)}.", remedy="Give its session, or more of it.")
        acted = app.ledger.drain(found[0].id, Action(who=who()))
    return answer([acted], "asked to end", reading)


def _check(what: str, value: int | None, least: int, most: int) -> None:
    from forebay.model.names import check_count

    if value is not None:
        check_count(what, value, least=least, most=most)


def _run(app: Forebay, metrics_port: int | None, work: Callable[[], None]) -> int:
    """Run the worker and return its exit code; log it if the ledger failed."""
    from forebay.app.working import report_failure
    from forebay.observe.logs import configure

    settings = app.settings
    configure(settings.log_level, settings.log_format)
    settings.report_ignored()
    with ExitStack() as stack:
        stack.callback(app.close)
        port = settings.metrics_port if metrics_port is None else metrics_port
        if port is not None:
            from forebay.app.gauges import FleetGauges
            from forebay.observe.metrics import serve

            gauges = FleetGauges(app)
            stack.callback(gauges.close)
            stack.callback(serve(settings.metrics_host, port, gauges=gauges))
        hand_over_soon()
        collect_rarely()
        try:
            work()
        except StoreError as error:
            report_failure(error)
            return error.exit_code
        # It has ended well; one signal more must not make it look as if it had been killed.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    return 0


def application(target: str, common: Common) -> Forebay:
    """With the ledger that the command line names."""
    # By way of the environment: the application and the children that run its blocking handlers read it there.
    os.environ.update(environment(common))
    if common.ledger is not None:
        os.environ["FOREBAY_LEDGER"] = common.ledger
    app = load(target, verbose=common.verbose)
    if common.ledger is not None and app.own_ledger:
        raise BadInput(
            f"{shown(target)} was made with a ledger of its own.",
            remedy="Leave out --ledger, or make it with Forebay().",
        )
    return app


def load(target: str, *, verbose: bool) -> Forebay:
    from forebay.app import target as targets

    try:
        return targets.load(target)
    except ForebayError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's module raises
        if verbose:
            _show_own(error)
        where = _where(error)
        remedy = "Correct it." if verbose else "Correct it; --verbose shows the traceback."
        raise BadInput(
            printable(f"{shown(target)} cannot be loaded: {type(error).__name__}: {error}{where}."), remedy=remedy
        ) from None


def _own(traceback: TracebackType | None) -> TracebackType | None:
    """From the user's first line on: how we came to import it is of no use to them."""
    found = traceback
    while found is not None:
        file = found.tb_frame.f_code.co_filename
        if not file.startswith("<frozen importlib") and found.tb_frame.f_globals.get("__name__") not in _NOT_THEIRS:
            return found
        found = found.tb_next
    return None


def _show_own(error: BaseException) -> None:
    import traceback

    traceback.print_exception(type(error), error, _own(error.__traceback__), file=sys.stderr)


def _where(error: BaseException) -> str:
    place = _own(error.__traceback__)
    return "" if place is None else f" ({place.tb_frame.f_code.co_filename}, line {place.tb_lineno})"


def _few(kinds: Sequence[str]) -> str:
    """The first kinds, and how many more there are; JSON has all of them."""
    more = len(kinds) - _SHOWN_KINDS
    return ", ".join(kinds[:_SHOWN_KINDS]) + (f" and {more} more" if more > 0 else "")


def workers(*, common: Reading = _USUAL_READING) -> None:
    from forebay.app.plain import plain

    with opened(common) as app:
        found = sorted(app.ledger.sessions(), key=lambda session: (session.worker, session.opened_at))
        held = {session.id: [task.id for task in app.ledger.mine(session.id)] for session in found}
    if common.output != "table":
        output.write([{**plain(each), "running": [*held[each.id]]} for each in found], common.output)
        return
    now = time.time()
    names = short_ids(each for ids in (*held.values(), held) for each in ids) if output.terminal() else {}
    rows = [
        (
            each.worker if each.drain_at is None else f"{each.worker} (draining)",
            each.host,
            each.version,
            names.get(each.id, each.id),
            _few(each.kinds),
            beside(each.opened_at, now),
            beside(each.expires_at - each.lease_s, now),
            beside(each.expires_at, now),
            " ".join(names.get(task, task) for task in held[each.id]),
        )
        for each in found
    ]
    if rows:
        output.table(_COLUMNS, rows)
    else:
        output.note("There are none: start one with `forebay worker module:app`.")
