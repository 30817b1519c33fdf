"""One process that hammers a ledger: it submits, claims, settles in all ways, renews and rescues until it is killed."""

from __future__ import annotations

import argparse
import os
import random
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos import inheritance, orders, sabotage
from chaos.client import Client
from chaos.journal import Journal
from forebay import ids
from forebay.model.exchange import Action, Hold, Release, Session, Settle, Want
from forebay.model.outcome import Canceled, Completed, Failed, Outcome, Rescheduled
from forebay.model.query import Query
from forebay.model.task import Status, Task
from forebay.rules.settlement import decide
from forebay.stores.address import open_ledger
from forebay.stores.base import Ledger

LEASE_S = 0.6
_MOST_CLAIMS = 8
_CRASHED = 70
_SUBMITTERS = ("a", "b", "c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which worker this is: `life` counts the processes that had its place before.

    `heir_of` names the places, with their lives, whose unanswered submissions it repeats.
    """

    file: Path
    logs: Path
    place: str
    life: int
    seed: str
    heir_of: tuple[tuple[str, int], ...] = ()
    drain: bool = False
    sabotage: str = ""
    address: str = ""


class Worker:
    """One thread exchanges, one renews and rescues, the others submit: enough of them for some to commit together."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._name = f"{options.place}-{options.life}"
        self._journal = Journal(options.logs / f"{self._name}.jsonl")
        self._chance = random.Random(f"{options.seed}/{self._name}")
        self._ledger: Ledger = sabotage.apply(
            options.sabotage, open_ledger(options.address or f"sqlite:///{options.file}")
        )
        self._hand: dict[tuple[str, int], Task] = {}
        self._session_id = ""
        self._n = 0
        self._clients = 0
        self._hungry = True
        self._done = threading.Event()

    def run(self) -> None:
        past = inheritance.of(self._options.logs, self._options.heir_of)
        self._journal.note("born", pid=os.getpid(), unanswered=past.unanswered)
        client = self._client()
        keeper = threading.Thread(target=self.guarded, args=(self._keep,), daemon=True)
        keeper.start()
        if past.unanswered:
            client.submit(past.unanswered, again=True)
        if not self._options.drain:
            for name in _SUBMITTERS:
                submits = partial(self._submit, self._client(), f"{self._name}/{name}")
                threading.Thread(target=self.guarded, args=(submits,), daemon=True).start()
        if past.session_id and self._chance.random() < 0.3:
            self._adopt(client, past)
        else:
            self._open(client)
        while not self._done.is_set():
            self._turn(client)
        keeper.join()
        client.close_session(self._session_id)
        self._ledger.close()

    def _client(self) -> Client:
        self._clients += 1
        return Client(self._ledger, self._journal, f"{self._name}/{self._clients}", seed=self._chance.random())

    def guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:  # noqa: BLE001 - whatever it was, the judge must hear of it
            self._journal.note("crash", text=traceback.format_exc())
            os._exit(_CRASHED)

    def _open(self, client: Client) -> None:
        session = Session(id=ids.random_id(), worker=self._name, lease_s=LEASE_S)
        client.open_session(session)
        self._session_id, self._n = session.id, 0

    def _adopt(self, client: Client, past: inheritance.Past) -> None:
        """Go on under the session of the process that was killed, with what it held."""
        client.open_session(Session(id=past.session_id, worker=self._name, lease_s=LEASE_S))
        self._session_id, self._n = past.session_id, past.n
        self._take(client.mine(past.session_id))

    def _take(self, claims: list[Task]) -> None:
        self._hand.update({(task.id, task.claim_count): task for task in claims})

    def _turn(self, client: Client) -> None:
        settles, releases = self._endings()
        self._n += 1
        room = max(0, _MOST_CLAIMS - len(self._hand))
        wants = [Want(orders.WORK, room), Want(orders.MERGE, 4)]
        reply = client.exchange(self._session_id, self._n, settles, releases, wants)
        self._hungry = len(reply.claims) < room
        self._take(list(reply.claims))
        if not reply.alive:
            # What was in hand stays there: it is settled under an old token, and must be fenced.
            self._open(client)
        elif self._chance.random() < 0.02:
            client.close_session(self._session_id)
            self._open(client)
        if self._options.drain and not self._hand and self._all_ended():
            self._done.set()
        # As if it worked; and a process that is always within a transaction would be stopped within one.
        time.sleep(self._chance.uniform(0, 0.02))

    def _endings(self) -> tuple[list[Settle], list[Release]]:
        settles, releases = [], []
        for task in list(self._hand.values()):
            luck = self._chance.random()
            if luck < 0.07:
                continue
            del self._hand[task.id, task.claim_count]
            if luck < 0.14:
                releases.append(Release(task.id, task.claim_count, task.job_id, started=luck < 0.1))
            else:
                settles.append(decide(task, self._outcome(task), now=time.time(), jitter=self._chance.random()))
        return settles, releases

    def _outcome(self, task: Task) -> Outcome:
        luck = self._chance.random()
        if luck < 0.75:
            return Completed(result_json=f'{{"token":{task.claim_count},"session":"{task.session_id}"}}')
        if luck < 0.86:
            return Failed(error_class="internal_error", text="by chance", delay_s=0.0)
        if luck < 0.88:
            return Failed(error_class="refused", text="by chance")
        if task.cancel_requested_at is not None:
            return Canceled()
        return Rescheduled(delay_s=self._chance.choice([0.0, 0.01, 0.05]))

    def _submit(self, client: Client, name: str) -> None:
        chance = random.Random(f"{self._options.seed}/{name}")
        number = 0
        while True:
            if self._hungry:
                keys = []
                for _ in range(chance.randrange(1, 5)):
                    number += 1
                    chunks = chance.choice([0, 0, 0, 1, 2, 5])
                    keys.append(orders.key(f"{name}/{number}", chunks=chunks, delay_ms=chance.choice([0, 0, 50])))
                client.submit(keys)
            if chance.random() < 0.05:
                self._interfere(client, chance)
            time.sleep(chance.uniform(0, 0.02))

    def _interfere(self, client: Client, chance: random.Random) -> None:
        """What people do: cancel a job that is under way, or run a failed one again."""
        verb, status = chance.choice([("cancel", Status.RUNNING), ("retry", Status.FAILED)])
        found = self._ledger.list_jobs(Query(status=status, size=20)).items
        if found:
            client.act(verb, chance.choice(found).id, Action(who=self._name))

    def _keep(self) -> None:
        client = self._client()
        while not self._done.is_set():
            if self._session_id:
                holds = [Hold(task.id, task.claim_count, 60.0, task.job_id) for task in list(self._hand.values())]
                client.renew(self._session_id, holds)
            client.rescue()
            time.sleep(LEASE_S / 5)

    def _all_ended(self) -> bool:
        return all(status.terminal or not count for (_, status), count in self._ledger.count().items())


def run(options: Options) -> None:
    worker = Worker(options)
    worker.guarded(worker.run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="the SQLite file")
    parser.add_argument("--logs", type=Path, required=True, help="the folder of the journals")
    parser.add_argument("--place", default="a", help="a name for this worker")
    parser.add_argument("--life", type=int, default=0, help="how many processes had this place before")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--drain", action="store_true", help="submit nothing new, and end when all is done")
    given = vars(parser.parse_args())
    run(Options(**given, heir_of=((given["place"], given["life"]),)))


if __name__ == "__main__":
    main()
