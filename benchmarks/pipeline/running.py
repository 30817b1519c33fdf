"""One run: a simulator with a quota, worker processes, documents, and somebody who asks all the while."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from benchmarks.fleet.crew import Wrong
from benchmarks.pipeline import papers
from benchmarks.pipeline.seen import Foretold, Said, Seen, read
from benchmarks.pipeline.shapes import LIMIT, Shape
from forebay.app.forebay import Forebay
from forebay.demo.crew import Crew
from forebay.model.job import Job
from forebay.model.query import Query
from forebay.model.task import Role, Status
from forebay.settings import load
from forebay.simulate.starting import Simulated, simulator

_ROUTE = "docai.process"
_TARGET = "benchmarks.pipeline.app:app"
_ROOT = Path(__file__).parents[2]
_CONCURRENCY = 10
_PREFERRED = -10
_WARM = 3
_WARM_FIRST = 100_000
_LOOK_S = 0.2
_ASKED_AT_ONCE = 8
_STARTS_S = 30.0
_OWN = {
    "FOREBAY_LOG_LEVEL": "warning",
    "FOREBAY_DOCAI_PROJECT": "p",
    "FOREBAY_DOCAI_PROCESSOR": "bench",
    "FOREBAY_DOCAI_TOKEN": "for-the-simulator",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """When so many calls have ended, each one is refused for so long, and told to come again after `hint_s`."""

    after: int
    for_s: float
    hint_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """`above`: how many times the quota the workers are told. `ledger` makes one, if it is not in the run's folder.

    `warm`: what only the start costs is not measured.
    """

    workers: int = 3
    warm: bool = True
    above: float = 1.0
    storm: Storm | None = None
    patience_s: float = 120.0
    ledger: Callable[[], AbstractContextManager[str]] | None = None


def run(shape: Shape, terms: Terms | None = None) -> Seen:
    chosen = terms or Terms()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="forebay-bench-")))
        simulated = stack.enter_context(simulator())
        with suppress(PermissionError):
            # A provider has machines of its own: what waits for a core here would arrive late there.
            os.setpriority(os.PRIO_PROCESS, simulated.pid, _PREFERRED)
        simulated.change(quotas={LIMIT: shape.quota}, latency={LIMIT: shape.latency})
        environment = _environment(folder, simulated)
        if chosen.ledger is not None:
            environment["FOREBAY_LEDGER"] = stack.enter_context(chosen.ledger())
        app = stack.enter_context(Forebay(settings=load(environ=environment, cwd=folder)))
        app.limiter.define(shape.limit(chosen.above))
        crew = stack.enter_context(_crew(folder, environment, app, chosen.workers))
        if chosen.warm:
            _warm(app, crew, shape, chosen)
        watch = _Watch(app, simulated, chosen)
        submitted = _submitted(app, papers.documents(shape.calls))
        watch.follow(submitted, crew)
        return Seen(
            shape=shape,
            calls=read(simulated.calls(_ROUTE, after=watch.before)),
            verdict=simulated.verdict(),
            foretold=tuple(watch.foretold),
            said=tuple(watch.said),
            blobs={job: _blobs(app, job) for job in submitted},
        )


def _warm(app: Forebay, crew: Crew, shape: Shape, terms: Terms) -> None:
    """Until every worker has read a document, and no window counts what they did."""
    waiting = _submitted(app, papers.documents(_WARM * terms.workers, first=_WARM_FIRST))
    for identifier in waiting:
        crew.check()
        app.wait(identifier, timeout_s=terms.patience_s)
    time.sleep(shape.wide_s)


def _submitted(app: Forebay, documents: Iterable[bytes]) -> list[str]:
    """All at once."""
    jobs = [app.documents.job(BytesIO(each), name="scan.pdf", processor=LIMIT) for each in documents]
    return [each.id for each in app.ledger.submit(jobs)]


class _Watch:
    """`before`: so many calls had been made already when it began."""

    def __init__(self, app: Forebay, simulated: Simulated, terms: Terms) -> None:
        self._app = app
        self._simulated = simulated
        self._open: dict[str, None] = {}
        self._terms = terms
        self._storm = terms.storm
        self.before = len(simulated.calls(_ROUTE))
        self._dice = random.Random(1912)
        self.foretold: list[Foretold] = []
        self.said: list[Said] = []

    def follow(self, jobs: Iterable[str], crew: Crew) -> None:
        """Until all jobs have ended, and well."""
        self._open = dict.fromkeys(jobs)
        gives_up_at = time.monotonic() + self._terms.patience_s
        while self._open:
            if time.monotonic() > gives_up_at:
                raise Wrong(f"{len(self._open)} documents are not done after {self._terms.patience_s:g} s")
            crew.check()
            self._ask()
            self._raise_storm()
            time.sleep(_LOOK_S)

    def _ask(self) -> None:
        """What `forebay why` says of the lane and of some documents."""
        began = time.time()
        look = self._app.look()
        lanes = look.lanes(LIMIT)
        ended = time.time()
        self.said += [Said(began=began, ended=ended, standing=standing) for lane, standing in lanes if lane.ready_count]
        asked = list(self._open)
        for identifier in self._dice.sample(asked, min(_ASKED_AT_ONCE, len(asked))):
            job = self._app.get(identifier)
            if not isinstance(job, Job) or job.status.terminal:
                self._over(identifier, job)
                continue
            standing = look.standing(job)
            self.foretold.append(Foretold(job=identifier, at=began, eta_s=standing.end_eta_s))
            if standing.limit is not None:
                self.said.append(Said(began=began, ended=time.time(), standing=standing, job=identifier))
        if len(asked) <= _ASKED_AT_ONCE or not lanes:
            for identifier in asked:
                job = self._app.get(identifier)
                if job.status.terminal:
                    self._over(identifier, job)

    def _over(self, identifier: str, job: object) -> None:
        if not isinstance(job, Job) or job.status is not Status.COMPLETED:
            raise Wrong(f"document {identifier} was not read: {job}")
        self._open.pop(identifier, None)

    def _raise_storm(self) -> None:
        storm = self._storm
        if storm is not None and len(self._simulated.calls(_ROUTE)) >= storm.after + self.before:
            self._storm = None
            self._simulated.fault(_ROUTE, f"429 form=info after={storm.hint_s:g}", for_s=storm.for_s)


def _environment(folder: Path, simulated: Simulated) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    places = {"FOREBAY_HOME": str(folder / "home"), "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}
    return kept | simulated.environment | _OWN | places


@contextmanager
def _crew(folder: Path, environment: dict[str, str], app: Forebay, count: int) -> Iterator[Crew]:
    """All of them are there when it begins."""
    with Crew(folder, environment) as crew:
        for number in range(1, count + 1):
            crew.start(f"worker-{number}", _TARGET, concurrency=_CONCURRENCY)
        gives_up_at = time.monotonic() + _STARTS_S
        while len(app.ledger.sessions()) < count:
            if time.monotonic() > gives_up_at:
                raise Wrong("the workers did not start")
            crew.check()
            time.sleep(0.02)
        yield crew


def _blobs(app: Forebay, job: str) -> frozenset[str]:
    chunks = app.ledger.list_tasks(Query(job_id=job, role=Role.CHUNK, size=500)).items
    return frozenset(task.payload_blob for task in chunks if task.payload_blob is not None)
