"""Sets up the log of a program: lines for people on a terminal, JSON elsewhere, and no secrets in either."""

from __future__ import annotations

import logging
import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TextIO

from forebay.clock import iso
from forebay.ids import printable
from forebay.observe.redact import hide, mask

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

__all__ = ["bind", "configure", "hide"]

_HANDLER = "forebay"
_OWN = ("timestamp", "level", "logger", "event")
_LONG = ("exception", "stack")


_bound: dict[str, object] = {}


def bind(**fields: object) -> None:
    """Add these fields to every line from now on, such as the name of the worker; None takes one away."""
    for name, value in fields.items():
        _bound.pop(name, None)
        if value is not None:
            _bound[name] = value


def configure(
    level: Literal["debug", "info", "warning", "error"],
    format: Literal["auto", "console", "json"],  # noqa: A002 - as the setting says
    stream: TextIO | None = None,
) -> None:
    """Sends all records of the process to `stream` (stderr); called again, it replaces its former self."""
    stream = sys.stderr if stream is None else stream
    terminal = stream.isatty()
    console = format == "console" or (format == "auto" and terminal)
    handler = logging.StreamHandler(stream)
    handler.set_name(_HANDLER)
    handler.setFormatter(_Lines(console=console, colors=console and terminal and not os.environ.get("NO_COLOR")))
    root = logging.getLogger()
    for former in [each for each in root.handlers if each.get_name() == _HANDLER]:
        root.removeHandler(former)
        former.close()
    root.addHandler(handler)
    chosen = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger("forebay").setLevel(chosen)
    # Below warning, HTTP and cloud libraries log requests and headers, which are not ours to show.
    root.setLevel(max(chosen, logging.WARNING))


class _Lines(logging.Formatter):
    """Made when there is a first record: most programs that end well have none, and it takes long to load."""

    def __init__(self, *, console: bool, colors: bool) -> None:
        super().__init__()
        self._console = console
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        return self._made.format(record)

    @cached_property
    def _made(self) -> logging.Formatter:
        from structlog.dev import ConsoleRenderer, plain_traceback  # noqa: PLC0415 - see above
        from structlog.processors import ExceptionRenderer, JSONRenderer  # noqa: PLC0415 - same
        from structlog.stdlib import ProcessorFormatter  # noqa: PLC0415 - same

        last: list[Processor] = [JSONRenderer()]
        if self._console:
            lines = ConsoleRenderer(
                colors=self._colors, sort_keys=False, repr_native_str=True, exception_formatter=plain_traceback
            )
            last = [_escape, lines]
        return ProcessorFormatter(processors=[_lay_out, ExceptionRenderer(), _redact, *last])


def _lay_out(_logger: WrappedLogger, _method: str, made: EventDict) -> EventDict:
    record: logging.LogRecord = made["_record"]
    laid: EventDict = {
        "timestamp": iso(record.created),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": made["event"],
        **_bound,
    }
    fields = getattr(record, "fields", None)
    if isinstance(fields, dict):
        laid.update((f"{key}_" if key in {*_OWN, *_LONG} else key, value) for key, value in fields.items())
    if "exc_info" in made:
        laid["exc_info"] = made["exc_info"]
    if "stack_info" in made:
        laid["stack"] = made["stack_info"]
    return laid


def _redact(_logger: WrappedLogger, _method: str, made: EventDict) -> EventDict:
    masked = mask(made)
    return masked if isinstance(masked, dict) else {}


def _escape(_logger: WrappedLogger, _method: str, made: EventDict) -> EventDict:
    # Values are shown by their repr; of the rest, too, nothing may look like the beginning of another record.
    escaped = {printable(key): value for key, value in made.items()}
    for key in _OWN:
        escaped[key] = printable(str(escaped[key]))
    for key in _LONG:
        if key in escaped:
            escaped[key] = "\n".join(f"  {printable(line)}" for line in str(escaped[key]).splitlines())
    return escaped
