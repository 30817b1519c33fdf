"""Lanes of one kind in places of their own: none starves the others."""

from __future__ import annotations

from forebay.engine.apart import Apart
from forebay.engine.registry import Kind, Places
from forebay.engine.room import Limits, Room


async def _handler(ctx: object) -> None: ...


KIND = Kind(name="callback", handler=_handler, places=Places(in_all=6, per_lane=2, per_group=4))
OTHER = Kind(name="work", handler=_handler)


def _wants(apart: Apart) -> dict[str | None, int]:
    return {want.lane: want.count for want in apart.wants(30.0)}


def test_each_lane_that_has_work_is_asked_for_up_to_its_places() -> None:
    apart = Apart(KIND, 6, 2, 4)
    assert _wants(apart) == {None: 0}
    assert not apart.has_room
    apart.seen({"callback": ("a", "b")})
    assert (_wants(apart), apart.has_room) == ({None: 0, "a": 2, "b": 2}, True)
    for _ in range(2):
        apart.took("a")
    assert _wants(apart) == {None: 0, "b": 2}


def test_a_lane_that_is_full_gives_no_reason_to_ask_again() -> None:
    apart = Apart(KIND, 6, 2, 4)
    apart.seen({"callback": ("a",)})
    for _ in range(2):
        apart.took("a")
    assert not apart.has_room
    apart.freed("a", 0.1)
    assert apart.has_room


def test_slow_lanes_take_half_of_the_places_one_each() -> None:
    apart = Apart(KIND, 6, 2, 4)
    for lane in ("a", "b", "c", "d"):
        apart.took(lane)
        apart.freed(lane, 30.0)
    apart.seen({"callback": ("a", "b", "c", "d")})
    asked = _wants(apart)
    assert sorted(n for lane, n in asked.items() if lane) == [1, 1, 1]
    for lane in [lane for lane in asked if lane]:
        apart.took(lane)
    apart.seen({"callback": ("a", "b", "c", "d", "quick")})
    assert _wants(apart) == {None: 0, "quick": 2}


def test_a_call_that_is_still_running_makes_its_lane_slow_and_a_quick_one_mends_it() -> None:
    apart = Apart(KIND, 6, 2, 4)
    apart.seen({"callback": ("a",)})
    apart.took("a")
    apart.runs("a", 5.0)
    assert not apart.has_room
    apart.freed("a", 0.1)
    assert _wants(apart) == {None: 0, "a": 2}


def test_lanes_take_turns_where_not_all_find_a_place() -> None:
    apart = Apart(KIND, 8, 2, 4)
    lanes = ("h-1.ann", "h-2.ann", "h-3.ann", "h-4.ann")
    apart.seen({"callback": lanes})
    asked = [tuple(lane for lane in _wants(apart) if lane) for _ in range(4)]
    assert {lane for each in asked for lane in each} == {*lanes}
    assert {len(each) for each in asked} == {2}


def test_lanes_of_a_group_share_its_places_and_take_turns() -> None:
    apart = Apart(KIND, 20, 2, 3)
    lanes = ("h-1.ann", "h-1.bob", "h-1.cid", "h-2.ann")
    apart.seen({"callback": lanes})
    asked = [_wants(apart) for _ in range(8)]
    assert all(sum(n for lane, n in each.items() if lane and lane.startswith("h-1.")) == 3 for each in asked)
    assert all(each["h-2.ann"] == 2 for each in asked)
    assert {lane for each in asked for lane in each if lane} == {*lanes}
    apart.took("h-1.ann")
    apart.runs("h-1.ann", 30.0)
    # One who hangs keeps one of the group's places, not those of the others.
    assert sum(n for lane, n in _wants(apart).items() if lane and lane.startswith("h-1.")) == 2
    assert "h-1.ann" not in _wants(apart)


def _take(apart: Apart, lanes: tuple[str, ...]) -> int:
    """Have these lanes take all places that they may; return how many that were."""
    apart.seen({"callback": lanes})
    taken = 0
    while found := [(lane, n) for lane, n in _wants(apart).items() if lane]:
        for lane, count in found:
            for _ in range(count):
                apart.took(lane)
            taken += count
    return taken


def test_a_tenant_gets_half_of_the_places_and_the_next_one_half_of_the_rest() -> None:
    apart = Apart(KIND, 40, 2, 4)
    hosts = range(30)
    assert _take(apart, tuple(f"h-{host}.ann" for host in hosts)) == 20
    assert _take(apart, tuple(f"h-{host}.{name}" for host in hosts for name in ("ann", "bob"))) == 10
    assert _take(apart, tuple(f"h-{host}.{name}" for host in hosts for name in ("ann", "bob", "cid"))) == 5
    assert _wants(apart) == {None: 0}
    apart.seen({"callback": ("h-99.dan",)})
    assert _wants(apart) == {None: 0, "h-99.dan": 2}


def test_a_tenant_with_slow_receivers_leaves_places_for_its_quick_ones_and_for_slow_ones_of_others() -> None:
    apart = Apart(KIND, 40, 2, 4)
    slow = [f"h-{host}.{name}" for host in range(30) for name in ("ann", "bob")]
    for lane in slow:
        apart.runs(lane, 30.0)
    assert _take(apart, tuple(lane for lane in slow if lane.endswith("ann"))) == 10
    assert _take(apart, tuple(slow)) == 5
    assert _take(apart, (*slow, "h-30.ann")) == 2


def test_tenants_that_hold_less_go_first() -> None:
    apart = Apart(KIND, 6, 2, 4)
    for _ in range(2):
        apart.took("h-1.ann")
    apart.seen({"callback": ("h-2.ann", "h-3.ann", "h-4.bob")})
    assert [next(lane for lane in _wants(apart) if lane) for _ in range(3)] == ["h-4.bob"] * 3


def test_the_others_keep_all_their_room() -> None:
    room = Room([KIND, OTHER], Limits(concurrency=2))
    assert room.seen({"callback": ("a",), "work": ()}) == set()
    assert room.has_some_apart
    for _ in range(2):
        room.took(KIND, "a")
    assert {(want.kind, want.lane): want.count for want in room.wants(set())} == {
        ("work", None): 2,
        ("callback", None): 0,
    }
    room.freed(KIND, 0.1, "a")
    assert room.has_some_apart
