"""Promises of the store itself: changes are atomic, limits are apart, records are copies, listeners can leave."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from forebay.model.limit_record import Record
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import LimitCase, define, known, put, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process

THREADS = 4
ROUNDS = 25


class StorePromises(LimitCase):
    def test_two_changes_at_once_both_happen(self, store: LimitStore, clock: HandClock) -> None:
        define(store, 5)
        begun = threading.Barrier(THREADS)

        def change_often(thread: int) -> None:
            mine = self.another(store, clock)
            begun.wait()
            for _ in range(ROUNDS):
                mine.change(
                    LIMIT, lambda record, _: known(record) | {"pause_note": known(record)["pause_note"] + str(thread)}
                )

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(change_often, range(THREADS)))
        note = stored(store)["pause_note"]
        assert [note.count(str(thread)) for thread in range(THREADS)] == [ROUNDS] * THREADS

    def test_a_change_and_a_request_at_once_both_happen(self, store: LimitStore, clock: HandClock) -> None:
        define(store, 1000)
        begun = threading.Barrier(2)

        def change_often() -> None:
            mine = self.another(store, clock)
            begun.wait()
            for _ in range(ROUNDS):
                mine.change(LIMIT, lambda record, _: known(record) | {"pause_note": known(record)["pause_note"] + "x"})

        with ThreadPoolExecutor(1) as pool:
            changing = pool.submit(change_often)
            process = Process(self.another(store, clock), clock, "a")
            begun.wait()
            for _ in range(ROUNDS):
                process.wants()
            changing.result()
        record = stored(store)
        assert record["pause_note"] == "x" * ROUNDS
        assert len(record["sessions"]["a"]["calls"]) == len(process.calls) == ROUNDS

    def test_processes_that_ask_at_once_never_get_too_much(self, store: LimitStore, clock: HandClock) -> None:
        define(store, 10, [(12, 60.0)])
        begun = threading.Barrier(THREADS)

        def ask_often(thread: int) -> int:
            process = Process(self.another(store, clock), clock, f"p{thread}")
            begun.wait()
            for _ in range(ROUNDS):
                process.wants()
            process.beats()
            return len(process.calls)

        with ThreadPoolExecutor(THREADS) as pool:
            assert sum(pool.map(ask_often, range(THREADS))) == 10
        assert stored(store)["window_logs"]["calls/60000"]["sum"] == 10

    def test_a_step_that_makes_nothing_changes_nothing(self, store: LimitStore) -> None:
        define(store, 5)
        before = stored(store)
        assert store.change(LIMIT, lambda _, __: None) is None
        assert stored(store) == before
        assert store.change("other", lambda _, __: None) is None
        assert store.names() == [LIMIT]

    def test_a_step_is_told_what_there_is_and_the_time_of_the_store(self, store: LimitStore, clock: HandClock) -> None:
        told: list[tuple[Record | None, int]] = []
        store.change(LIMIT, lambda record, raw: told.append((record, raw)))
        assert told == [(None, clock.shown)]
        define(store, 5)
        clock.move(5)
        store.change(LIMIT, lambda record, raw: told.append((record, raw)))
        assert told[-1] == (stored(store), clock.shown)
        assert store.read(LIMIT)[1] == clock.shown

    def test_a_step_that_fails_changes_nothing(self, store: LimitStore) -> None:
        define(store, 5)
        before = stored(store)

        def spoil(record: Record | None, _: int) -> Record:
            known(record)["sessions"] = {}
            known(record)["version"] = 0
            raise ZeroDivisionError

        try:
            store.change(LIMIT, spoil)
        except ZeroDivisionError:
            assert stored(store) == before
        else:
            raise AssertionError("the error was swallowed")

    def test_what_is_read_is_a_copy(self, store: LimitStore, a: Process) -> None:
        define(store, 5)
        a.wants()
        record = stored(store)
        record["sessions"].clear()
        record["eras"].clear()
        assert list(stored(store)["sessions"]) == ["a"]
        assert len(a.wants()) == 1

    def test_limits_are_apart_and_known_by_name(self, store: LimitStore, clock: HandClock) -> None:
        for name, bound in (("b", 1), ("a", 2), ("a.b", 3)):
            define(store, bound, name=name)
        assert store.names() == ["a", "a.b", "b"]
        assert [len(Process(store, clock, "p", limit=name).wants(9)) for name in ("a", "b", "a.b")] == [2, 1, 3]

    def test_a_second_opening_sees_the_same(self, store: LimitStore, clock: HandClock, a: Process) -> None:
        define(store, 2)
        a.wants()
        elsewhere = Process(self.another(store, clock), clock, "b")
        assert len(elsewhere.wants(5)) == 1
        put(store, "operator", in_flight=3)
        assert len(elsewhere.asks()) == 1

    def test_many_records_are_read_at_once_in_their_order(self, store: LimitStore) -> None:
        names = [f"limit-{number:03}" for number in range(230)]
        for number, name in enumerate(names):
            define(store, number + 1, name=name)
        asked = ["no-such-limit", *reversed(names)]
        found = store.read_many(asked)
        assert found[0][0] is None
        bounds = [known(record)["eras"][0]["terms"]["in_flight"] for record, _ in found[1:]]
        assert bounds == list(range(230, 0, -1))
        assert store.read_many([]) == []

    def test_a_record_comes_back_as_it_was(self, store: LimitStore, clock: HandClock, a: Process, b: Process) -> None:
        define(store, 2, [(5, 60.0), (500, 60.0, "pages")])
        a.wants(3, {"pages": 7}, key="k")
        b.wants(1, front=True)
        clock.move(100)
        a.ends([1], units={"pages": 9})
        a.refused(clock.shown, 5)
        record = stored(store)
        assert record["sessions"]["a"]["calls"][0]["units"] == {"calls": 1, "pages": 7}
        assert record["sessions"]["b"]["runs"][0]["virtual_start"] < 0
        store.change(LIMIT, lambda found, _: found)
        assert stored(store) == record

    def test_a_listener_that_has_left_hears_nothing(self, store: LimitStore, a: Process, b: Process) -> None:
        define(store, 1)
        told: list[str] = []
        store.listen("b", lambda limit, _, __: told.append(limit))()
        held = a.wants()
        b.wants()
        a.gives_back(held)
        b.beats()
        assert len(b.calls) == 1
        assert told == []
