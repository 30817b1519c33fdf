"""What the machine's random steps stand on: calls that can be repeated, sessions, claims, and how a run ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from hypothesis.stateful import RuleBasedStateMachine, invariant

from forebay import ids
from forebay.clock import Clock, ManualClock
from forebay.model.exchange import Action, Release, Session, Settle, Want
from forebay.model.outcome import Completed
from forebay.model.task import Status, Task
from forebay.rules.settlement import decide
from forebay.stores.base import Ledger
from forebay.testing.endings import outcome
from forebay.testing.invariants import judged, read
from forebay.testing.pair import Pair
from forebay.testing.workers import Worker

KINDS = ("work", "merge", "split", "notify", "callback")
LANES = ("work", "work@adobe", "merge", "split", "notify", "callback@h-example", "unused")
MAX_SESSIONS = 3
# Picks go from 0 to 99: from GONE on they choose a session that has ended, MISSING chooses what is not there.
GONE = 85
MISSING = 97


class Ground(RuleBasedStateMachine):
    """A ledger and its model, compared after each step. A pick is a number that chooses among what there is."""

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
        self._made = count()

    def _call(self, step: Callable[[], object], *, times: int = 1) -> None:
        """More than once: the reply was lost, and the call is repeated as it was."""
        self.sound = False
        self.calls.append(step)
        for _ in range(times):
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
        self.clock.advance(1_000_000)
        ledger.rescue()
        for lane in ledger.lanes():
            ledger.resume(lane.name, self._action())
        worker = Worker(ledger, self.clock)
        while claims := worker.exchange(wants=[Want(kind, 50) for kind in KINDS]).claims:
            worker.exchange(settles=[worker.ending(task, Completed()) for task in claims])
        contents = read(ledger)
        assert judged(contents) == []
        assert [task for task in contents.tasks if not task.status.terminal] == []
        assert [job for job in contents.jobs if not job.status.terminal] == []
        assert {task.id for task in contents.tasks} >= self.pair.model.tasks.keys()

    def _new_id(self) -> str:
        # By number, so that a run that failed runs alike when it is tried again.
        return ids.derived_id("machine", str(next(self._made)))

    def _action(self) -> Action:
        return Action(who="ann", id=self._new_id())

    def _open(self, lease_s: float) -> str:
        session = Session(id=self._new_id(), worker=f"worker-{len(self.numbers)}", lease_s=lease_s)
        self.numbers[session.id] = 0
        self._call(partial(self.pair.open_session, session))
        return session.id

    def _session(self, pick: int) -> str:
        """Mostly one that lives, now and then one that has ended, and a new one while there are few."""
        alive = [session_id for session_id in self.workers if self.pair.model.alive(session_id)]
        ended = [session_id for session_id in self.workers if session_id not in alive]
        if ended and pick >= GONE:
            return ended[pick % len(ended)]
        if pick % MAX_SESSIONS >= len(alive):
            alive = [self._open(15.0 if pick % 2 else 100_000.0)]
            self.workers += alive
        return alive[pick % MAX_SESSIONS % len(alive)]

    def _claims_of(self, session_id: str, picks: Sequence[int]) -> list[Task]:
        """Some of what the session claimed, the latest first, whether it still holds them or not."""
        own = [task for holder, task in self.claims.values() if holder == session_id][::-1]
        return [own[at] for at in dict.fromkeys(pick % len(own) for pick in picks)] if own else []

    def _is_held(self, task: Task) -> bool:
        row = self.pair.model.tasks.get(task.id)
        return row is not None and row.holds(task.claim_count)

    def _is_lost(self, task: Task) -> bool:
        row = self.pair.model.tasks.get(task.id)
        return row is not None and not row.holds(task.claim_count) and not row.settled(task.claim_count)

    def _runs(self, task_id: str) -> bool:
        return self.pair.model.tasks[task_id].status is Status.RUNNING

    def _exchange(
        self,
        session_id: str,
        settles: list[Settle],
        releases: list[Release],
        wants: list[Want],
        *,
        times: int = 1,
    ) -> None:
        self.numbers[session_id] += 1
        n = self.numbers[session_id]

        def step() -> None:
            reply = self.pair.exchange(session_id, n, settles, releases, wants)
            for task in reply.claims:
                self.claims[task.id, task.claim_count] = (session_id, task)

        self._call(step, times=times)

    def _settle(self, task: Task, ending: str, delay_s: float) -> Settle:
        return decide(task, outcome(task, ending, delay_s), now=self.clock.now(), jitter=0.5)

    def _targets(self, picks: Sequence[int], *statuses: Status) -> list[str]:
        """Tasks and jobs of these statuses where there are some, and now and then one that is not there."""
        model = self.pair.model
        heads: dict[str, Status] = {key: job.status for key, job in model.jobs.items()}
        heads |= {key: row.status for key, row in model.tasks.items()}
        fitting = [key for key, status in heads.items() if status in statuses] or [*heads]
        chosen = [fitting[pick % len(fitting)] if fitting and pick != MISSING else self._new_id() for pick in picks]
        return list(dict.fromkeys(chosen))

    def _act(self, verb: str, targets: list[str], result_blob: str | None = None) -> None:
        self._call(partial(self.pair.act, verb, targets, self._action(), result_blob), times=2)
