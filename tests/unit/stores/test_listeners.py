from __future__ import annotations

from collections.abc import Callable

from forebay.observe import subscribe
from forebay.stores.listeners import Listeners


def test_all_are_told_until_they_stop() -> None:
    listeners = Listeners()
    heard: list[str] = []
    stop = listeners.add(lambda: heard.append("first"))
    listeners.add(lambda: heard.append("second"))
    listeners.tell()
    stop()
    stop()
    listeners.tell()
    assert heard == ["first", "second", "second"]


def test_the_same_function_may_listen_twice_and_stop_once() -> None:
    listeners = Listeners()
    heard: list[None] = []

    def wake() -> None:
        heard.append(None)

    stop, _ = listeners.add(wake), listeners.add(wake)
    stop()
    listeners.tell()
    assert len(heard) == 1


def test_one_that_stops_while_it_is_told_keeps_nobody_from_hearing() -> None:
    listeners = Listeners()
    heard: list[str] = []
    stops: list[Callable[[], None]] = []

    def leave() -> None:
        stops.pop()()

    stops.append(listeners.add(leave))
    listeners.add(lambda: heard.append("next"))
    listeners.tell()
    listeners.tell()
    assert heard == ["next", "next"]


def test_what_one_raises_is_reported_and_the_others_are_told() -> None:
    listeners = Listeners()
    events: list[str] = []
    heard: list[str] = []

    def fails() -> None:
        raise ValueError("its own affair")

    listeners.add(fails)
    listeners.add(lambda: heard.append("next"))
    stop = subscribe(lambda name, _: events.append(name))
    listeners.tell()
    stop()
    assert heard == ["next"]
    assert events == ["internal_thread_failed"]
