"""One task's path through a ledger, from its submission to its end, and that of a job with two chunks and a merge."""

from __future__ import annotations

from collections.abc import Iterable

from chaos import orders
from chaos.client import Client
from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import Session, Settle, Want
from forebay.model.outcome import Completed
from forebay.model.task import Task
from forebay.rules.settlement import decide

LONE, JOB, LATE = orders.key("path/lone"), orders.key("path/job", chunks=2), orders.key("path/late")
WANTS = (Want("work", 10), Want("merge", 10))
LEASE_S = 15.0


class Walker:
    """A session that goes along the path in numbered exchanges."""

    def __init__(self, client: Client, clock: ManualClock) -> None:
        self._client = client
        self._clock = clock
        self._n = 0
        self.session_id = ids.random_id()

    def open(self) -> None:
        self._client.open_session(Session(id=self.session_id, worker="walker", lease_s=LEASE_S))

    def exchange(self, done: Iterable[Task] = ()) -> list[Task]:
        self._n += 1
        self._clock.advance(0.1)
        settles = [self._completed(task) for task in done]
        return list(self._client.exchange(self.session_id, self._n, settles, [], WANTS).claims)

    def _completed(self, task: Task) -> Settle:
        result = f'{{"token":{task.claim_count},"session":"{task.session_id}"}}'
        return decide(task, Completed(result_json=result), now=self._clock.now(), jitter=0.0)


def walk(client: Client, clock: ManualClock) -> None:
    """The path itself: every call is one by which somebody may have been promised something."""
    walker = Walker(client, clock)
    client.submit([LONE])
    walker.open()
    (lone,) = walker.exchange()
    clock.advance(0.1)
    client.renew(walker.session_id, [])
    assert walker.exchange([lone]) == []
    client.submit([JOB])
    first, second = walker.exchange()
    assert walker.exchange([first]) == []
    (merge,) = walker.exchange([second])
    assert walker.exchange([merge]) == []
    client.close_session(walker.session_id)


def walk_again(client: Client, clock: ManualClock) -> None:
    """For a file that was closed before: one more task in a log of its own."""
    walker = Walker(client, clock)
    walker.open()
    client.submit([LATE])
    walker.exchange(walker.exchange())


def finish(client: Client, clock: ManualClock, unanswered: list[str]) -> None:
    """Whoever comes after a fault: repeats what was not answered, rescues what was lost, and goes on to the end."""
    walker = Walker(client, clock)
    if unanswered:
        client.submit(unanswered, again=True)
    clock.advance(10 * LEASE_S)
    client.rescue()
    walker.open()
    in_hand = walker.exchange()
    while in_hand:
        in_hand = walker.exchange(in_hand)
    client.close_session(walker.session_id)
