"""A session in another process hears at once of what it was given, and sockets of the dead are cleared away."""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.errors import BadName
from forebay.model.limit_record import Grant
from forebay.observe import subscribe
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.process import LIMIT
from tests.faults import children, limit_children
from tests.faults.limit_children import define, process
from tests.limits.ground import until

LONG = Path(*(letter * 90 for letter in "xyz"))
WAITS = """
me = process(store, "other")
woken = queue.SimpleQueue()
store.listen("other", lambda limit, grants, now: woken.put((time.monotonic(), limit, grants)))
tell("ready")
while True:
    me.joins()
    if not me.exchanges()["grants"]:
        tell("waits")
        at, limit, grants = woken.get()
        me.hears(grants)
        tell([at, limit, len(grants), len(me.calls)])
    me.gives_back([*me.calls])
"""


@pytest.fixture(params=[Path(), LONG], ids=["short", "long"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Also one that is longer than a socket's address may be."""
    folder: Path = tmp_path / request.param
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "limits.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteLimits]:
    with SqliteLimits(path) as store:
        define(store, 1)
        yield store


def sockets(path: Path) -> list[str]:
    return sorted(each.name for each in path.with_name("limits.db-wake").iterdir())


class Heard:
    """What a session was told."""

    def __init__(self) -> None:
        self.grants: list[Grant] = []
        self.woken = threading.Event()

    def __call__(self, limit: str, grants: list[Grant], now: int) -> None:
        self.grants += grants
        self.woken.set()


def hand_over(store: SqliteLimits, sid: str, told: Callable[[float], bool]) -> bool:
    """Whether the session hears that it was given the slot which another one gave back."""
    first, second = process(store, "first"), process(store, sid)
    (call,) = first.wants()
    assert second.wants() == []
    first.gives_back([call])
    heard = told(2.0)
    second.gives_back(second.asks())
    return heard


def test_a_session_in_another_process_is_given_a_slot_in_a_few_milliseconds(path: Path, store: SqliteLimits) -> None:
    me = process(store, "me")
    (call,) = me.wants()
    child = limit_children.start(WAITS, path)
    delays = []
    try:
        assert children.told(child) == "ready"
        for _ in range(11):
            assert children.told(child) == "waits"
            me.gives_back([call])
            given_at = time.monotonic()
            heard_at, limit, grants, calls = children.told(child)
            delays.append(heard_at - given_at)
            assert (limit, grants, calls) == (LIMIT, 1, 1)
            me.joins()
            while not me.calls:
                me.exchanges()
            (call,) = me.calls
        assert statistics.median(delays) < 0.05
    finally:
        children.end(child)


def test_the_socket_of_a_killed_session_is_cleared_away(path: Path, store: SqliteLimits) -> None:
    me = process(store, "me")
    (call,) = me.wants()
    child = limit_children.start(WAITS, path)
    assert children.told(child) == "ready"
    assert children.told(child) == "waits"
    children.end(child)
    assert sockets(path) == ["other"]
    me.gives_back([call])
    assert sockets(path) == []


def test_a_session_that_stops_or_closes_takes_its_socket_along(path: Path, store: SqliteLimits) -> None:
    stop = store.listen("one", Heard())
    store.listen("two", Heard())
    assert sockets(path) == ["one", "two"]
    stop()
    stop()
    assert sockets(path) == ["two"]
    store.close()
    assert sockets(path) == []


def test_of_two_that_listen_for_a_session_the_later_one_hears(store: SqliteLimits) -> None:
    early, late = Heard(), Heard()
    stop_early = store.listen("me", early)
    store.listen("me", late)
    stop_early()
    assert hand_over(store, "me", late.woken.wait)
    assert early.grants == []


def test_a_listener_that_fails_is_woken_again(store: SqliteLimits) -> None:
    heard = Heard()
    events: list[str] = []

    def fails(limit: str, grants: list[Grant], now: int) -> None:
        heard(limit, grants, now)
        raise ValueError("sorry")

    store.listen("me", fails)
    first, me = process(store, "first"), process(store, "me")
    stop = subscribe(lambda name, _: events.append(name))
    for _ in range(2):
        heard.woken.clear()
        held = first.wants()
        assert me.wants() == []
        first.gives_back(held)
        assert heard.woken.wait(30)
        me.gives_back(me.asks())
    until(lambda: events.count("internal_thread_failed") == 2, 30)
    stop()


def test_more_grants_than_a_message_holds_are_to_be_asked_for(path: Path) -> None:
    with SqliteLimits(path) as store:
        define(store, 100, name="wide")
        heard = Heard()
        store.listen("me", heard)
        first, second = process(store, "first"), process(store, "me")
        first.limit = second.limit = "wide"
        held = first.wants(100)
        for _ in range(100):
            second.joins(1)
        assert second.asks() == []
        first.gives_back(held)
        assert heard.woken.wait(30)
        assert heard.grants == []
        assert len(second.asks()) == 100


def test_a_folder_that_takes_no_sockets_costs_only_the_wake_ups(path: Path, store: SqliteLimits) -> None:
    path.with_name("limits.db-wake").write_text("in the way")
    heard = Heard()
    store.listen("me", heard)
    assert not hand_over(store, "me", lambda _: heard.woken.wait(0.05))


def test_sessions_hear_again_after_somebody_removed_file_and_folder(path: Path, store: SqliteLimits) -> None:
    heard = Heard()
    store.listen("me", heard)
    shutil.rmtree(path.parent)
    define(store, 1)
    assert hand_over(store, "me", heard.woken.wait)


def test_a_session_whose_name_could_climb_is_refused(store: SqliteLimits) -> None:
    with pytest.raises(BadName):
        store.listen("../me", Heard())
    with pytest.raises(BadName):
        process(store, "../me").wants()
