"""How many tasks of which kinds a worker asks for."""

from forebay.engine.registry import Kind
from forebay.engine.room import Limits, Room


async def quick() -> None: ...
def blocks() -> None: ...


ASYNC = Kind(name="quick", handler=quick)
OTHER = Kind(name="other", handler=quick)
BLOCKING = Kind(name="blocks", handler=blocks)


def counts(room: Room, ready: set[str]) -> dict[str, int]:
    return {want.kind: want.count for want in room.wants(ready)}


def test_a_new_worker_asks_for_no_more_than_it_can_run() -> None:
    room = Room([ASYNC, BLOCKING], Limits(concurrency=10, processes=2))
    assert counts(room, set()) == {"quick": 10, "blocks": 2}


def test_kinds_that_have_work_share_the_room_and_others_are_only_looked_at() -> None:
    room = Room([ASYNC, OTHER], Limits(concurrency=10))
    assert counts(room, {"quick"}) == {"quick": 10, "other": 0}
    assert counts(room, {"quick", "other"}) == {"quick": 5, "other": 5}


def test_an_odd_place_goes_round() -> None:
    room = Room([ASYNC, OTHER], Limits(concurrency=1))
    asked = [counts(room, {"quick", "other"}) for _ in range(4)]
    assert [each["quick"] for each in asked].count(1) == 2


def test_quick_tasks_may_wait_in_hand_and_one_slow_task_ends_that() -> None:
    room = Room([ASYNC], Limits(concurrency=4, claims_per_exchange=50))
    for _ in range(200):
        room.took(ASYNC)
        room.freed(ASYNC, 0.0001)
    assert counts(room, {"quick"})["quick"] == 50
    assert not room.blocks
    room.took(ASYNC)
    room.runs(ASYNC, 5.0)
    assert counts(room, {"quick"})["quick"] == 3


def test_slow_tasks_are_never_taken_ahead() -> None:
    room = Room([BLOCKING], Limits(processes=2))
    for _ in range(50):
        room.took(BLOCKING)
        room.freed(BLOCKING, 0.5)
    room.took(BLOCKING)
    assert counts(room, {"blocks"})["blocks"] == 1
    assert room.has_some_for({"blocks"})
    room.took(BLOCKING)
    assert not room.has_some({"blocks"})


def test_a_slow_kind_does_not_slow_down_a_quick_one() -> None:
    room = Room([ASYNC, OTHER], Limits(concurrency=4))
    for _ in range(200):
        room.took(ASYNC)
        room.freed(ASYNC, 0.0001)
    room.took(OTHER)
    room.runs(OTHER, 60.0)
    assert counts(room, {"quick"})["quick"] == 50
    assert counts(room, {"quick", "other"}) in ({"quick": 2, "other": 1}, {"quick": 1, "other": 2})


def test_an_exchange_claims_more_where_more_run_at_once_and_never_more_than_the_setting() -> None:
    assert [Limits(concurrency=each).batch for each in (1, 10, 50, 250)] == [50, 50, 100, 250]
    assert [Limits(concurrency=each, claims_per_exchange=20).batch for each in (1, 250)] == [20, 20]
    room = Room([ASYNC], Limits(concurrency=100))
    assert counts(room, {"quick"})["quick"] >= 100
