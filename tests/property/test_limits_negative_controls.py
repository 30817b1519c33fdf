"""The checks of limit stores work: each broken one is found out, and the sound one is not."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator

import pytest

from forebay.model.limit_record import Answer, Ask, Era, ProviderRefusal, Record, Terms, WindowLog
from forebay.rules import admission, cooldown, in_hand, limit_actions, limit_state
from forebay.rules import window_log as logs
from forebay.stores.limit_base import Step
from forebay.stores.memory.limits import MemoryLimits
from forebay.testing.limits import LimitStoreSuite
from forebay.testing.limits.case import problems, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.machine import limit_machine
from forebay.testing.limits.placing import fill, owners
from forebay.testing.limits.process import Process
from tests.property.machines import run_until_failure

pytestmark = pytest.mark.slow

EXAMPLES = 600
Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def _narrow(patch: Patch) -> None:
    """Counts a grant for the window alone, as if calls arrived when they are granted."""
    patch.setattr(logs, "width", lambda bound, _: bound["per_ms"])


def _forgets_on_configure(patch: Patch) -> None:
    """Begins with empty logs whenever it is configured."""
    enter = limit_actions._enter

    def forget(record: Record, eras: list[Era], now: int) -> None:
        enter(record, eras, now)
        record["window_logs"] = {}

    patch.setattr(limit_actions, "_enter", forget)


def _releases_by_count(patch: Patch) -> None:
    """Gives a slot back whatever its number is, like a counter."""
    taken = admission._taken
    patch.setattr(
        admission,
        "_taken",
        lambda seat, number: taken(seat, number) or (seat["calls"].pop() if seat["calls"] else None),
    )


def _hands_to_the_silent(patch: Patch) -> None:
    """Goes on giving to a session that has not answered, as if each asked for itself."""

    def serve(record: Record, sid: str, terms: Terms, now: int) -> admission._Served:
        unheard = {name: seat["unconfirmed"] for name, seat in record["sessions"].items()}
        for name in unheard:
            record["sessions"][name]["unconfirmed"] = []
        served = original(record, sid, terms, now)
        for name, grants in unheard.items():
            record["sessions"][name]["unconfirmed"] = grants + record["sessions"][name]["unconfirmed"]
        return served

    original = admission._serve
    patch.setattr(admission, "_serve", serve)


def _shortens(patch: Patch) -> None:
    """The latest hint counts, be it shorter."""
    throttle = cooldown.throttle

    def latest(record: Record, terms: Terms, hint: ProviderRefusal, now: int) -> None:
        if hint["wait_ms"] >= 0:
            record["cooldown"]["ends_at"] = now
        throttle(record, terms, hint, now)

    patch.setattr(cooldown, "throttle", latest)


def _repeats_no_grant(patch: Patch) -> None:
    """Takes a grant for heard as soon as it was answered."""
    decide = admission.decide

    def once(record: Record, ask: Ask, raw: int) -> Answer:
        answer = decide(record, ask, raw)
        if answer["status"] == "ok":
            record["sessions"][ask["session_id"]]["unconfirmed"] = []
        return answer

    patch.setattr(admission, "decide", once)


def _frees_with_the_session(patch: Patch) -> None:
    """Frees what a dead process held when its session ends, though the provider works on."""
    prune = limit_state.prune

    def hasty(record: Record, terms: Terms, now: int, *, most: int | None = None) -> bool:
        hasty_terms = terms.copy()
        hasty_terms["stops_on_disconnect"] = 1
        return prune(record, hasty_terms, now, most=most)

    patch.setattr(limit_state, "prune", hasty)


def _believes_the_clock(patch: Patch) -> None:
    """Takes the store's clock as it is."""

    def logical(record: Record, raw: int, **_: int) -> int:
        record["last_step_at"] = max(raw, record["last_step_at"])
        return record["last_step_at"]

    patch.setattr(limit_state, "logical", logical)


def _notices_no_loss(patch: Patch) -> None:
    """Goes on with an old copy as if it were the record."""
    patch.setattr(admission, "_notice_loss", lambda *_: None)


def _refunds_late(patch: Patch) -> None:
    """Takes units back from whatever is in the log."""

    def take_back(log: WindowLog, granted_at: int, units: int, wide: int) -> None:
        for at in range(1, len(log["entries"]), 2):
            taken = min(units, log["entries"][at])
            log["entries"][at] -= taken
            log["sum"] -= taken
            units -= taken
        log["entries"] = [
            number
            for at in range(0, len(log["entries"]), 2)
            if log["entries"][at + 1]
            for number in log["entries"][at : at + 2]
        ]

    def uncount(record: Record, units: dict[str, int], granted_at: int, _: int) -> None:
        for window in limit_state.counted(record):
            take_back(limit_state.log_of(record, window.name), granted_at, units.get(window.unit, 0), window.wide)

    patch.setattr(limit_state, "uncount", uncount)


def _starves_the_head(patch: Patch) -> None:
    """Lets anybody pass who fits."""
    patch.setattr(admission, "_spares", lambda *_: True)


def _grows_grants(patch: Patch) -> None:
    """Adds to a grant that was answered in the same millisecond."""
    grant = admission._grant

    def grow(record: Record, place: limit_state.Place, terms: Terms, now: int, *, more: bool) -> None:
        out = record["sessions"][place.sid]["unconfirmed"]
        grant(record, place, terms, now, more=more or bool(out and out[-1]["granted_at"] == now))

    patch.setattr(admission, "_grant", grow)


def _takes_all_in_hand(patch: Patch) -> None:
    """Lets a process have slots in hand wherever there is room."""

    def room(record: Record, terms: Terms, *_: object) -> int:
        return max(0, terms["in_flight"] - limit_state.in_flight(record))

    patch.setattr(in_hand, "room", room)


def _loses_a_change(patch: Patch) -> None:
    """Reads, thinks and writes, with nothing between that would notice another."""

    def change(self: MemoryLimits, limit: str, step: Step) -> Record | None:
        before = copy.deepcopy(self._records.get(limit))
        changed = step(copy.deepcopy(before), self._clock())
        if changed is not None:
            if before is not None and len(changed["pause_note"]) % 3 == 1:
                changed = changed | {"pause_note": before["pause_note"]}  # as if another had been faster
            self._records[limit] = changed
        return changed

    patch.setattr(MemoryLimits, "change", change)


BROKEN: list[Break] = [
    _narrow,
    _forgets_on_configure,
    _releases_by_count,
    _hands_to_the_silent,
    _shortens,
    _repeats_no_grant,
    _frees_with_the_session,
    _believes_the_clock,
    _notices_no_loss,
    _refunds_late,
    _starves_the_head,
    _grows_grants,
    _takes_all_in_hand,
    _loses_a_change,
]
BY_MACHINE: list[Break] = [
    _narrow,
    _forgets_on_configure,
    _shortens,
    _repeats_no_grant,
    _frees_with_the_session,
    _believes_the_clock,
    _notices_no_loss,
    _refunds_late,
]


def memory_limits(clock: HandClock) -> MemoryLimits:
    return MemoryLimits(clock=clock)


def _suite() -> Iterator[tuple[str, Callable[..., None]]]:
    """Without those that take parameters: the others are enough."""
    for name, test in inspect.getmembers(LimitStoreSuite, inspect.isfunction):
        if name.startswith("test_") and not hasattr(test, "pytestmark"):
            yield name, test


def _makers(store: MemoryLimits, clock: HandClock) -> dict[str, Callable[[], object]]:
    """Return what makes the fixtures of the suite."""
    a = Process(store, clock, "a")
    return {
        "clock": lambda: clock,
        "store": lambda: store,
        "start": lambda: lambda sid: Process(store, clock, sid),
        "a": lambda: a,
        "b": lambda: Process(store, clock, "b"),
        "own": lambda: owners(store),
        "full": lambda: fill(store, clock, a),
    }


def _failures(*, stop: bool) -> list[str]:
    class Suite(LimitStoreSuite):
        def make_store(self, clock: HandClock) -> MemoryLimits:
            return memory_limits(clock)

    failed = []
    for name, test in _suite():
        clock = HandClock()
        store = memory_limits(clock)
        makers = _makers(store, clock)
        needed = {key: makers[key] for key in inspect.signature(test).parameters if key != "self"}
        try:
            test(Suite(), **{key: make() for key, make in needed.items()})
            assert [problems(stored(store, limit)) for limit in store.names()] == [[] for _ in store.names()]
        except TypeError:
            raise  # what breaks the store does not fit it any more
        except Exception:  # noqa: BLE001 - whatever it is, it was found out
            failed.append(name)
            if stop:
                break
    return failed


@pytest.mark.parametrize("broken", BROKEN)
def test_the_suite_finds_a_broken_store(broken: Break, monkeypatch: Patch) -> None:
    broken(monkeypatch)
    assert _failures(stop=True)


@pytest.mark.parametrize("broken", BY_MACHINE)
def test_the_machine_finds_a_broken_store(broken: Break, monkeypatch: Patch) -> None:
    broken(monkeypatch)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it was found out
        run_until_failure(limit_machine(memory_limits), examples=EXAMPLES)
    assert not isinstance(caught.value, TypeError), "what breaks the store does not fit it any more"


@pytest.mark.slow
def test_a_sound_store_passes_the_same_checks() -> None:
    assert _failures(stop=False) == []
    run_until_failure(limit_machine(memory_limits), examples=10)
