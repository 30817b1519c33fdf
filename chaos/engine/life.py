"""One process of the run: what it is told when it starts, and what it does until it ends."""

from __future__ import annotations

import ctypes
import importlib
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from chaos.engine import app, sabotage, submitter
from chaos.engine.judge_processes import GRACE_S
from chaos.journal import Journal
from forebay import failpoint, observe
from forebay.app.forebay import Forebay
from forebay.app.working import work
from forebay.errors import StoreError
from forebay.settings import load
from forebay.stores.base import Ledger
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.testing.faults import faulty

LEASE_S = 2.0
CRASHED = 70
_PROCESSES = 1
_CONCURRENCY = 6
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Where a run keeps what it leaves behind; ledger and blobs on a disk of their own if one is named."""

    root: Path
    disk: Path | None = None

    @property
    def data(self) -> Path:
        return self.disk or self.root

    @property
    def file(self) -> Path:
        return self.data / "ledger.db"

    @property
    def blobs(self) -> Path:
        return self.data / "blobs"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def forged(self) -> Path:
        return self.root / "forged"

    def environment(self) -> dict[str, str]:
        root = quote(str(self.data.absolute()))
        return {
            "FOREBAY_HOME": str(self.data.absolute()),
            "FOREBAY_LEDGER": f"sqlite:///{root}/ledger.db",
            "FOREBAY_BLOBS": f"file://{root}/blobs",
            "FOREBAY_LEASE_S": str(LEASE_S),
            "FOREBAY_POLL_S": "0.5",
            "FOREBAY_DRAIN_GRACE_S": str(GRACE_S),
            "FOREBAY_PAYLOAD_MAX_BYTES": "1024",
            "FOREBAY_PROCESSES": str(_PROCESSES),
            "FOREBAY_CONCURRENCY": str(_CONCURRENCY),
            app.JOURNAL: str(self.logs.absolute() / "provider.jsonl"),
            failpoint.LOG: str(self.logs.absolute() / "failpoints.jsonl"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """`faults` are the chances that a call of the ledger fails before it is made, and that its answer is lost."""

    folder: Folder
    name: str
    seed: str
    failpoints: str = ""
    faults: tuple[float, float] = (0.0, 0.0)
    sabotage: str = ""
    slow: bool = False

    @property
    def target(self) -> str:
        return app.TARGET

    def opened(self) -> Ledger:
        return SqliteLedger(self.folder.file)

    def build(self) -> Forebay:
        return app.build(self.ledger(), load())

    def order(self) -> submitter.Order:
        return submitter.order

    def ledger(self) -> Ledger:
        opened = sabotage.apply(self.sabotage, self.opened(), self.folder.forged)
        before, lost = self.faults
        state = random.Random(f"{self.seed}/{self.name}/faults").getrandbits(32)
        return faulty(opened, random_state=state, error_before=before, applied_but_timeout=lost)

    def run_worker(self) -> None:
        journal = Journal(self.folder.logs / f"{self.name}.jsonl")

        def note(event: str, fields: Mapping[str, object]) -> None:
            journal.note(event, **fields)

        observe.subscribe(note)
        try:
            work(self.build(), name=self.name, target=self.target)
        except StoreError as error:
            # Whoever is in a hurry does not wait for a ledger that is gone; that it was so the judge has to find.
            journal.note("gave_up", code=error.code)

    def run_submitter(self) -> None:
        journal = Journal(self.folder.logs / "submitter.jsonl")
        chance = random.Random(f"{self.seed}/orders")
        submitter.run(self.build(), journal, chance, self.order(), slow=self.slow)


def fork(life: Life, run: Callable[[], None]) -> int:
    """A process that does this and ends; from a parent with all modules and without threads it begins at once."""
    pid = os.fork()
    if pid:
        return pid
    code = CRASHED
    try:
        _end_with_parent()
        complaints = os.open(life.folder.logs / f"{life.name}.stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(complaints, 1)
        os.dup2(complaints, 2)
        os.environ.update({**life.folder.environment(), app.LIFE: life.name, failpoint.VARIABLE: life.failpoints})
        importlib.reload(failpoint)  # it reads the environment when it is imported
        random.seed(f"{life.seed}/{life.name}")
        run()
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it was, the judge must hear of it
        traceback.print_exc()
    finally:
        os._exit(code)


def _end_with_parent() -> None:
    """A conductor that is killed itself leaves nobody behind."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
