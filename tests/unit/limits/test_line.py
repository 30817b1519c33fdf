"""What a process tells the store of those who wait in it, and whom it serves."""

from collections.abc import Callable, Sequence

from forebay.limits.call import Call
from forebay.limits.line import Line
from forebay.limits.waiting import Waiter
from forebay.model.limit import Limit, Window
from forebay.rules import limit_actions as actions
from forebay.stores.memory.limits import MemoryLimits

CALL = {"calls": 1}


def store_of(in_flight: int) -> MemoryLimits:
    store = MemoryLimits()
    values = actions.values_of(Limit("api", in_flight=in_flight))
    layer = {"name": "code", "values": values, "ends_at": -1, "set_at": 0, "set_by": "", "note": ""}
    store.change("api", lambda record, raw: actions.configured(record, "api", layer, raw))  # type: ignore[arg-type]
    return store


def line_at(store: MemoryLimits, sid: str) -> Line:
    return Line("api", store, sid, "", lambda: None)


def ask(line: Line, now: float = 0.0) -> list[Call]:
    """The calls that were granted in one exchange."""
    request = line.ask(now)
    line.take(request, line.store.exchange("api", request), now, now)
    settled = line.settled
    line.woken(settled)
    return [each.result for each in settled if isinstance(each.result, Call)]


def runs_after(joins: Callable[[Line], None]) -> int:
    line = line_at(store_of(0), "a")
    for _ in range(3):
        joins(line)
        ask(line)
    return len(line.ask(0.0)["runs"])


def test_waiters_keep_their_places_and_wishes_stand_together() -> None:
    assert runs_after(lambda line: line.join(Waiter(), CALL)) == 3
    assert runs_after(lambda line: line.join(Waiter(), CALL, anyhow=True)) == 1


def test_wishes_for_other_units_stand_apart() -> None:
    line = line_at(store_of(0), "a")
    line.join(Waiter(), CALL, anyhow=True)
    line.join(Waiter(), {"calls": 2}, anyhow=True)
    assert len(line.ask(0.0)["runs"]) == 2


def test_a_session_that_wishes_on_and_on_does_not_keep_another_out() -> None:
    store = store_of(4)
    first, second = line_at(store, "first"), line_at(store, "second")
    for _ in range(8):
        first.join(Waiter(), CALL, anyhow=True)
    held = ask(first)
    assert len(held) == 4
    for _ in range(8):
        second.join(Waiter(), CALL, anyhow=True)
    assert not ask(second)
    served = 0
    for _ in range(12):
        first.finish(held.pop(0).id, "ok")
        first.join(Waiter(), CALL, anyhow=True)
        held += ask(first)
        given = ask(second)
        served += len(given)
        for call in given:
            second.finish(call.id, "ok")
            second.join(Waiter(), CALL, anyhow=True)
    assert served >= 4


def test_what_was_given_is_confirmed_later_when_others_could_take_the_next() -> None:
    store = store_of(1)
    mine, other = line_at(store, "mine"), line_at(store, "other")
    for _ in range(3):
        mine.join(Waiter(), CALL)
    held = ask(mine)
    alone = mine.due_at(0.0)
    other.join(Waiter(), CALL)
    assert not ask(other)
    mine.finish(held.pop().id, "ok")
    held += ask(mine)
    beside_others = mine.due_at(0.0)
    assert held, "it stands first"
    assert alone is not None
    assert beside_others is not None
    assert alone < beside_others < 0.02


def test_who_tries_once_has_left_the_line_with_the_first_answer() -> None:
    """The next answer must not settle them again: the slot it brings is for those who still wait."""
    store = store_of(1)
    line = line_at(store, "a")
    (held,) = _granted_to(line, Waiter())
    once, patient = Waiter(once=True), Waiter()
    line.join(once, CALL)
    line.join(patient, CALL)
    assert not ask(line)
    assert once.done
    assert line.due_at(0.0) == 0.0, "the store has to hear of it"
    line.finish(held.id, "ok")
    (second,) = ask(line)
    assert patient.result is second
    assert once.result is None


def _granted_to(line: Line, waiter: Waiter) -> list[Call]:
    line.join(waiter, CALL)
    return ask(line)


def test_a_waiter_may_be_woken_twice() -> None:
    waiter = Waiter()
    waiter.settle(None)
    waiter.wake()
    waiter.wake()
    waiter.wait(0.0)


def test_those_of_other_keys_who_go_later_are_not_ahead() -> None:
    line = line_at(store_of(1), "a")
    _granted_to(line, Waiter())
    for _ in range(8):
        line.join(Waiter(), CALL, key="many")
    alone, second = Waiter(), Waiter()
    line.join(alone, CALL, key="few")
    line.join(second, CALL, key="few")
    ask(line)
    waits = [line.wait_of(each) for each in (alone, second)]
    assert [each["ahead_count"] for each in waits if each] == [1, 3], "keys take turns"


def test_the_time_to_go_is_of_the_same_caller_as_the_place() -> None:
    store = store_of(1)
    store.change("api", lambda record, _: record | {"mean_call_ms": 100} if record else None)
    line = line_at(store, "a")
    _granted_to(line, Waiter())
    waiters = [Waiter() for _ in range(5)]
    for waiter in waiters:
        line.join(waiter, CALL)
    ask(line)
    waits = [line.wait_of(each) for each in waiters]
    assert [(each["ahead_count"], each["eta_ms"]) for each in waits if each] == [(n, 100 * (n + 1)) for n in range(5)]


def granted_line(windows: Sequence[Window] = (), *, store: MemoryLimits | None = None) -> tuple[Line, Call]:
    store = store or MemoryLimits()
    limit = Limit("api", in_flight=4, windows=windows)
    layer = {"name": "code", "values": actions.values_of(limit), "ends_at": -1, "set_at": 0, "set_by": "", "note": ""}
    store.change("api", lambda record, raw: actions.configured(record, "api", layer, raw))  # type: ignore[arg-type]
    line = line_at(store, "a")
    line.join(Waiter(), CALL)
    [call] = ask(line)
    return line, call


def test_a_grant_may_be_used_late_where_no_window_counts_calls() -> None:
    line, call = granted_line()
    assert line.late_s(call) == 2.0
    line, call = granted_line([Window(9, per_s=1)])
    assert line.late_s(call) == 0.25


def test_a_grant_from_before_a_pause_or_a_refusal_must_be_fresh() -> None:
    line, call = granted_line()
    line.refused({"kind": "cooldown", "granted_at": call.at, "wait_ms": -1, "jitter_permille": 0})
    assert line.late_s(call) == 0.25
    store = MemoryLimits()
    line, call = granted_line(store=store)
    assert not ask(line)
    assert line.late_s(call) == 2.0
    store.change("api", lambda record, raw: actions.paused(record, raw, for_ms=None, note="") if record else None)
    assert not ask(line)
    assert line.late_s(call) == 0.25


def test_a_grant_from_before_a_loss_must_be_fresh() -> None:
    store = MemoryLimits()
    line, call = granted_line(store=store)
    store.change("api", lambda record, _: record | {"generation": record["generation"] + 1} if record else None)
    assert line.late_s(call) == 2.0
    ask(line)
    assert line.late_s(call) == 0.25


def test_a_grant_that_an_older_program_made_must_be_fresh() -> None:
    line, _ = granted_line()
    waiter = Waiter()
    line.join(waiter, CALL)
    run = line.ask(0.0)["runs"][0]["id"]
    line.granted([{"number": 2, "run_id": run, "call_count": 1, "first_call_id": 2, "granted_at": 0}], 0.0)
    assert isinstance(waiter.result, Call)
    assert line.late_s(waiter.result) == 0.25


def test_a_grant_is_at_least_as_old_as_the_news_of_it() -> None:
    line, call = granted_line()
    assert line.age_s(call, call.heard_at + 3.0) >= 3.0
