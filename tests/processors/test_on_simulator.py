"""Paid processors end to end: through the engine, against the simulator, judged by what that saw."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from forebay import Context, Forebay, Limit, Window
from forebay.app.working import awork, when_idle
from forebay.model.job import Job
from forebay.model.query import Query
from forebay.model.task import Role, Status, Task
from forebay.processors.base import Processor
from forebay.settings import load
from forebay.testing import Simulated, simulator
from tests.processors.test_credentials import account
from tests.simulate.ground import document

PROCESSOR = {"FOREBAY_DOCAI_PROJECT": "p", "FOREBAY_DOCAI_PROCESSOR": "abc"}
QUICK = Limit("docai", in_flight=4, cooldown_s=(0.2, 1.0))
TOKEN = "ya29.canary-e2e"


@pytest.fixture(scope="module")
def running() -> Iterator[Simulated]:
    with simulator() as found:
        yield found


@pytest.fixture
def sim(running: Simulated) -> Simulated:
    running.reset()
    return running


Made = Callable[..., Forebay]


@pytest.fixture
def made(sim: Simulated, tmp_path: Path) -> Iterator[Made]:
    """An application whose providers are the simulator."""
    opened: list[Forebay] = []

    def make(*limits: Limit, max_pages: int | None = None, **variables: str) -> Forebay:
        chosen = {"FOREBAY_DOCAI_TOKEN": TOKEN} | variables
        own = {"HOME": str(tmp_path), "FOREBAY_HOME": str(tmp_path), "FOREBAY_DRAIN_GRACE_S": "0.5"}
        environ = own | sim.environment | PROCESSOR | chosen
        settings = load(environ={name: value for name, value in environ.items() if value}, cwd=tmp_path)
        app = Forebay(settings=settings)
        for limit in limits or (QUICK,):
            app.limit(limit)
        if max_pages is not None:
            docai: Processor = app.documents.pipeline.processor("docai")
            docai.max_pages = max_pages
        opened.append(app)
        return app

    yield make
    for app in opened:
        app.close()


def work(app: Forebay) -> None:
    asyncio.run(asyncio.wait_for(awork(app, when_idle(app)), 50))


def work_until(app: Forebay, condition: Callable[[], bool]) -> None:
    async def beside(drain: Callable[[str], None]) -> None:
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - it is the ledger that changes
            await asyncio.sleep(0.02)
        drain("seen")

    asyncio.run(asyncio.wait_for(awork(app, beside), 50))


def submit(app: Forebay, raw: bytes, **options: object) -> str:
    return app.process(io.BytesIO(raw), name="scan.pdf", processor="docai", options=options).id


def read(app: Forebay, raw: bytes, **options: object) -> dict[str, Any]:
    identifier = submit(app, raw, **options)
    work(app)
    return result(app, identifier)


def result(app: Forebay, identifier: str) -> dict[str, Any]:
    found = app.result(identifier)
    assert isinstance(found, bytes)
    whole: dict[str, Any] = json.loads(found)
    return whole


def chunks(app: Forebay, identifier: str) -> list[Task]:
    return list(app.ledger.list_tasks(Query(job_id=identifier, role=Role.CHUNK, size=500)).items)


def pages(count: int) -> bytes:
    return document(*(f"Page {number} of a pile\nthat waits for the turbine." for number in range(1, count + 1)))


def unsplit(sim: Simulated, raw: bytes) -> dict[str, Any]:
    """What one call says of all pages, asked for without anything of ours."""
    url = f"{sim.addresses['docai']}/v1/projects/p/locations/us/processors/abc:process"
    body = {
        "rawDocument": {"content": base64.b64encode(raw).decode(), "mimeType": "application/pdf"},
        "imagelessMode": True,
    }
    with httpx2.Client(trust_env=False) as client:
        answer = client.post(url, json=body, headers={"authorization": "Bearer x"})
    found: dict[str, Any] = answer.json()["document"]
    return found


def words_of(page: Mapping[str, Any], text: str) -> list[tuple[str, list[float], float]]:
    """The words of a page as the API gives them, read in the plainest way."""
    found = []
    for token in page["tokens"]:
        layout = token["layout"]
        (segment,) = layout["textAnchor"]["textSegments"]
        vertices = layout["boundingPoly"]["normalizedVertices"]
        across, down = [each.get("x", 0) for each in vertices], [each.get("y", 0) for each in vertices]
        box = [round(edge, 5) for edge in (min(across), min(down), max(across), max(down))]
        word = text[int(segment.get("startIndex", 0)) : int(segment["endIndex"])].strip()
        found.append((word, box, round(layout["confidence"], 3)))
    return found


@pytest.mark.slow
def test_what_is_split_and_merged_equals_the_unsplit_answer(made: Made, sim: Simulated) -> None:
    raw = document(
        "A first page, in English, with some words.\nAnd a second line of it.",
        "Eine zweite Seite, auf Deutsch, mit einigen W\\366rtern.\nUnd das $ dahinter.",
        "$ $$ begins with a face",
        "Une troisième page, en français, avec quelques mots.".replace("è", "\\350").replace("ç", "\\347"),
        *(f"Page {number} says\nwhich one it is." for number in range(5, 24)),
    )
    app = made(max_pages=3)
    whole = unsplit(sim, raw)
    merged = read(app, raw)
    assert len(merged["pages"]) == len(whole["pages"]) == 23
    assert sim.verdict()["calls"] == 8 + 1
    for page, expected in zip(merged["pages"], whole["pages"], strict=True):
        words = [
            (word["text"], word["box"], word["confidence"])
            for block in page["blocks"]
            for line in block["lines"]
            for word in line["words"]
        ]
        assert words == words_of(expected, whole["text"])
        assert page["number"] == expected["pageNumber"]
        assert page["language"] == expected["detectedLanguages"][0]["languageCode"]
        assert (page["width"], page["height"]) == (595, 842)
    assert any("😀" in page["text"] for page in merged["pages"])
    once = read(made(max_pages=30, FOREBAY_HOME=str(app.settings.home / "other")), raw)
    assert once["pages"] == merged["pages"]
    assert once["summary"] == merged["summary"]


@pytest.mark.slow
def test_at_the_quota_nothing_is_refused_and_all_of_it_is_used(made: Made, sim: Simulated) -> None:
    sim.change(
        quotas={"docai": {"in_flight": 3, "windows": [{"n": 10, "per_s": 1}, {"n": 25, "per_s": 1, "unit": "pages"}]}},
        latency={"docai": {"kind": "fixed", "s": 0.02}},
    )
    limit = Limit("docai", in_flight=3, windows=[Window(10, per_s=1), Window(25, per_s=1, unit="pages")])
    read(made(limit, max_pages=2), pages(60))
    seen = sim.verdict()
    assert seen["refused_429"] == 0
    assert seen["within_quotas"]
    assert seen["calls"] == seen["chunks"] == 30
    assert max(each["worst"] for each in seen["quotas"]["docai"]["windows"] if each["unit"] == "calls") == 10


@pytest.mark.slow
def test_a_limit_above_the_quota_is_refused_which_is_the_control(made: Made, sim: Simulated) -> None:
    sim.change(quotas={"docai": {"windows": [{"n": 3, "per_s": 2}]}})
    read(made(QUICK, max_pages=2), pages(12))
    seen = sim.verdict()
    assert seen["refused_429"] > 0
    assert not any(each["repeated_after_success"] for each in sim.chunks().values())


FORMS = ("date", "info", "none")


@pytest.mark.slow
def test_a_429_in_any_form_costs_no_retry(made: Made, sim: Simulated) -> None:
    for number, form in enumerate(FORMS, 1):
        sim.fault("docai.process", f"429 form={form} after=0.2", calls=[number])
    app = made(max_pages=2)
    identifier = submit(app, pages(8))
    work(app)
    ended = chunks(app, identifier)
    assert [task.status for task in ended] == [Status.COMPLETED] * 4
    assert {task.retry_count for task in ended} == {0}
    assert sim.verdict()["refused_429"] == sum(task.reschedule_count for task in ended) == len(FORMS)


FAULTS = ("500", "502", "503", "truncate", "garbage", "html", "cut", "reset")


@pytest.mark.slow
def test_what_breaks_once_is_done_again(made: Made, sim: Simulated) -> None:
    for number, fault in enumerate(FAULTS, 1):
        sim.fault("docai.process", fault, calls=[number])
    app = made(Limit("docai", in_flight=8, breaker_after=0), max_pages=2)
    identifier = submit(app, pages(16))
    work(app)
    ended = chunks(app, identifier)
    assert [task.status for task in ended] == [Status.COMPLETED] * 8
    assert sum(task.retry_count for task in ended) == len(FAULTS)
    assert sim.verdict()["calls"] == 16
    errors = {attempt.error_class for task in ended for attempt in app.history(task.id)} - {None}
    assert errors == {"internal_error", "service_unavailable", "bad_response", "network_error"}


OUTAGE_CALLS = 12  # at the default cool-downs of 2, 4, 8, 16 and 30 s these take minutes


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["503", "reset"])
def test_an_outage_needs_no_person_and_burns_few_retries_of_a_one_chunk_document(
    made: Made, sim: Simulated, fault: str
) -> None:
    sim.fault("docai.process", fault, calls=[*range(1, OUTAGE_CALLS + 1)])
    app = made(Limit("docai", in_flight=4, cooldown_s=(0.05,)), max_pages=10)
    identifier = submit(app, pages(3))
    work(app)
    [chunk] = chunks(app, identifier)
    assert chunk.status == Status.COMPLETED
    assert chunk.retry_count == 2  # the third failure opens the breaker
    assert chunk.reschedule_count == OUTAGE_CALLS - 2


@pytest.mark.slow
def test_without_a_breaker_an_outage_fails_a_one_chunk_document(made: Made, sim: Simulated) -> None:
    sim.fault("docai.process", "503", calls=[*range(1, OUTAGE_CALLS + 1)])
    app = made(Limit("docai", in_flight=4, cooldown_s=(0.05,), breaker_after=0), max_pages=10)
    identifier = submit(app, pages(3))
    work(app)
    [chunk] = chunks(app, identifier)
    assert (chunk.status, chunk.retry_count, chunk.reschedule_count) == (Status.FAILED, 3, 0)


@pytest.mark.slow
def test_a_chunk_that_is_too_much_for_the_provider_is_cut_smaller(made: Made, sim: Simulated) -> None:
    sim.change(docai={"max_pages_imageless": 4})
    app = made(max_pages=10)
    merged = read(app, pages(20))
    assert [page["text"].split()[1] for page in merged["pages"]] == [str(number) for number in range(1, 21)]
    assert all(page["processor"] == "docai" for page in merged["pages"])


@pytest.mark.slow
def test_with_images_chunks_are_cut_before_they_are_sent(made: Made, sim: Simulated) -> None:
    merged = read(made(), pages(20), imageless=False)
    assert len(merged["pages"]) == 20
    assert [call["status"] for call in sim.calls("docai.process")] == [200, 200]


@pytest.mark.slow
def test_a_token_that_expires_in_the_middle_is_renewed_and_nobody_notices(
    made: Made, sim: Simulated, tmp_path: Path
) -> None:
    sim.fault("docai.process", "401", calls=[3])
    key = tmp_path / "account.json"
    key.write_text(json.dumps(account("x") | {"token_uri": f"{sim.base}/google/token"}))
    app = made(max_pages=2, FOREBAY_DOCAI_TOKEN="", FOREBAY_DOCAI_CREDENTIALS=str(key))
    identifier = submit(app, pages(12))
    work(app)
    assert [task.status for task in chunks(app, identifier)] == [Status.COMPLETED] * 6
    assert {task.retry_count + task.reschedule_count for task in chunks(app, identifier)} == {0}
    assert len(sim.calls("docai.process")) == 7
    assert len(sim.calls("docai.token")) == 2


@pytest.mark.slow
def test_credentials_that_nobody_takes_pause_the_limit_and_fail_nothing(made: Made, sim: Simulated) -> None:
    sim.fault("docai.process", "401")
    app = made(max_pages=1)
    identifier = submit(app, pages(60))
    work_until(app, lambda: app.limiter.usage("docai").paused)
    refused = len(sim.calls("docai.process"))
    assert refused <= 2 * QUICK.in_flight  # type: ignore[operator]  # those that were under way
    counts = {task.status for task in chunks(app, identifier)}
    assert counts == {Status.PENDING}
    sim.change(faults=[])
    app.limiter.resume("docai")
    work(app)
    job = app.get(identifier)
    assert isinstance(job, Job)
    assert job.status == Status.COMPLETED


@pytest.mark.slow
def test_a_quota_that_is_used_up_parks_the_limit(made: Made, sim: Simulated) -> None:
    sim.fault("docai.process", "quota", calls=[1])
    sim.change(quotas={"docai": {"month": {"n": 3}}})
    app = made(Limit("docai", in_flight=1), max_pages=2)
    identifier = submit(app, pages(20))
    work_until(app, lambda: "quota" in app.limiter.usage("docai").blocked_by)
    assert len(sim.calls("docai.process")) <= 4
    assert Status.FAILED not in {task.status for task in chunks(app, identifier)}


@pytest.mark.slow
def test_no_secret_is_in_any_file_that_is_left(made: Made, sim: Simulated, tmp_path: Path) -> None:
    sim.fault("docai.process", "401")
    app = made(max_pages=1)
    submit(app, pages(2))
    work_until(app, lambda: app.limiter.usage("docai").paused)
    app.close()
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"ocr.docai" in path.read_bytes() for path in left)
    assert not [path for path in left if TOKEN.encode() in path.read_bytes()]


LIMITS = """
[limits.docai]
in_flight = 3
call_timeout_s = 4
lease_s = 1.5
heartbeat_s = 0.5
"""
SLOW_S = 3


@pytest.mark.slow
def test_what_is_killed_between_call_and_result_repeats_no_more_than_was_under_way(
    sim: Simulated, tmp_path: Path
) -> None:
    sim.change(latency={"docai": {"kind": "fixed", "s": 0.3}}, sticky=True)
    # Those of the second three last long enough that they are still under way when their process is killed.
    sim.fault("docai.process", f"slow s={SLOW_S}", calls=[4, 5, 6])
    (tmp_path / "scan.pdf").write_bytes(pages(180))
    (tmp_path / "forebay.toml").write_text(LIMITS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    environ = kept | sim.environment | PROCESSOR
    environ |= {"FOREBAY_DOCAI_TOKEN": TOKEN, "FOREBAY_HOME": str(tmp_path / "home"), "FOREBAY_LEASE_S": "1"}
    command = [sys.executable, "-m", "forebay", "run", "scan.pdf", "--processor", "docai"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=tmp_path, env=environ, start_new_session=True, stdout=quiet, stderr=quiet)
    with Forebay(settings=load(environ=environ, cwd=tmp_path)) as app:

        def under_way() -> int:
            """Calls without a stored result."""
            stored = app.ledger.list_tasks(Query(role=Role.CHUNK, status=Status.COMPLETED)).items
            return len(sim.calls("docai.process")) - len(stored)

        kill_when(process, lambda: len(sim.calls("docai.process")) == 6 and under_way() == 3)
        lost = under_way()
    assert 1 <= lost <= 3
    subprocess.run(command, cwd=tmp_path, env=environ, check=True, capture_output=True, timeout=150)
    seen = sim.verdict()
    assert seen["chunks"] == 6
    assert seen["chunks"] < seen["calls"] <= seen["chunks"] + lost
    assert seen["peak_in_flight"] <= 3
    text = (tmp_path / "scan.md").read_text()
    assert [f"Page {number} of" in text for number in range(1, 181)] == [True] * 180


def kill_when(process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    """With -9, and its children with it."""
    try:
        until(lambda: process.poll() is not None or ready())
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


TAGS = {
    "type": "object",
    "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["tags"],
    "additionalProperties": False,
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["openai", "azure"])
def test_questions_keep_to_a_quota_of_tokens(made: Made, sim: Simulated, backend: str) -> None:
    route = "openai" if backend == "openai" else "azure"
    windows = [{"n": 3000, "per_s": 1, "unit": "tokens"}, {"n": 50, "per_s": 1}]
    sim.change(quotas={route: {"windows": windows}})
    app = made(
        Limit("llm", in_flight=10, windows=[Window(3000, per_s=1, unit="tokens"), Window(50, per_s=1)]),
        QUICK,
        FOREBAY_LLM_BACKEND=backend,
        FOREBAY_LLM_URL=sim.addresses[route],
        FOREBAY_LLM_MODEL="m",
        FOREBAY_LLM_API_KEY="canary-llm",
    )

    @app.task("tag", limit="llm", slot="call")
    async def tag(ctx: Context, text: str) -> dict[str, Any]:
        return await app.llm.ask(ctx, "You tag.", text, TAGS)

    made_ids = [app.submit("tag", {"text": f"The river number {number} waits."}).id for number in range(8)]
    work(app)
    answers = [app.result(each) for each in made_ids]
    assert all(isinstance(each, dict) and each["tags"] for each in answers)
    seen = sim.verdict()
    assert (seen["refused_429"], seen["calls"]) == (0, 8)
    assert seen["within_quotas"]


ASKS = """
from forebay import Forebay, Limit

app = Forebay()
app.limit(Limit("llm", in_flight=3, call_timeout_s=4, lease_s=1.5, heartbeat_s=0.5))
TAGS = {tags}


@app.task("tag", limit="llm", slot="call", timeout_s=20)
async def tag(ctx, text):
    return await app.llm.ask(ctx, "You tag.", text, TAGS)
"""


@pytest.mark.slow
def test_questions_of_a_killed_worker_are_asked_again_and_no_others(sim: Simulated, tmp_path: Path) -> None:
    sim.fault("openai.chat", f"slow s={SLOW_S}", calls=[4, 5, 6])
    target = tmp_path / "asks.py"
    target.write_text(ASKS.replace("{tags}", repr(TAGS)))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    environ = kept | sim.environment
    environ |= {"FOREBAY_LLM_URL": sim.addresses["openai"], "FOREBAY_LLM_MODEL": "m", "FOREBAY_LLM_API_KEY": "k"}
    environ |= {"FOREBAY_HOME": str(tmp_path / "home"), "FOREBAY_LEASE_S": "1"}
    command = [sys.executable, "-m", "forebay", "worker", f"{target}:app"]
    quiet = subprocess.DEVNULL
    with Forebay(settings=load(environ=environ, cwd=tmp_path)) as app:
        asked = [app.submit("tag", {"text": f"The river number {number} waits."}).id for number in range(6)]

        def under_way() -> int:
            """Calls without a stored answer."""
            return len(sim.calls("openai.chat")) - len(app.ledger.list_tasks(Query(status=Status.COMPLETED)).items)

        process = subprocess.Popen(command, env=environ, start_new_session=True, stdout=quiet, stderr=quiet)
        kill_when(process, lambda: len(sim.calls("openai.chat")) == 6 and under_way() == 3)
        lost = under_way()
        assert 1 <= lost <= 3
        again = subprocess.Popen(command, env=environ, start_new_session=True, stdout=quiet, stderr=quiet)
        try:
            answers = [app.result(each, timeout_s=40) for each in asked]
        finally:
            again.terminate()
            again.wait(20)
    assert all(isinstance(each, dict) and each["tags"] for each in answers)
    assert len(sim.calls("openai.chat")) == len(asked) + lost
    assert sim.verdict()["peak_in_flight"] <= 3
