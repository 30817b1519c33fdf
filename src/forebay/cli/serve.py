"""The command that runs the HTTP API, with a worker in the same process: serve."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.interpreter import collect_rarely, hand_over_soon
from forebay.cli.options import Reading
from forebay.errors import MissingExtra

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.app.working import Options

_USUAL = Reading()
_BUILT_IN = "forebay.app.builtin:app"
_NEEDED = ("fastapi", "httptools", "uvicorn", "python_multipart")
_MAX_PORT = 65_535
_MAX_CONCURRENCY = 1000


def serve(
    target: Annotated[
        str | None,
        Parameter(
            name="TARGET", help="The application: module:app or path/to/file.py:app; documents alone if none is given."
        ),
    ] = None,
    /,
    *,
    host: Annotated[str | None, Parameter(help="Address to listen on; beyond this machine only with keys.")] = None,
    port: Annotated[int | None, Parameter(help="Port to listen on; 0 takes a free one.")] = None,
    worker: Annotated[bool, Parameter(negative="--no-worker", help="Run a worker beside the API.")] = True,
    concurrency: Annotated[int | None, Parameter(help="Tasks that the worker runs at once.")] = None,
    common: Reading = _USUAL,
) -> None:
    """Until SIGTERM or Ctrl-C: what is being sent is taken in, what runs comes to its end."""
    from forebay.cli.worker import application
    from forebay.model.names import check_count

    _require()
    if port is not None:
        check_count("port", port, most=_MAX_PORT)
    if concurrency is not None:
        check_count("concurrency", concurrency, least=1, most=_MAX_CONCURRENCY)
    name = target or _BUILT_IN
    app = application(name, common)
    options: Options = {"concurrency": concurrency, "target": name}
    _run(app, host, port, options if worker else None, common)


def _require() -> None:
    from importlib.util import find_spec

    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"The server needs {', '.join(missing)}, which is not installed.", remedy="pip install 'forebay[server]'"
        )


def _run(app: Forebay, host: str | None, port: int | None, worker: Options | None, common: Reading) -> None:
    from forebay.app.working import run
    from forebay.observe.logs import configure
    from forebay.server import serving
    from forebay.server.file_limit import raise_limit

    settings = app.settings
    configure(settings.log_level, settings.log_format)
    settings.report_ignored()
    raise_limit()
    with ExitStack() as stack:
        stack.callback(app.close)
        app.check_addresses()
        chosen = settings.server_host if host is None else host
        keyed = serving.check_exposed(app, chosen)
        listening = stack.enter_context(serving.bound(chosen, settings.server_port if port is None else port))

        def ready(address: str) -> None:
            if common.output == "table":
                output.note(f"Forebay serves {address}; see {address}/docs")
            else:
                output.write([{"address": address, "worker": worker is not None}], common.output, one=True)
                sys.stdout.flush()
            collect_rarely()

        loopback = serving.is_loopback(chosen)
        served = serving.serve(app, listening, keyed=keyed, loopback=loopback, worker=worker, on_ready=ready)
        if worker is not None:
            hand_over_soon()
        run(served)
        # It has ended well; one signal more must not make it look as if it had been killed.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
