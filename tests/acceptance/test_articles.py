"""A worker that is killed among the articles of a document: the other one ends it, and pays for nothing again."""

from __future__ import annotations

import io
import json
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forebay import Forebay, Limit
from forebay.model.query import Query
from forebay.model.task import Role, Status, Task
from forebay.testing import Simulated, simulator
from tests.acceptance.fleet import Fleet, until
from tests.callbacks.receiver import Receiver
from tests.segment.ground import Ground
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server

ARTICLES = 16
AT_ONCE = 2
TEXT = "".join(
    f"# Basin {number}\n\nThe river fills basin {number}, and basin {number} feeds turbine {number} below.\n\n"
    for number in range(1, ARTICLES + 1)
)
CHAT = "openai.chat"
LLM = Limit("llm", in_flight=8)


class Undisturbed(NamedTuple):
    """What comes of the document when nothing happens, and the questions that each article costs, as they follow."""

    result: dict[str, Any]
    questions: dict[int, list[str]]


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulated]:
    with simulator() as found:
        yield found


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Receiver]:
    with closing(Receiver(tmp_path / "received.jsonl")) as made:
        yield made


def settings_for(sim: Simulated) -> dict[str, str]:
    return {"llm_url": sim.addresses["openai"], "llm_model": "any", "llm_api_key": "any"}


def undisturbed(folder: Path, sim: Simulated) -> Undisturbed:
    """One article after the other, so that it shows which question is whose."""
    folder.mkdir()
    with Ground(folder, **settings_for(sim), concurrency="1") as here:
        here.app.limit(LLM)
        result = here.result(here.run(TEXT))
    asked = [call["fingerprint"] for call in sim.calls(CHAT)]
    assert len(set(asked)) == len(asked) == 2 * ARTICLES
    return Undisturbed(result, {number: asked[2 * number - 2 : 2 * number] for number in range(1, ARTICLES + 1)})


def paid_again(calls: Iterable[Mapping[str, Any]]) -> set[str]:
    asked = Counter(call["fingerprint"] for call in calls)
    return {question for question, count in asked.items() if count > 1}


@pytest.mark.slow
def test_a_worker_killed_among_articles_changes_nothing_of_them_and_nothing_that_was_answered_is_paid_again(
    tmp_path: Path, postgres_server: Server, sim: Simulated, hook: Receiver
) -> None:
    expected = undisturbed(tmp_path / "undisturbed", sim)
    sim.reset()
    sim.change(latency={"openai": {"s": 0.4}})
    own = {"callback_key": "a key of the operator's own", "callback_loopback": "allow", "lease_s": "4"}
    more = own | settings_for(sim)
    with fresh_schema(postgres_server) as address, Fleet(tmp_path, address, **more) as fleet:
        app = fleet.app
        app.limiter.define(LLM)
        hook.knows(app.callbacks.secret(app.callbacks.known_endpoint(hook.url())))
        workers = {name: fleet.work("--name", name, "--concurrency", str(AT_ONCE)) for name in ("ann", "bob")}
        until(lambda: len(app.ledger.sessions()) == len(workers))
        job_id = app.process(
            io.BytesIO(TEXT.encode()), name="basins.md", pipeline="segment", callback=hook.url(), callback_each=True
        ).id

        languages: set[str] = set()

        def caught() -> bool:
            """The first worker is at the tags of an article: its language is known already."""
            asked = {call["fingerprint"] for call in sim.calls(CHAT)}
            of_ann = [expected.questions[number] for number in in_hand(app, job_id, "ann")]
            languages.update(language for language, tags in of_ann if tags in asked)
            return bool(languages)

        until(lambda: len(tagged(app, job_id)) >= 3 and caught())
        done = tagged(app, job_id)
        workers["ann"].struck(signal.SIGKILL)
        assert workers["ann"].ended() == -signal.SIGKILL
        placed = {task.id: task.chunk_index for task in articles(app, job_id)}

        result = app.wait(job_id, timeout_s=60).result
        assert isinstance(result, bytes)
        assert json.loads(result) == expected.result
        after = articles(app, job_id)
        assert {task.id: task.chunk_index for task in after} == placed
        assert [task.chunk_index for task in after] == [*range(ARTICLES)]
        assert [task for task in after if task.id in done] == [*done.values()]
        lost = [task for task in after if task.lost_count]
        assert 1 <= len(lost) <= 2 * AT_ONCE  # those that ran, and as many in hand
        assert {tuple(each.worker for each in app.history(task.id)) for task in lost} == {("ann", "bob")}

        again = paid_again(sim.calls(CHAT))
        assert again <= {question for task in lost for question in expected.questions[(task.chunk_index or 0) + 1]}
        assert len(again) <= AT_ONCE
        assert not again & languages
        check_told(app, hook, job_id)


def test_what_is_paid_again_is_seen() -> None:
    calls = [{"fingerprint": each} for each in ("a", "b", "a")]
    assert paid_again(calls) == {"a"}
    assert paid_again(calls[:2]) == set()


def articles(app: Forebay, job_id: str) -> list[Task]:
    found = [app.ledger.get(task.id) for task in app.ledger.list_tasks(Query(job_id=job_id, role=Role.CHUNK)).items]
    return sorted((task for task in found if task is not None), key=lambda task: task.chunk_index or 0)


def tagged(app: Forebay, job_id: str) -> dict[str, Task]:
    return {task.id: task for task in articles(app, job_id) if task.status is Status.COMPLETED}


def in_hand(app: Forebay, job_id: str, worker: str) -> list[int]:
    names = {session.id: session.worker for session in app.ledger.sessions()}
    return [
        (task.chunk_index or 0) + 1
        for task in articles(app, job_id)
        if task.status is Status.RUNNING and names.get(task.session_id or "") == worker
    ]


def check_told(app: Forebay, hook: Receiver, job_id: str) -> None:
    """Each article once and the end once, in the job's own record and to whoever asked for callbacks."""
    events = app.ledger.events(job_id)
    assert [event.number for event in events] == [*range(1, len(events) + 1)]
    assert [event.name for event in events].count("job_completed") == 1
    until(lambda: len({each["id"] for each in hook.seen}) == ARTICLES + 1)
    bodies = {each["id"]: json.loads(each["body"]) for each in hook.seen if each["verified"]}
    said = Counter((body["type"], body["data"].get("chunk_index")) for body in bodies.values())
    numbers = range(ARTICLES)
    assert said == Counter([("job.completed", None), *(("chunk.completed", number) for number in numbers)])
