"""Random steps of several sessions on a ledger and on its model: settles, replays, late writes, people, time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from forebay.clock import Clock
from forebay.model.callback import Callback
from forebay.model.exchange import Hold, Release, Want
from forebay.model.job import NewJob
from forebay.model.task import NewTask, Status
from forebay.stores.base import Ledger
from forebay.testing.endings import ENDINGS, MOSTLY_DONE
from forebay.testing.ground import KINDS, LANES, MISSING, Ground
from forebay.testing.workers import blob, callback, job_of, lone, split_job

MAX_TASKS = 40
ANY = st.integers(0, 99)
TIMES = st.sampled_from([1, 1, 2])
PICKS = st.lists(ANY, min_size=1, max_size=2)
ENDED = [Status.COMPLETED, Status.FAILED, Status.CANCELED]
DELAYS = st.sampled_from([0.0, 0.0, 5.0, 60.0])


def ledger_machine(
    make_ledger: Callable[[Clock], Ledger], reopen: Callable[[Ledger, Clock], Ledger] | None = None
) -> type[LedgerMachine]:
    """A state machine for the ledgers that `make_ledger` makes; `reopen` opens the data of one again."""
    fields = {"make_ledger": staticmethod(make_ledger), "reopen": staticmethod(reopen or (lambda ledger, _: ledger))}
    return type("LedgerMachine", (LedgerMachine,), fields)


class LedgerMachine(Ground):
    """Each step is taken on both, may be taken again later as if its reply had been lost, and is then judged."""

    @initialize(lease_s=st.sampled_from([15.0, 100_000.0]))
    def begins_with_a_session_and_some_work(self, lease_s: float) -> None:
        self.workers.append(self._open(lease_s))
        work: list[NewTask | NewJob] = [lone(0, id=self._new_id()), job_of(2, id=self._new_id())]
        self._call(partial(self.pair.submit, work))

    @precondition(lambda self: len(self.pair.model.tasks) < MAX_TASKS)
    @rule(
        size=st.integers(1, 3),
        idempotency_key=st.sampled_from([None, "a", "b"]),
        priority=st.sampled_from([0, 0, 5]),
        delay_s=DELAYS,
        limit=st.sampled_from([None, "adobe"]),
        max_retries=st.integers(0, 2),
    )
    def submits_tasks(self, size: int, **options: object) -> None:
        keyed = options["idempotency_key"] is not None
        new_ids = ["" if keyed else self._new_id() for _ in range(size)]
        batch = [lone(options["priority"], kind="work", max_reschedules=2, id=new, **options) for new in new_ids]
        self._call(partial(self.pair.submit, batch))

    @precondition(lambda self: len(self.pair.model.tasks) < MAX_TASKS)
    @rule(
        chunks=st.sampled_from([1, 1, 2, 2, 3, 0]),
        key=st.sampled_from([None, "a", "b"]),
        merge=st.sampled_from([True, True, False]),
        allow_holes=st.booleans(),
        max_retries=st.integers(0, 2),
        told=st.sampled_from([None, callback(), callback(each=True)]),
    )
    def submits_a_job(
        self,
        chunks: int,
        key: str | None,
        max_retries: int,
        told: Callback | None,
        *,
        merge: bool,
        allow_holes: bool,
    ) -> None:
        named = {"idempotency_key": key, "id": self._new_id() if key is None else "", "callback": told}
        if chunks:
            new = job_of(chunks, merge=merge, allow_holes=allow_holes, max_retries=max_retries, **named)
        else:
            new = split_job(allow_holes=allow_holes, **named)
        self._call(partial(self.pair.submit, [new]))

    @rule(
        session=ANY,
        ends=st.lists(st.tuples(ANY, st.sampled_from(ENDINGS), DELAYS), max_size=4),
        back=st.lists(ANY, max_size=2),
        counts=st.tuples(*(st.integers(0, 3) for _ in KINDS)),
        lane=st.sampled_from([None, None, "work", "work@adobe"]),
        started=st.booleans(),
        times=TIMES,
    )
    def exchanges(
        self,
        session: int,
        ends: list[tuple[int, str, float]],
        back: list[int],
        counts: tuple[int, ...],
        lane: str | None,
        *,
        started: bool,
        times: int,
    ) -> None:
        session_id = self._session(session)
        settles = [
            self._settle(task, ending, delay_s)
            for pick, ending, delay_s in ends
            for task in self._claims_of(session_id, [pick])
        ]
        releases = [Release(t.id, t.claim_count, t.job_id, started) for t in self._claims_of(session_id, back)]
        wants = [Want(kind, count, lane if kind == "work" else None) for kind, count in zip(KINDS, counts, strict=True)]
        self._exchange(session_id, settles, releases, wants, times=times)

    @rule(session=ANY, endings=st.lists(st.sampled_from(MOSTLY_DONE), min_size=1, max_size=4), times=TIMES)
    def works(self, session: int, endings: list[str], times: int) -> None:
        """What an engine mostly does: settle all that is in hand, and take more."""
        session_id = self._session(session)
        for _ in range(3):
            held = [task for task in self._claims_of(session_id, range(99)) if self._is_held(task)]
            settles = [self._settle(task, endings[at % len(endings)], 0.0) for at, task in enumerate(held)]
            self._exchange(session_id, settles, [], [Want(kind, 3) for kind in KINDS], times=times)

    @rule(times=st.sampled_from([1, 2, 5]), kind=st.sampled_from(KINDS))
    def workers_crash(self, times: int, kind: str) -> None:
        """One after the other takes the next task and is never heard of again."""
        for _ in range(times):
            self._exchange(self._open(15.0), [], [], [Want(kind, 1)])
            self.clock.advance(16.0)
            self._call(partial(self.pair.rescue, 500))

    @precondition(lambda self: self.calls)
    @rule(pick=ANY)
    def repeats_a_call_whose_reply_was_lost(self, pick: int) -> None:
        """The latest calls are repeated most, but any may come back late."""
        self.sound = False
        self.calls[-1 - pick % len(self.calls)]()

    @precondition(lambda self: self.claims)
    @rule(pick=ANY, ending=st.sampled_from(ENDINGS), session=ANY)
    def settles_late(self, pick: int, ending: str, session: int) -> None:
        """By whoever claimed it, be the session long gone; most of all what somebody else runs by now."""
        self._exchange(self._session(session), [], [], [Want(kind, 2) for kind in KINDS])
        lost = [claim for claim in self.claims.values() if self._is_lost(claim[1])]
        choice = [claim for claim in lost if self._runs(claim[1].id)] or lost or [*self.claims.values()]
        session_id, task = choice[pick % len(choice)]
        self._exchange(session_id, [self._settle(task, ending, 0.0)], [], [])

    @rule(session=ANY, holds=st.lists(ANY, max_size=2), hold_s=st.sampled_from([0.0, 30.0, 1000.0]))
    def renews(self, session: int, holds: list[int], hold_s: float) -> None:
        session_id = self._session(session)
        held = [Hold(task.id, task.claim_count, hold_s, task.job_id) for task in self._claims_of(session_id, holds)]
        self._call(partial(self.pair.renew, session_id, held))

    @rule(seconds=st.sampled_from([None, 5.0, 16.0, 60.0, 95.0, 1500.0]), most=st.sampled_from([None, 500, 500, 1]))
    def time_passes(self, seconds: float | None, most: int | None) -> None:
        """Some seconds, or as many as it takes until the next task is due, to the instant."""
        due = self.pair.model.next_due(KINDS) or 0.0
        self.clock.advance(max(0.25, due - self.clock.now()) if seconds is None else seconds)
        if most is not None:
            self._call(partial(self.pair.rescue, most))

    @rule(session=ANY, restart=st.booleans())
    def a_process_ends(self, session: int, *, restart: bool) -> None:
        """In good order; or it is the one that has the ledger open, and opens it again."""
        if restart:
            self.pair.ledger = self.reopen(self.pair.ledger, self.clock)
        else:
            self._call(partial(self.pair.close_session, self._session(session)))

    @rule(picks=PICKS)
    def a_person_cancels(self, picks: list[int]) -> None:
        self._act("cancel", self._targets(picks, Status.PENDING, Status.RUNNING))

    @rule(picks=PICKS, verb=st.sampled_from(["retry", "force"]))
    def a_person_retries(self, picks: list[int], verb: str) -> None:
        self._act(verb, self._targets(picks, Status.FAILED, Status.CANCELED))

    @rule(lane=st.sampled_from(LANES), length_s=st.sampled_from([None, 0.0, 5.0, 16.0, 60.0]))
    def a_person_pauses(self, lane: str, length_s: float | None) -> None:
        until = None if length_s is None else self.clock.now() + length_s
        self._call(partial(self.pair.pause, lane, self._action(), until), times=2)

    @rule(pick=ANY)
    def a_person_resumes(self, pick: int) -> None:
        lanes = [*self.pair.model.resting()] or LANES
        self._call(partial(self.pair.resume, lanes[pick % len(lanes)], self._action()), times=2)

    @rule(pick=ANY)
    def a_person_asks_how_many_are_ahead(self, pick: int) -> None:
        self.pair.ahead(self._targets([pick], Status.PENDING)[0])

    @rule(pick=ANY, stale=st.sampled_from([False, False, True]))
    def a_result_is_lost(self, pick: int, *, stale: bool) -> None:
        done = [key for key, row in self.pair.model.tasks.items() if row.status is Status.COMPLETED]
        target = done[pick % len(done)] if done and pick != MISSING else self._targets([pick])[0]
        row = self.pair.model.tasks.get(target)
        result_blob = row.result_blob if row else None
        self._act("lose_result", [target], blob(999) if stale else result_blob)

    @rule(picks=PICKS, status=st.sampled_from(ENDED), age_s=st.sampled_from([None, None, 16.0, 60.0]))
    def old_things_go(self, picks: list[int], status: Status, age_s: float | None) -> None:
        if age_s is None:
            self._act("delete", self._targets(picks, status))
        else:
            # Each with its own action: what was pruned is not told again, so that a repeat is one more prune.
            self._call(lambda: self.pair.prune({status: age_s}, self._action()))
