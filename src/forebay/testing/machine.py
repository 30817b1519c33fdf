"""Random steps of several sessions on a ledger and on its model: settles, replays, late writes, people, time.

TestMyLedger = ledger_machine(lambda clock: MyLedger(clock=clock)).TestCase
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay import ids
from forebay.clock import Clock, ManualClock
from forebay.model.exchange import Action, Hold, Release, Session, Settle, Want
from forebay.model.job import NewJob
from forebay.model.outcome import Canceled, Completed, Failed, Outcome, Rescheduled
from forebay.model.task import Role, Status, Task
from forebay.rules.settlement import decide
from forebay.stores.base import Ledger
from forebay.testing.invariants import all_jobs, all_tasks, problems
from forebay.testing.pair import Pair
from forebay.testing.workers import Worker, blob, chunk, follow, job_of, lone, split_job, usage

KINDS = ("work", "merge", "split", "notify")
MAX_TASKS = 40
MAX_SESSIONS = 6
ENDINGS = ("complete", "complete", "complete", "blob", "follow", "chunks", "fail", "retry", "reschedule", "cancel")
ANY = st.integers(0, 99)
PICKS = st.lists(ANY, min_size=1, max_size=2)
ENDED = [Status.COMPLETED, Status.FAILED, Status.CANCELED]
DELAYS = st.sampled_from([0.0, 0.0, 5.0, 60.0])


def ledger_machine(
    make_ledger: Callable[[Clock], Ledger], reopen: Callable[[Ledger, Clock], Ledger] | None = None
) -> type[LedgerMachine]:
    """A state machine for the ledgers that `make_ledger` makes; `reopen` opens the data of one again."""
    fields = {"make_ledger": staticmethod(make_ledger), "reopen": staticmethod(reopen or (lambda ledger, _: ledger))}
    return type("LedgerMachine", (LedgerMachine,), fields)


class LedgerMachine(RuleBasedStateMachine):
    """Each step is taken on both, may be taken again later as if its reply had been lost, and is then judged."""

    make_ledger: Callable[[Clock], Ledger]
    reopen: Callable[[Ledger, Clock], Ledger]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.pair = Pair(self.make_ledger(self.clock), self.clock)
        self.numbers: dict[str, int] = {}
        self.workers: list[str] = []
        self.claims: dict[tuple[str, int], tuple[str, Task]] = {}
        self.calls: list[Callable[[], object]] = []
        self.sound = True

    def _call(self, step: Callable[[], object]) -> None:
        self.sound = False
        self.calls.append(step)
        step()

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        self.pair.compare()
        self.sound = True

    def teardown(self) -> None:
        try:
            if self.sound:
                self._drain()
        finally:
            self.pair.ledger.close()

    def _drain(self) -> None:
        """Whatever was done before, a worker that lives and does its work brings all of it to an end."""
        ledger = self.pair.ledger
        for _ in range(20):
            self.clock.advance(1_000_000)
            ledger.rescue()
            worker = Worker(ledger, self.clock)
            while claims := worker.exchange(wants=[Want(kind, 50) for kind in KINDS]).claims:
                worker.exchange(settles=[worker.ending(task, Completed()) for task in claims])
            if not any(job.open_count for job in all_jobs(ledger)):
                break
        assert [task for task in all_tasks(ledger) if not task.status.terminal] == []
        assert [job for job in all_jobs(ledger) if not job.status.terminal] == []
        assert {task.id for task in all_tasks(ledger)} >= self.pair.model.tasks.keys()
        assert problems(ledger) == []

    @initialize(lease_s=st.sampled_from([15.0, 100_000.0]))
    def begins_with_a_session(self, lease_s: float) -> None:
        self.opens_a_session(lease_s)

    @precondition(lambda self: len(self.pair.model.tasks) < MAX_TASKS)
    @rule(
        count=st.integers(1, 3),
        idempotency_key=st.sampled_from([None, None, "a", "b"]),
        priority=st.sampled_from([0, 0, 5]),
        delay_s=DELAYS,
        limit=st.sampled_from([None, "adobe"]),
        max_retries=st.integers(0, 2),
    )
    def submits_tasks(self, count: int, **options: object) -> None:
        batch = [lone(options["priority"], kind="work", max_reschedules=2, **options) for _ in range(count)]
        self._call(partial(self.pair.submit, batch))

    @precondition(lambda self: len(self.pair.model.tasks) < MAX_TASKS)
    @rule(
        chunks=st.sampled_from([1, 1, 2, 2, 3, 0]),
        key=st.sampled_from([None, None, "a", "b"]),
        merge=st.sampled_from([True, True, False]),
        allow_holes=st.booleans(),
        max_retries=st.integers(0, 2),
    )
    def submits_a_job(self, chunks: int, key: str | None, max_retries: int, *, merge: bool, allow_holes: bool) -> None:
        new: NewJob
        if chunks:
            new = job_of(chunks, merge=merge, allow_holes=allow_holes, idempotency_key=key, max_retries=max_retries)
        else:
            new = split_job(allow_holes=allow_holes, idempotency_key=key)
        self._call(partial(self.pair.submit, [new]))

    @precondition(lambda self: len(self.workers) < MAX_SESSIONS)
    @rule(lease_s=st.sampled_from([15.0, 15.0, 100_000.0]))
    def opens_a_session(self, lease_s: float) -> None:
        self.workers.append(self._open(lease_s))

    def _open(self, lease_s: float) -> str:
        session = Session(id=ids.random_id(), worker=f"worker-{len(self.numbers)}", lease_s=lease_s)
        self.numbers[session.id] = 0
        self._call(partial(self.pair.open_session, session))
        return session.id

    def _session(self, pick: int) -> str:
        """The later a session was opened, the more likely it is still alive: low picks choose from the end."""
        return self.workers[-1 - pick % len(self.workers)]

    def _claims_of(self, session_id: str, picks: Sequence[int]) -> list[Task]:
        """Some of what the session claimed, the latest first, whether it still holds them or not."""
        own = [task for holder, task in self.claims.values() if holder == session_id][::-1]
        return [own[at] for at in dict.fromkeys(pick % len(own) for pick in picks)] if own else []

    @rule(
        session=ANY,
        ends=st.lists(st.tuples(ANY, st.sampled_from(ENDINGS), DELAYS), max_size=4),
        back=st.lists(ANY, max_size=2),
        counts=st.tuples(*(st.integers(0, 3) for _ in KINDS)),
        lane=st.sampled_from([None, None, "work", "work@adobe"]),
        started=st.booleans(),
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
    ) -> None:
        session_id = self._session(session)
        settles = [
            self._settle(task, ending, delay_s)
            for pick, ending, delay_s in ends
            for task in self._claims_of(session_id, [pick])
        ]
        releases = [Release(t.id, t.claim_count, t.job_id, started) for t in self._claims_of(session_id, back)]
        wants = [Want(kind, count, lane if kind == "work" else None) for kind, count in zip(KINDS, counts, strict=True)]
        self._exchange(session_id, settles, releases, wants)

    @rule(session=ANY, endings=st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=4), rounds=st.integers(1, 3))
    def works(self, session: int, endings: list[str], rounds: int) -> None:
        """What an engine mostly does: settle all that is in hand, and take more."""
        session_id = self._session(session)
        for _ in range(rounds):
            held = [task for task in self._claims_of(session_id, range(99)) if self._is_held(task)]
            settles = [self._settle(task, endings[at % len(endings)], 0.0) for at, task in enumerate(held)]
            self._exchange(session_id, settles, [], [Want(kind, 3) for kind in KINDS])

    @rule(times=st.sampled_from([1, 2, 5]), kind=st.sampled_from(KINDS))
    def workers_crash(self, times: int, kind: str) -> None:
        """One after the other takes the next task and is never heard of again."""
        for _ in range(times):
            self._exchange(self._open(15.0), [], [], [Want(kind, 1)])
            self.clock.advance(16.0)
            self._call(partial(self.pair.rescue, 500))

    def _is_held(self, task: Task) -> bool:
        row = self.pair.model.tasks.get(task.id)
        return row is not None and row.status is Status.RUNNING and row.token == task.claim_count

    def _exchange(self, session_id: str, settles: list[Settle], releases: list[Release], wants: list[Want]) -> None:
        self.numbers[session_id] += 1
        n = self.numbers[session_id]

        def step() -> None:
            reply = self.pair.exchange(session_id, n, settles, releases, wants)
            for task in reply.claims:
                self.claims[task.id, task.claim_count] = (session_id, task)

        self._call(step)

    def _settle(self, task: Task, ending: str, delay_s: float) -> Settle:
        used = (usage(1),)
        number = task.chunk_index or 0
        outcome: Outcome
        if ending == "blob":
            outcome = Completed(result_blob=blob(task.claim_count), usage=used)
        elif ending == "follow" and task.job_id:
            outcome = Completed(follow_ups=(follow(f"{task.role} {number % 2}"),), usage=used)
        elif ending == "chunks" and task.role in {Role.SPLIT, Role.CHUNK}:
            outcome = Completed(follow_ups=(chunk(10 + number % 3), chunk(11 + number % 3)))
        elif ending == "fail":
            outcome = Failed(error_class="invalid_pdf", text="torn", usage=used)
        elif ending == "retry":
            outcome = Failed(error_class="timeout", text="60 s", delay_s=delay_s, usage=used)
        elif ending == "reschedule":
            outcome = Rescheduled(delay_s=delay_s)
        elif ending == "cancel":
            outcome = Canceled()
        else:
            outcome = Completed(usage=used)
        return decide(task, outcome, now=self.clock.now(), jitter=0.5)

    @precondition(lambda self: self.calls)
    @rule(pick=ANY)
    def repeats_a_call_whose_reply_was_lost(self, pick: int) -> None:
        """The latest calls are repeated most, but any may come back late."""
        self.sound = False
        self.calls[-1 - pick % len(self.calls)]()

    @precondition(lambda self: self.claims)
    @rule(pick=ANY, ending=st.sampled_from(ENDINGS))
    def settles_late(self, pick: int, ending: str) -> None:
        """By whoever claimed it, be the session long gone."""
        late = [claim for claim in self.claims.values() if not self._is_held(claim[1])] or [*self.claims.values()]
        session_id, task = late[pick % len(late)]
        self._exchange(session_id, [self._settle(task, ending, 0.0)], [], [])

    @rule(session=ANY, holds=st.lists(ANY, max_size=2), hold_s=st.sampled_from([0.0, 30.0, 1000.0]))
    def renews(self, session: int, holds: list[int], hold_s: float) -> None:
        session_id = self._session(session)
        held = [Hold(task.id, task.claim_count, hold_s, task.job_id) for task in self._claims_of(session_id, holds)]
        self._call(partial(self.pair.renew, session_id, held))

    @rule(seconds=st.sampled_from([0.25, 4.0, 16.0, 95.0, 1500.0]), most=st.sampled_from([None, 500, 500, 1]))
    def time_passes(self, seconds: float, most: int | None) -> None:
        self.clock.advance(seconds)
        if most is not None:
            self._call(partial(self.pair.rescue, most))

    @rule(session=ANY, restart=st.booleans())
    def a_process_ends(self, session: int, *, restart: bool) -> None:
        """In good order; or it is the one that has the ledger open, and opens it again."""
        if restart:
            self.pair.ledger = self.reopen(self.pair.ledger, self.clock)
        else:
            self._call(partial(self.pair.close_session, self._session(session)))

    def _targets(self, picks: Sequence[int], *statuses: Status) -> list[str]:
        """Tasks and jobs of these statuses where there are some, and now and then one that is not there."""
        model = self.pair.model
        heads: dict[str, Status] = {key: job.status for key, job in model.jobs.items()}
        heads |= {key: row.status for key, row in model.tasks.items()}
        fitting = [key for key, status in heads.items() if status in statuses] or [*heads]
        chosen = [fitting[pick % len(fitting)] if fitting and pick != 97 else ids.random_id() for pick in picks]
        return list(dict.fromkeys(chosen))

    def _act(self, verb: str, targets: list[str], result_blob: str | None = None) -> None:
        self._call(partial(self.pair.act, verb, targets, Action(who="ann"), result_blob))

    @rule(picks=PICKS)
    def a_person_cancels(self, picks: list[int]) -> None:
        self._act("cancel", self._targets(picks, Status.PENDING, Status.RUNNING))

    @rule(picks=PICKS, verb=st.sampled_from(["retry", "force"]))
    def a_person_retries(self, picks: list[int], verb: str) -> None:
        self._act(verb, self._targets(picks, Status.FAILED, Status.CANCELED))

    @rule(pick=ANY, stale=st.sampled_from([False, False, True]))
    def a_result_is_lost(self, pick: int, *, stale: bool) -> None:
        (target,) = self._targets([pick], Status.COMPLETED)
        row = self.pair.model.tasks.get(target)
        result_blob = row.result_blob if row else None
        self._act("lose_result", [target], blob(999) if stale else result_blob)

    @rule(picks=PICKS, status=st.sampled_from(ENDED), age_s=st.sampled_from([None, 10.0, 200.0]))
    def old_things_go(self, picks: list[int], status: Status, age_s: float | None) -> None:
        if age_s is None:
            self._act("delete", self._targets(picks, status))
        else:
            # Each with its own action: what was pruned is not told again, so that a repeat is one more prune.
            self._call(lambda: self.pair.prune({status: age_s}, Action(who="ann")))
