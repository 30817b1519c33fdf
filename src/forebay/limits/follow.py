"""Keeps limits as a settings file and the environment say them, also while that file changes."""

from __future__ import annotations

import os
import socket
import threading
import tomllib
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from forebay.errors import BadInput, StoreClosed, StoreError
from forebay.limits import written
from forebay.observe import emit
from forebay.supervisor import SupervisedThread

if TYPE_CHECKING:
    from forebay.limits.limiter import Limiter

EVERY_S = 2.0
_END_WITHIN_S = 5.0
_LAYER = "file"
_TABLE = "limits"
_ADDRESS = "address"
_REMEDY = "Write tables: [limits.adobe], in_flight = 150, windows = [[190, 60]]."

Values: TypeAlias = dict[str, dict[str, Any]]


class FollowedFile:
    """Writes what the file says into the limiter's layer "file": at once, and whenever the file has changed.

    Without a file it is the one that the settings are read from. Variables FOREBAY_LIMIT_… win over it. While it
    cannot be read, what it said before stays.
    """

    def __init__(
        self,
        limiter: Limiter,
        file: Path | str | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        # Whoever made it for itself shall end its thread by being forgotten.
        self._found = weakref.ref(limiter)
        self._environ = dict(os.environ if environ is None else environ)
        self._file = _usual(self._environ) if file is None else Path(file).absolute()
        self._every_s = every_s
        self._who = f"{socket.gethostname()}:{self._file or 'environment'}"
        self._seen: object = None
        self._done: Values | None = None
        self._complaint = ""
        self._ended = threading.Event()
        self._thread: SupervisedThread | None = None

    @property
    def _limiter(self) -> Limiter:
        limiter = self._found()
        if limiter is None:
            raise StoreClosed("The limiter is gone.", remedy="Keep it as long as its file is followed.")
        return limiter

    def start(self, *, wait: bool = True) -> Self:
        """Look now, and from time to time on a thread of its own; without `wait`, the thread looks first, too."""
        if wait:
            self.look()
        else:
            self._note_known()
        if self._thread is None and not self._settled:
            self._ended.clear()
            self._thread = SupervisedThread("forebay-limits-file", self._run)
            self._thread.start()
        return self

    def close(self) -> None:
        """What was written stays."""
        self._ended.set()
        if self._thread is not None:
            self._thread.stop()
            self._thread.join(_END_WITHIN_S)
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        if self._done is None:
            self.look()
        while not self._settled and not self._ended.wait(self._every_s) and self._found() is not None:
            self.look()

    @property
    def _settled(self) -> bool:
        """Whether nothing can change any more: variables do not."""
        return self._file is None and self._done is not None

    def look(self) -> None:
        """Bring the limits to what the file says now; nothing is done while it is as it was."""
        stamp = self._stamp()
        if stamp == self._seen and self._done is not None:
            return
        try:
            self._apply(self._read())
        except (BadInput, StoreError) as error:
            # Tried again with the next look: the rest of a limit may be defined by then, or the store be back.
            self._complain(str(error))
            return
        self._seen = stamp
        self._complaint = ""

    def _stamp(self) -> object:
        if self._file is None:
            return ()
        try:
            found = self._file.stat()
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _read(self) -> Values:
        self._note_known()
        return self._wanted(self._limiter.names())

    def _wanted(self, known: Iterable[str] = ()) -> Values:
        """What file and variables say. `known`: names of limits that a variable may mean."""
        found = {} if self._file is None else _tables(self._file)
        for name, values in written.from_environment(self._environ, sorted({*found, *known})).items():
            found[name] = found.get(name, {}) | values
        return found

    def _note_known(self) -> None:
        """Before the store is asked, which may not answer: then this process knows the limits all the same."""
        with suppress(BadInput):  # told when it is written
            for name, values in self._wanted().items():
                self._limiter.note(name, _LAYER, values, who=self._who)

    def _apply(self, wanted: Values) -> None:
        before = self._mine() if self._done is None else self._done
        problem: BadInput | None = None
        for name, values in wanted.items():
            if self._done is None or self._done.get(name) != values:
                try:
                    self._limiter.layer(name, _LAYER, values, who=self._who)
                except BadInput as error:
                    problem = problem or BadInput(f"Limit {name!r}: {error.what}", remedy=error.remedy)
        for name in before:
            if name not in wanted:
                self._limiter.clear(name, _LAYER)
        if problem is not None:
            raise problem
        self._done = wanted

    def _mine(self) -> Values:
        """What was written from here before this process began."""
        found: Values = {}
        for name in self._limiter.names():
            for layer in self._limiter.read_layers(name):
                if layer["name"] == _LAYER and layer["set_by"] == self._who:
                    found[name] = layer["values"]
        return found

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            emit("limits_file_bad", file=str(self._file or "environment"), problem=text)


def _usual(environ: Mapping[str, str]) -> Path | None:
    from forebay.settings.places import find_file, here  # noqa: PLC0415 - limits load no settings on their own

    return find_file(environ, here())


def _tables(file: Path) -> Values:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise BadInput(f"{str(file)!r} cannot be read: {reason}.", remedy="Make it a readable file.") from None
    try:
        tables = tomllib.loads(text).get(_TABLE, {})
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{str(file)!r} is not TOML: {error}.", remedy=_REMEDY) from None
    if isinstance(tables, str):
        return {}  # the address of the limit store alone
    if not isinstance(tables, dict):
        raise BadInput(f"limits in {str(file)!r} is no table.", remedy=_REMEDY)
    return {
        name: written.from_table(name, table)
        for name, table in tables.items()
        if not (name == _ADDRESS and isinstance(table, str))
    }
