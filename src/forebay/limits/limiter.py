"""The limiter that programs use: takes slots, defines and changes limits, tells how they stand."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict, Unpack

from forebay import ids
from forebay.errors import BadInput, Busy, NotFound, StoreClosed, StoreError
from forebay.ids import shown
from forebay.limits.asking import KEEP_S, Asking, Claim, Wait, claim, leave
from forebay.limits.decorating import F, decorator
from forebay.limits.desk import Desk
from forebay.limits.line import Progress
from forebay.limits.pump import Pump
from forebay.limits.slot import Slot
from forebay.limits.usage import Usage, usage_of
from forebay.limits.waiting import refuse_reentry
from forebay.model.limit import Limit, check_seconds, check_units
from forebay.model.limit_record import Layer, Record, Terms
from forebay.model.names import check_label, check_name
from forebay.observe import emit
from forebay.rules import limit_actions as actions
from forebay.rules.foresight import Outlook
from forebay.stores.limit_address import open_limits
from forebay.stores.limit_base import LimitStore, RedisClient

if TYPE_CHECKING:
    import asyncio

    from typing_extensions import TypeIs

    from forebay.limits.follow import FollowedFile
    from forebay.limits.lent import Lender
    from forebay.limits.standing import Stand

DEFAULT_WAIT_S = 30.0
FLUSH_S = 5.0
_MAX_WAIT_S = 86_400.0 * 366
_MOST_DESKS = 1000  # that are kept though nobody uses them
_MAX_WHO = 200
_SAID_BY_PROGRAMS = {"preset", "code", "file"}
_alive: weakref.WeakSet[Limiter] = weakref.WeakSet()


class SlotOptions(TypedDict, total=False):
    """Those of `slot`."""

    units: dict[str, int] | None
    timeout_s: float
    key: str
    label: str
    enforce_timeout: bool


class Said(NamedTuple):
    """What one source says of a limit, and which source it is."""

    values: dict[str, object]
    who: str


class Limiter:
    """Usable from threads and event loops at once, and after a fork. Nothing is opened before first use.

    The address chooses the store: memory://, sqlite:///file.db, redis://host/0. Without one, the limiter uses what the
    command line uses: the store, the environment and the limits of the settings (FOREBAY_…, forebay.toml). A Redis
    client in place of an address names its server: the limiter opens connections of its own from the client's settings.
    """

    def __init__(
        self, address: str | LimitStore | RedisClient | None = None, *, environment: str | None = None
    ) -> None:
        self._follows = address is None
        if address is None:
            from forebay.settings import load  # noqa: PLC0415 - limits load no settings on their own

            settings = load()
            settings.report_ignored()
            address, environment = settings.limits, environment or settings.env
        self._environment = check_name("environment", environment or os.environ.get("FOREBAY_ENV") or "dev")
        self._store = address if _is_store(address) else open_limits(address, self._environment, tags=_tags)
        self._defined: dict[str, dict[str, Said]] = {}
        self._unwritten: set[str] = set()
        self._lock = threading.RLock()
        self._closed = False
        self._renew()
        _alive.add(self)

    def _renew(self) -> None:
        """A session of its own for this process."""
        self._sid = ids.random_id()
        self._label = f"{socket.gethostname()}:{os.getpid()}"
        self._pump = Pump(weakref.WeakMethod(self._redefine))
        # Threads know the pump, not us: they end when nobody has us any more.
        self._end = weakref.finalize(self, _abandon, self._pump, self._store)
        self._end.atexit = False
        self._desks: dict[str, Desk] = {}
        self._progress: dict[str, Progress] = {}
        self._stop_listening: Callable[[], None] | None = None
        self._following = threading.RLock()
        self._followed: FollowedFile | None = None

    def _follow(self) -> None:
        """At first use: the limits of the settings' file and variables, if no address was given."""
        if not self._follows or self._followed is not None:
            return
        with self._following:  # whoever comes meanwhile waits; what it calls of ours comes here again
            if self._followed is None:
                from forebay.limits.follow import FollowedFile  # noqa: PLC0415 - only if nobody chose a store

                self._followed = FollowedFile(self)
                self._followed.start(wait=not _in_loop())

    def after_fork(self) -> None:
        self._end.detach()
        self._lock = threading.RLock()
        self._renew()

    def define(self, limit: Limit) -> None:
        """What the code says of a limit; an operator's changes stand above it and are never overwritten."""
        if not isinstance(limit, Limit):
            raise BadInput(f"{shown(limit)} is no limit.", remedy="Give Limit(name, in_flight=…, windows=[…]).")
        self.layer(limit.name, "code", actions.values_of(limit), who=program())

    def preset(self, name: str, as_: str | None = None) -> Limit:
        """Define a limit by one of the presets that come with Forebay; its numbers are yours to confirm."""
        from forebay.limits.presets import preset  # noqa: PLC0415 - reads a file

        limit = preset(name).limit(as_)
        self.layer(limit.name, "preset", actions.values_of(limit), who=program())
        return limit

    def layer(self, name: str, layer: str, values: dict[str, Any], *, who: str = "") -> None:
        """What one source says of a limit, in full; said again if the store forgets it.

        If the store cannot be reached, a limit that shares it by `share_processes` is defined for this process, and
        in the store as soon as that answers; any other raises the store's error.
        """
        self._follow()
        before = self._defined.get(name, {})
        checked = actions.checked(values)
        self.note(name, layer, checked, who=who)
        try:
            self._write(layer, name, checked, who=who)
        except BadInput:
            self._defined[name] = before
            raise
        except StoreError as error:
            self._unwritten.add(name)
            known = self._known_terms(name)
            if (
                isinstance(error, StoreClosed)
                or known is None
                or known["when_store_down"] != "share"
                or not known["share_processes"]
            ):
                raise
            emit("store_failed", verb="define", error_code=error.code, text=str(error), pause_s=0)

    def note(self, name: str, layer: str, values: dict[str, Any], *, who: str = "") -> None:
        """Remember what one source says of a limit, for a store that does not know it or does not answer."""
        self._defined[name] = self._defined.get(name, {}) | {layer: Said(actions.checked(values), who)}

    def _known_terms(self, name: str) -> Terms | None:
        """What this process itself says of a limit, if that is enough to define it."""
        layers: list[Layer] = [
            {"name": layer, "values": said.values, "ends_at": -1, "set_at": 0, "set_by": said.who, "note": ""}
            for layer, said in self._said_of(name)
        ]
        try:
            return actions.terms_of(actions.limit_of(name, layers, 0))
        except BadInput:
            return None

    def _redefine(self, desk: Desk) -> bool:
        """The store does not know the limit: it may have forgotten what we know."""
        known = self._said_of(desk.limit)
        for layer, said in known:
            self._write(layer, desk.limit, said.values, version=desk.main.progress.version, who=said.who)
        return bool(known)

    def _said_of(self, name: str) -> list[tuple[str, Said]]:
        """By layer, from the lowest, which says all of a limit, to those that say a part."""
        said = self._defined.get(name, {})
        return [(layer, said[layer]) for layer in actions.LAYERS if layer in said]

    def _write_late(self, name: str) -> None:
        """The store answers again: tell it what it could not be told before."""
        if name in self._unwritten:
            self._unwritten.discard(name)
            for layer, said in self._said_of(name):
                try:
                    self._write(layer, name, said.values, who=said.who)
                except (BadInput, StoreError) as error:
                    self._unwritten.add(name)
                    emit("store_failed", verb="define", error_code=error.code, text=str(error), pause_s=0)

    def configure(
        self,
        name: str,
        *,
        for_s: float | None = None,
        note: str = "",
        who: str = "",
        layer: str | None = None,
        **values: object,
    ) -> None:
        """Change some of a limit for every process, at once; with `for_s`, for that long.

        What an operator changed before stays, unless it is changed again; a new override replaces the old one.
        """
        if for_s is not None:
            check_seconds("for_s", for_s, least=0.001, most=_MAX_WAIT_S)
        if note:
            check_label("note", note)
        if not values:
            raise BadInput("Nothing was given to change.", remedy="Give in_flight=…, windows=[…] or another field.")
        chosen = _checked_layer(layer or ("operator" if for_s is None else "override"))
        self._write(chosen, name, actions.checked(values), for_s=for_s, note=note, who=who)

    def _write(
        self,
        layer: str,
        name: str,
        values: dict[str, object],
        *,
        for_s: float | None = None,
        note: str = "",
        who: str = "",
        version: int = 0,
    ) -> None:
        check_name("limit", name)
        self._follow()

        former: Layer | None = None

        def step(record: Record | None, raw: int) -> Record | None:
            nonlocal former
            former = next((each for each in record["layers"] if each["name"] == layer), None) if record else None
            now = raw + record["clock_offset_ms"] if record else raw
            until = -1 if for_s is None else now + int(for_s * 1000)
            kept = actions.values_in(record, layer) if layer == "operator" and record else {}
            new: Layer = {
                "name": layer,
                "values": kept | values,
                "ends_at": until,
                "set_at": now,
                "set_by": who,
                "note": note,
            }
            return actions.configured(record, name, new, raw, version=version)

        if layer in _SAID_BY_PROGRAMS and for_s is None and not version and step(*self._store.find(name, "")) is None:
            changed = None  # every process says the same at its start: to find that out costs no more than a request
        else:
            changed = self._store.change(name, step)
        if changed is not None and former is not None and layer in _SAID_BY_PROGRAMS and former["set_by"] != who:
            _tell_redefined(name, layer, former, values, who)
        self._ask_again(name)

    def clear(self, name: str, layer: str = "override") -> bool:
        """Drop a layer of a limit's configuration; False when there was none."""
        _checked_layer(layer)
        there = self._changed(name, lambda record, raw: actions.cleared(record, name, layer, raw)) is not None
        self._defined.get(name, {}).pop(layer, None)
        return there

    def pause(self, name: str, *, for_s: float | None = None, note: str = "", who: str = "") -> None:
        """Grant nothing more, for so long or until it is resumed; what runs goes on."""
        if for_s is not None:
            check_seconds("for_s", for_s, least=0.001, most=_MAX_WAIT_S)
        if note:
            check_label("note", note)
        for_ms = None if for_s is None else int(for_s * 1000)
        self._changed(name, lambda record, raw: actions.paused(record, raw, for_ms=for_ms, note=note, who=who))

    def resume(self, name: str) -> None:
        """End a pause, a cool-down or a park, and grant at once."""
        self._changed(name, actions.resumed)

    def reset(self, name: str, *, everything: bool = False) -> int:
        """Drop what ended sessions hold, or all of it and the usage too; how many calls were forgotten."""
        count = 0

        def step(record: Record, raw: int) -> Record:
            nonlocal count
            changed, count = actions.forgotten(record, raw, everything=everything)
            return changed

        self._changed(name, step)
        return count

    def _changed(self, name: str, step: Callable[[Record, int], Record | None]) -> Record | None:
        check_name("limit", name)
        self._follow()
        missing = False

        def found(record: Record | None, raw: int) -> Record | None:
            nonlocal missing
            missing = record is None
            return None if record is None else step(record, raw)

        changed = self._store.change(name, found)
        if missing:
            raise self._no_such(name)  # not in the step: it asks the store for names
        self._ask_again(name)
        return changed

    def _no_such(self, name: str) -> NotFound:
        known = ", ".join(self._store.names()) or "none"
        return NotFound(f"There is no limit {name!r}.", remedy=f"Known limits: {known}.")

    def _ask_again(self, name: str) -> None:
        """Those of this process who wait need not wait for their turn to ask; others hear of it when they ask."""
        desk = self._desks.get(name)
        if desk is not None:
            with desk.main.lock:
                desk.main.again()
            self._pump.poke(desk)

    def names(self) -> list[str]:
        self._follow()
        return self._store.names()

    def outlook(self, name: str) -> Outlook:
        """A limit as it is now, to be asked when those could start who wait elsewhere, such as in a ledger."""
        return Outlook.of(name, *self._read(name))

    def _read(self, name: str) -> tuple[Record, int]:
        self._follow()
        record, raw = self._store.read(check_name("limit", name))
        if record is None or not record["eras"]:
            raise self._no_such(name)
        return record, raw

    def usage(self, name: str) -> Usage:
        """How a limit stands, and who holds and waits for it."""
        return self._usage_of(name, *self._read(name))

    def _usage_of(self, name: str, record: Record, raw: int) -> Usage:
        desk = self._desks.get(name)
        return usage_of(name, record, raw, degraded=desk is not None and desk.degraded)

    def usages(self, *, most: int | None = None) -> list[Usage]:
        """Return how all limits stand, or the first ones by name, in few round trips."""
        names = self._store.names()[:most]
        return [
            self._usage_of(name, record, raw)
            for name, (record, raw) in zip(names, self._store.read_many(names), strict=True)
            if record is not None and record["eras"]
        ]

    def read_layers(self, name: str) -> list[Layer]:
        """Return what all sources say of a limit; nothing where there is no such limit."""
        self._follow()
        record, _ = self._store.find(check_name("limit", name), "")
        return record["layers"] if record is not None else []

    async def ausage(self, name: str) -> Usage:
        import asyncio  # noqa: PLC0415 - whoever awaits has loaded it

        return await asyncio.to_thread(self.usage, name)

    def slot(
        self,
        name: str,
        *,
        units: dict[str, int] | None = None,
        timeout_s: float = DEFAULT_WAIT_S,
        key: str = "",
        label: str = "",
        enforce_timeout: bool = False,
    ) -> Slot:
        """For `with` and `async with`. Raises `Busy` when there is none in time; `timeout_s=0` tries once.

        `key` names whose call it is, where several share the limit fairly; `label` is shown to those who look.
        `enforce_timeout` ends the block of an `async with` by `TimeoutError` after the limit's `call_timeout_s`.
        """
        check_seconds("timeout_s", timeout_s, most=_MAX_WAIT_S)
        checked = _checked_slot(units, key, label)
        desk = self._desk(name)
        return Slot(
            desk,
            self._pump,
            keeper=self,
            units=checked,
            timeout_s=timeout_s,
            key=key,
            label=label,
            enforce_timeout=enforce_timeout,
        )

    def try_slot(
        self, name: str, *, units: dict[str, int] | None = None, key: str = "", label: str = ""
    ) -> Slot | None:
        """A slot that is held already, or None; give it back with `release()` or by `with`."""
        slot = self.slot(name, units=units, timeout_s=0, key=key, label=label)
        try:
            return slot.take()
        except Busy:
            return None

    def ask(
        self,
        name: str,
        *,
        place: str,
        units: dict[str, int] | None = None,
        keep_s: float = KEEP_S,
        key: str = "",
        label: str = "",
        holder: str = "",
    ) -> Slot | Wait:
        """A slot that is held already, or a `Wait` that says when to ask again; for callers that do not stay.

        Never waits for a slot. `place` is what you call your place in line: it is kept for `keep_s` after you last
        asked. Whoever gets the slot holds it alone: others who ask for the same place get `PlaceHeld`, unless they
        have the same `holder`, which is random if you give none. Give the slot back with `release()` or by `with`.
        """
        return self._asking(name, claim(place, keep_s=keep_s, holder=holder), units, key=key, label=label).ask()

    async def aask(
        self,
        name: str,
        *,
        place: str,
        units: dict[str, int] | None = None,
        keep_s: float = KEEP_S,
        key: str = "",
        label: str = "",
        holder: str = "",
    ) -> Slot | Wait:
        asked = claim(place, keep_s=keep_s, holder=holder)
        return await self._asking(name, asked, units, key=key, label=label).aask()

    def leave(self, name: str, *, place: str) -> bool:
        """Give up a place that was kept. False if somebody holds its slot, which stays held."""
        self._desk(name)  # checks the name, and knows the limits of the settings
        return leave(self._store, name, claim(place), self._label)["status"] == "ok"

    def _asking(self, name: str, asked: Claim, units: dict[str, int] | None, *, key: str, label: str) -> Asking:
        checked = _checked_slot(units, key, label)
        main = self._desk(name)
        desk = self._made_desk(name, asked.session, Progress())
        desk.main.claim = asked
        self._pump.add(desk, f"{name}/{asked.session}/{asked.holder}")
        slot = Slot(desk, self._pump, keeper=(self, main), units=checked, timeout_s=0, key=key, label=label)
        return Asking(desk, self._pump, slot, asked, lambda: leave(self._store, name, asked, self._label))

    @property
    def lender(self) -> Lender:
        """For slots that callers elsewhere hold, by way of this process or of another."""
        from forebay.limits.lent import Lender  # noqa: PLC0415 - servers alone need it

        return Lender(self._store)

    def stand(self, name: str, *, loop: asyncio.AbstractEventLoop, label: str = "") -> Stand:
        """A place in line for those who decide later, in their loop, what to do with the slot."""
        from forebay.limits.standing import Stand  # noqa: PLC0415 - loads asyncio

        return Stand(self._desk(name), self._pump, keeper=self, loop=loop, label=label)

    def limited(self, name: str, **options: Unpack[SlotOptions]) -> Callable[[F], F]:
        """Make every call of a function, async or not, wait for its slot."""
        return decorator(lambda: self.slot(name, **options))

    def _desk(self, name: str) -> Desk:
        if self._closed:
            raise StoreClosed("The limiter was closed.", remedy="Make another one.")
        desk = self._desks.get(name)
        if desk is None:
            check_name("limit", name)
            refuse_reentry(self._lock)
            self._follow()
            with self._lock:
                desk = self._desks.get(name) or self._pump.find(name) or self._new_desk(name)
                self._desks[name] = desk
                while len(self._desks) > _MOST_DESKS:
                    # Whoever still uses it has it, and finds it again; what its session must know stays.
                    del self._desks[next(iter(self._desks))]
        return desk

    def _new_desk(self, name: str) -> Desk:
        if self._stop_listening is None:
            self._stop_listening = self._store.listen(self._sid, self._pump.heard)
            _flush_in_children(self)
        progress = self._progress.setdefault(name, Progress())
        desk = self._made_desk(name, self._sid, progress)
        self._pump.add(desk)
        return desk

    def _made_desk(self, name: str, sid: str, progress: Progress) -> Desk:
        # The pump's threads know the desks, and must not keep the limiter itself.
        me = weakref.ref(self)

        def known() -> Terms | None:
            limiter = me()
            return None if limiter is None else limiter._known_terms(name)  # noqa: SLF001 - ours

        def healed() -> None:
            limiter = me()
            if limiter is not None:
                limiter._write_late(name)  # noqa: SLF001 - ours

        return Desk(name, self._store, sid, self._label, self._pump.poke, known, healed, progress)

    def flush(self, timeout_s: float = FLUSH_S) -> None:
        """Wait until the store knows everything that this process has given back.

        Raises the store's own error, or `StoreUnreachable`, when it does not within `timeout_s`.
        """
        self._pump.flush(check_seconds("timeout_s", timeout_s))

    async def aflush(self, timeout_s: float = FLUSH_S) -> None:
        import asyncio  # noqa: PLC0415 - whoever awaits has loaded it

        await asyncio.to_thread(self.flush, timeout_s)

    def close(self) -> None:
        """Tell the store what was given back, and end the threads."""
        self._closed = True
        if self._followed is not None:
            self._followed.close()
        self._end.detach()
        self._pump.close()
        if self._stop_listening is not None:
            self._stop_listening()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked_slot(units: dict[str, int] | None, key: str, label: str) -> dict[str, int]:
    checked = check_units(units)
    if key:
        check_label("key", key)
    if label:
        check_label("label", label)
    return checked


def _is_store(source: str | LimitStore | RedisClient) -> TypeIs[LimitStore]:
    return hasattr(source, "exchange")


def _abandon(pump: Pump, store: LimitStore) -> None:
    pump.stop()
    store.close()


def _flush_in_children(limiter: Limiter) -> None:
    """Processes of multiprocessing end without the functions of atexit."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        here = weakref.ref(limiter)
        util.Finalize(None, lambda: _close(here()), exitpriority=10)


def _close(limiter: Limiter | None) -> None:
    if limiter is not None:
        limiter.close()


def program() -> str:
    """Which program this is, on which machine: whom a definition comes from."""
    started = Path(sys.argv[0] if sys.argv else "").name
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return f"{socket.gethostname()}:{(main.name if main else started) or 'python'}"[:_MAX_WHO]


def _tell_redefined(name: str, layer: str, former: Layer, values: dict[str, object], who: str) -> None:
    fields = sorted({*former["values"], *values})
    changed = {each: former["values"].get(each) for each in fields if former["values"].get(each) != values.get(each)}
    if changed:
        now = {each: values.get(each) for each in changed}
        emit(
            "limit_redefined", limit=name, layer=layer, who=who, values=now, former_who=former["set_by"], former=changed
        )


def _in_loop() -> bool:
    """Whether this thread runs an event loop, which must not wait for a store."""
    # A program that has not loaded asyncio, which takes longer than all of ours, has no loops.
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return running is not None and running() is not None


def _tags(environment: str) -> dict[str, str]:
    from forebay.limits.presets import redis_tags  # noqa: PLC0415 - reads a file

    return redis_tags(environment)


def _checked_layer(layer: str) -> str:
    if layer not in actions.LAYERS:
        raise BadInput(f"{shown(layer)} is no layer.", remedy=f"Layers are: {', '.join(actions.LAYERS)}.")
    return layer


def _after_fork_in_child() -> None:
    for limiter in list(_alive):
        limiter.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _flush() -> None:
    """What was given back at the end of a program shall not wait for its session to end."""
    for limiter in list(_alive):
        with suppress(Exception):
            limiter.close()


atexit.register(_flush)
