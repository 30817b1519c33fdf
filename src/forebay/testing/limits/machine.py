"""Random processes on one limit: they ask, end, crash, are refused and repeat; a judge knows what they were told."""

from __future__ import annotations

import copy
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay.model.limit import Window
from forebay.model.limit_record import Ask, Record
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import clear, define, pause, problems, problems_of_parts, put, resume, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.judge import Judge
from forebay.testing.limits.process import LIMIT, Process

MAX_PROCESSES = 3
ANY = st.integers(0, 99)
CALLERS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([1, 1, 3, 8, 12, 40]), st.sampled_from(["", "", "k"]), st.booleans()),
    max_size=2,
)
ENDINGS = st.lists(
    st.tuples(
        ANY,
        st.sampled_from(["ok", "ok", "unsent", "unreached", "failed", "", "cut_off", "timed_out"]),
        st.integers(-3, 3),
    ),
    max_size=3,
)
STEPS = st.sampled_from([0, 1, 50, 250, 301, 1000, 2301, 5000, 10_301, 15_000, 61_000, -1])
WAITS = st.sampled_from([-1, 0, 500, 3000, 40_000, 900_000])


def limit_machine(
    make_store: Callable[[HandClock], LimitStore], make_clock: Callable[[], HandClock] = HandClock
) -> type[LimitMachine]:
    """A state machine for the limit stores that `make_store` makes, an empty one each time."""
    fields = {"make_store": staticmethod(make_store), "make_clock": staticmethod(make_clock)}
    return type("LimitMachine", (LimitMachine,), fields)


class LimitMachine(RuleBasedStateMachine):
    """A pick is a number that chooses among what there is. `kept` are requests that are still on their way."""

    make_store: Callable[[HandClock], LimitStore]
    make_clock: Callable[[], HandClock]

    def __init__(self) -> None:
        super().__init__()
        self.clock = self.make_clock()
        self.store = self.make_store(self.clock)
        self.judge = Judge(self.clock)
        self.alive: list[Process] = []
        self.started: list[Process] = []
        self.kept: list[Ask] = []
        self.copies: list[Record] = []

    def teardown(self) -> None:
        self.store.close()

    @initialize(stops=st.booleans(), in_flight=st.sampled_from([2, 3, 5, None, {"calls": 4, "pages": 9}, {"pages": 6}]))
    def is_defined(self, in_flight: int | dict[str, int] | None, *, stops: bool) -> None:
        self.clock.move(1)
        define(
            self.store,
            in_flight,
            [(4, 2.0), (20, 10.0, "pages")],
            on_disconnect="stops" if stops else "continues",
            breaker_after=3,
            max_cooldown_s=60.0,
        )
        self.judge.defined(stored(self.store))

    def _process(self, pick: int) -> Process:
        if pick % MAX_PROCESSES >= len(self.alive):
            process = Process(self.store, self.clock, f"p{len(self.started) + 1}")
            self.started.append(process)
            self.alive.append(process)
        return self.alive[pick % MAX_PROCESSES % len(self.alive)]

    def _say(self, process: Process, asked: Ask, *, lost: bool = False) -> None:
        beat = asked["request_number"] == 0
        verb = self.store.exchange if not beat else self.store.give_back if asked["ended_calls"] else self.store.renew
        answer = verb(LIMIT, asked)
        self._tell_what_others_got(process)
        self.judge.applied(process, asked, answer)
        if lost:
            return
        process.takes(asked, answer)
        self.judge.heard(process, stored(self.store), exchanged=not beat)

    def _tell_what_others_got(self, asking: Process) -> None:
        """Now: a wake-up comes when it comes, and the judge would take it for what was granted then."""
        seats = stored(self.store)["sessions"]
        for each in self.started:
            if each is not asking and each.sid in seats:
                self.judge.told(each, seats[each.sid]["unconfirmed"])

    @rule(pick=ANY, callers=CALLERS, endings=ENDINGS, lost=st.sampled_from([False, False, False, True]))
    def asks(
        self, pick: int, callers: list[tuple[int, int, str, bool]], endings: list[tuple[int, str, int]], *, lost: bool
    ) -> None:
        process = self._process(pick)
        for count, pages, key, front in callers:
            process.joins(count, {"pages": pages}, key=key, front=front, in_hand=pick % 4)
        self._end(process, endings)
        self._say(process, process.ask(), lost=lost)

    def _end(self, process: Process, endings: list[tuple[int, str, int]]) -> None:
        for which, outcome, more in endings:
            if process.calls:
                call_id = [*process.calls][which % len(process.calls)]
                pages = self.judge.calls[process.sid, call_id].pages  # what it was granted for
                process.ends([call_id], outcome, {"pages": max(0, pages + more)})

    @rule(pick=ANY, endings=ENDINGS, dies=st.sampled_from([False, False, True]))
    def gives_back_at_once(self, pick: int, endings: list[tuple[int, str, int]], *, dies: bool) -> None:
        """Without a number; who does not die says it once more with the next request."""
        process = self._process(pick)
        self._end(process, endings)
        self._say(process, process.returns(), lost=dies)
        if dies:
            self.alive.remove(process)

    @rule(pick=ANY, endings=ENDINGS)
    def what_is_given_back_comes_late(self, pick: int, endings: list[tuple[int, str, int]]) -> None:
        """After a request that said the same."""
        process = self._process(pick)
        self._end(process, endings)
        returned = process.returns()
        self._say(process, process.ask())
        self.clock.move(1)
        self._say(process, returned, lost=True)

    @rule(
        pages=st.sampled_from([0, 1, 5]),
        step=st.sampled_from([1, 100, 700]),
        rounds=st.sampled_from([5, 20]),
        outcome=st.sampled_from(["ok", "ok", "unsent", "unreached", "failed"]),
    )
    def all_are_busy(self, pages: int, step: int, rounds: int, outcome: str) -> None:
        """More callers than there is room for, in all processes, so that every bound is reached."""
        for at in range(rounds):
            process = self._process(at)
            if len(process.line) < 2:
                process.joins(3, {"pages": pages})
            if at % 4 == 3:
                process.ends([*process.calls][:1], outcome, {"pages": pages})
            self._say(process, process.ask(), lost=at % 7 == 6)
            self.clock.move(step)

    @rule(pages=st.sampled_from([1, 5]))
    def one_takes_all_and_crashes(self, pages: int) -> None:
        """Its calls go on; others ask when its session has ended, and wait."""
        process = self._process(MAX_PROCESSES - 1)
        process.joins(9, {"pages": pages})
        self._say(process, process.ask())
        self.alive.remove(process)
        for _ in range(5):
            self.clock.move(4000)
            for other in self.alive:
                self._say(other, other.ask())

    @rule(pick=ANY, lost=st.booleans())
    def beats(self, pick: int, *, lost: bool) -> None:
        process = self._process(pick)
        self._say(process, process._said(0), lost=lost)  # noqa: SLF001 - a heartbeat whose answer may be lost

    @rule(pick=ANY, which=ANY, keep=st.booleans())
    def gives_up(self, pick: int, which: int, *, keep: bool) -> None:
        process = self._process(pick)
        if process.line:
            run = [*process.line][which % len(process.line)]
            process.leaves(run, 1 if keep else None)

    @rule(pick=ANY, which=ANY)
    def starts_late(self, pick: int, which: int) -> None:
        process = self._process(pick)
        if process.calls:
            process.starts.append([*process.calls][which % len(process.calls)])
            self._say(process, process.ask())

    @rule(pick=ANY, waits=st.lists(WAITS, min_size=1, max_size=3), quota=st.sampled_from([False, False, True]))
    def is_refused(self, pick: int, waits: list[int], *, quota: bool) -> None:
        """Several calls that were on their way, one after the other; and some wait already."""
        process = self._process(pick)
        process.joins(3, {"pages": 1})
        self._say(process, process.ask())
        self.clock.move(1)
        for call_id, wait in zip([*process.calls], waits, strict=False):
            at = process.calls[call_id]
            process.ends([call_id], "failed")
            process.hints.append(
                {"kind": "quota" if quota else "cooldown", "granted_at": at, "wait_ms": wait, "jitter_permille": 0}
            )
            self._say(process, process.ask())
            self.clock.move(600)
            self._say(process, process.ask())

    @rule(pick=ANY)
    def crashes(self, pick: int) -> None:
        if self.alive:
            del self.alive[pick % len(self.alive)]

    @rule(pick=ANY)
    def a_request_is_slow(self, pick: int) -> None:
        self.kept.append(self._process(pick).ask())

    @precondition(lambda self: self.kept)
    @rule(pick=ANY)
    def a_slow_request_arrives_when_newer_ones_have(self, pick: int) -> None:
        asked = self.kept.pop(pick % len(self.kept))
        before = stored(self.store)
        seat = before["sessions"].get(asked["session_id"])
        if seat is not None and seat["request_number"] > asked["request_number"]:
            answer = self.store.exchange(LIMIT, asked)
            self.judge.late(before, stored(self.store), answer)

    @rule(ms=STEPS, beat=st.booleans())
    def time_passes(self, ms: int, *, beat: bool) -> None:
        """So much, or until the first is told to ask again; those who live mostly beat on."""
        waits = [process.waits[0]["ask_again_in_ms"] for process in self.alive if process.waits]
        left = ms if ms >= 0 else min(waits, default=1)
        while left > 0:
            step = min(left, 4000)
            self.clock.move(step)
            left -= step
            for process in self.alive if beat and left > 0 else ():
                self._say(process, process._said(0))  # noqa: SLF001 - a heartbeat

    @rule(pick=ANY, jump=st.sampled_from([3_600_000, -3_600_000, 5000, -5000, -1500]))
    def the_clock_is_set_wrong(self, pick: int, jump: int) -> None:
        """Seen first by one who remembers: what happens otherwise is no promise."""
        known = [process for process in self.alive if process.seen >= 0]
        if known:
            self.clock.jump(jump)
            self.judge.jumped(jump)
            process = known[pick % len(known)]
            self._say(process, process._said(0))  # noqa: SLF001 - a heartbeat

    @rule(
        in_flight=st.sampled_from([None, 0, 1, 2, 4, 8, {"calls": 3, "pages": 8}, {"calls": 5, "pages": 0}]),
        n=st.sampled_from([0, 1, 4, 9]),
    )
    def an_operator_sets_it(self, in_flight: int | dict[str, int] | None, n: int) -> None:
        windows = [Window(n, 2.0), Window(20, 10.0, "pages")]
        put(self.store, "operator", in_flight=in_flight, windows=windows)
        self.judge.defined(stored(self.store))

    @rule(for_ms=st.sampled_from([1000, 20_000]), in_flight=st.sampled_from([0, 1, 9]), other=st.booleans())
    def it_is_overridden(self, for_ms: int, in_flight: int, *, other: bool) -> None:
        fields = {"windows": [Window(3, 5.0)]} if other else {}
        put(self.store, "override", for_ms=for_ms, in_flight=in_flight, **fields)
        self.judge.defined(stored(self.store))

    @rule(layer=st.sampled_from(["operator", "override"]))
    def a_layer_is_cleared(self, layer: str) -> None:
        clear(self.store, layer)
        self.judge.defined(stored(self.store))

    @rule(for_ms=st.sampled_from([None, 1000, 30_000]))
    def a_person_pauses(self, for_ms: int | None) -> None:
        pause(self.store, for_ms)
        self.judge.paused(stored(self.store))

    @rule()
    def a_person_resumes(self) -> None:
        resume(self.store)
        self.judge.resumed()

    @rule()
    def a_copy_is_made(self) -> None:
        self.copies = [stored(self.store)]

    @precondition(lambda self: self.copies)
    @rule(pick=ANY)
    def the_store_is_rolled_back(self, pick: int) -> None:
        """And found out by the first who beats: one who was answered since, and whose session cannot have ended."""
        [old] = self.copies
        known = [process for process in self.alive if process.version > old["version"]]
        if known:
            self.store.change(LIMIT, lambda _, __: copy.deepcopy(old))
            self.copies = []
            self.judge.rolled_back(stored(self.store))
            process = known[pick % len(known)]
            process.joins(3, {"pages": 1})
            self._say(process, process.ask())

    @invariant()
    def nothing_is_wrong(self) -> None:
        record, _ = self.store.read(LIMIT)
        if record is not None:
            assert problems(record) == []
            assert problems_of_parts(self.store) == []
            assert sum(len(log["entries"]) for log in record["window_logs"].values()) <= 3 * 4 * 512
            assert len(record["sessions"]) <= 2 * len(self.started)  # each with the calls that it cut off
