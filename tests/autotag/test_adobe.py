"""Adobe's processor through the engine, judged by what the simulator saw."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable
from pathlib import Path

import pikepdf
import pytest

from forebay import Forebay
from forebay.app.working import awork
from forebay.errors import BadInput
from forebay.model.budget import Budget
from forebay.model.task import Status
from forebay.rules.why import Reason
from forebay.testing import Simulated
from tests.autotag.ground import Ground, checked, words
from tests.pipelines.ground import pdf

COMPLETED = Status.COMPLETED


@pytest.mark.slow
def test_a_document_in_chunks_comes_back_as_one_with_all_its_tags(here: Ground) -> None:
    job = here.run(5)
    assert (job.status, job.pipeline, job.chunk_count) == (COMPLETED, "autotag", 3)
    whole = here.result(job)
    assert words(whole) == [("/P", f"Page {number}") for number in range(1, 6)]
    said = checked(whole)
    assert (said["page_count"], said["mark_count"], said["problem_count"]) == (5, 5, 0)
    assert here.calls("assets") == here.calls("autotag") == 3
    assert here.used()["transactions"] == 50
    assert here.sim.verdict()["routes"]["adobe.job"]["units"]["transactions"] == 50
    # Tokens go past the quota that counts the others, and are counted here all the same.
    counted = sum(here.calls(route) for route in ("assets", "autotag", "status", "token"))
    assert here.used()["calls"] == counted


@pytest.mark.slow
def test_what_was_tagged_is_not_paid_again(here: Ground) -> None:
    first = here.run(5)
    again = here.run(5, allow_holes=True)
    assert again.id != first.id
    assert here.result(again) == here.result(first)
    assert here.calls("autotag") == 3


@pytest.mark.slow
def test_a_job_that_takes_long_is_slept_through_and_no_worker_waits(here: Ground) -> None:
    here.sim.change(latency={"adobe.job": {"s": 1.5}})
    job = here.run(2)
    assert job.status is COMPLETED
    (chunk,) = here.chunks(job.id)
    assert chunk.reschedule_count == here.calls("status")
    assert chunk.retry_count == 0
    spent = [attempt.ended_at - attempt.claimed_at for attempt in here.app.history(chunk.id)]
    assert max(spent) < 1.5


@pytest.mark.slow
def test_a_token_that_runs_out_in_the_middle_of_a_job_is_renewed_once(here: Ground) -> None:
    here.sim.change(latency={"adobe.job": {"s": 1.0}})
    job_id = here.submit(5)
    here.work_until(lambda: here.calls("autotag") == 3)
    here.sim.expire_tokens()
    here.work()
    assert here.job(job_id).status is COMPLETED
    assert here.calls("autotag") == 3
    assert here.calls("token") == 2
    assert {chunk.retry_count for chunk in here.chunks(job_id)} == {0}


@pytest.mark.slow
def test_a_client_that_is_refused_pauses_the_limit_and_fails_nothing(here: Ground) -> None:
    here.sim.fault("adobe.token", "401")
    job_id = here.submit(20)
    here.work_until(lambda: here.app.limiter.usage("adobe").paused)
    assert {chunk.status for chunk in here.chunks(job_id)} == {Status.PENDING}
    assert here.calls("token") < 10
    assert here.calls("assets") == 0
    assert "auth" in here.app.limiter.usage("adobe").note


@pytest.mark.slow
def test_a_token_that_is_refused_again_and_again_pauses_the_limit(here: Ground) -> None:
    here.sim.fault("adobe.assets", "401")
    job_id = here.submit(20)
    here.work_until(lambda: here.app.limiter.usage("adobe").paused)
    assert {chunk.status for chunk in here.chunks(job_id)} == {Status.PENDING}
    assert here.calls("assets") <= 2 * 4 + 4  # each that was under way: once, and once more with another token


@pytest.mark.slow
def test_a_quota_that_is_used_up_parks_what_waits_and_fails_nothing(here: Ground) -> None:
    here.sim.fault("adobe.autotag", "quota")
    job_id = here.submit(8)
    here.work_until(lambda: any(chunk.error_class == "quota_exhausted" for chunk in here.chunks(job_id)))
    asked = here.calls("autotag")
    assert 1 <= asked <= 4
    assert {chunk.status for chunk in here.chunks(job_id)} == {Status.PENDING}
    reasons: tuple[Reason, ...] = here.app.why(here.chunks(job_id)[-1].id)
    assert reasons
    assert here.app.limiter.usage("adobe").cooldown_for_s > 600
    assert here.job(job_id).status is Status.RUNNING


@pytest.mark.slow
@pytest.mark.parametrize("route", ["assets", "autotag", "status"])
def test_both_kinds_of_429_cool_the_limit_down_and_burn_no_retry(here: Ground, route: str) -> None:
    here.sim.fault(f"adobe.{route}", "429 form=seconds after=0.3", times=1)
    job = here.run(2)
    assert job.status is COMPLETED
    (chunk,) = here.chunks(job.id)
    assert chunk.retry_count == 0
    assert [call["status"] for call in here.sim.calls(f"adobe.{route}")].count(429) == 1
    assert here.sim.verdict()["paid_more_than_once"] == 0


@pytest.mark.slow
def test_broken_answers_to_polls_and_downloads_are_asked_for_again_and_nothing_is_paid_again(here: Ground) -> None:
    faults = {"adobe.status": ["502", "garbage", "truncate"], "adobe.download": ["truncate", "garbage", "reset"]}
    for route, kinds in faults.items():
        for number, kind in enumerate(kinds, 1):
            here.sim.fault(route, kind, calls=[number])
    job = here.run(6)
    assert job.status is COMPLETED
    assert here.calls("autotag") == 3
    tried = [attempt for chunk in here.chunks(job.id) for attempt in here.app.history(chunk.id)]
    classes = [attempt.error_class for attempt in tried if attempt.error_class]
    assert sorted(classes) == [*["bad_response"] * 4, "network_error", "service_unavailable"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["garbage", "cut", "reset"])
def test_a_job_that_has_begun_is_known_though_the_rest_of_the_answer_was_lost(here: Ground, fault: str) -> None:
    here.sim.fault("adobe.autotag", fault, calls=[1])
    assert here.run(2).status is COMPLETED
    assert here.calls("autotag") == 1
    assert here.sim.verdict()["paid_more_than_once"] == 0


@pytest.mark.slow
def test_a_page_that_is_too_complex_is_found_and_named(here: Ground) -> None:
    here.sim.fault("adobe.autotag", "bad_pdf", calls=[1, 2])
    job = here.run(2, allow_holes=True)
    assert job.status is COMPLETED
    (hole,) = here.summary(job)["holes"]
    assert hole["error_class"] == "refused"
    assert "too complex" in hole["error_text"]
    number = hole["page_start"]
    whole = here.result(job)
    assert words(whole) == [("/P", f"Page {3 - number}")]
    assert checked(whole, (number, number))["problem_count"] == 0
    with pikepdf.open(io.BytesIO(whole)) as opened:
        assert len(opened.pages) == 2
        assert opened.Root.MarkInfo.Suspects


@pytest.mark.slow
def test_what_adobe_no_longer_has_starts_over_and_is_counted(here: Ground) -> None:
    here.sim.change(adobe={"asset_ttl_s": 1.5})
    job_id = here.submit(2)
    here.work_until(lambda: here.calls("autotag") == 1)
    time.sleep(1.6)
    here.sim.change(adobe={"asset_ttl_s": 3600})
    here.work()
    assert here.job(job_id).status is COMPLETED
    assert here.calls("autotag") == 2
    assert here.used()["transactions"] == 40
    assert here.chunks(job_id)[0].retry_count == 1


@pytest.mark.slow
def test_pages_of_a_size_that_adobe_does_not_take_are_refused_before_anything_is_sent(
    here: Ground, tmp_path: Path
) -> None:
    with pikepdf.open(io.BytesIO(pdf(5))) as made:
        made.pages[3].MediaBox = pikepdf.Array([0, 0, 595, 1300])
        made.save(tmp_path / "long.pdf")
    job = here.app.process(tmp_path / "long.pdf", processor="adobe")
    here.work()
    assert here.job(job.id).status is Status.FAILED
    assert "Page 4 is not of a size that is taken" in (here.job(job.id).error_text or "")
    assert here.sim.calls() == []
    holed = here.app.process(tmp_path / "long.pdf", processor="adobe", allow_holes=True)
    here.work()
    assert here.job(holed.id).status is COMPLETED
    assert words(here.result(here.job(holed.id))) == [("/P", f"Page {number}") for number in (1, 2, 3, 5)]


@pytest.mark.slow
def test_a_budget_of_transactions_stops_before_the_job_and_not_the_polls_of_one(here: Ground) -> None:
    here.app.budget(Budget(unit="transactions", most=45, processor="adobe"))
    here.sim.change(latency={"adobe.job": {"s": 0.5}})
    job_id = here.submit(6)
    here.work_until(lambda: sum(chunk.status is COMPLETED for chunk in here.chunks(job_id)) == 2)
    assert here.calls("autotag") == 2
    assert [chunk.wait_reason for chunk in here.chunks(job_id) if chunk.status is Status.PENDING] == ["budget"]


@pytest.mark.slow
def test_no_secret_is_kept_or_sent_to_the_storage(here: Ground, sim: Simulated) -> None:
    job = here.run(2)
    assert job.status is COMPLETED
    for path in here.folder.rglob("*"):
        if path.is_file():
            assert b"canary-secret" not in path.read_bytes()
            assert b"Bearer" not in path.read_bytes()
    # The simulator's storage refuses whoever shows it a credential.
    assert {call["status"] for route in ("upload", "download") for call in sim.calls(f"adobe.{route}")} == {200}


def test_a_worker_where_nobody_has_said_how_much_adobe_takes_does_its_other_work(
    sim: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"URL": sim.base, "CLIENT_ID": "client", "CLIENT_SECRET": "canary-secret"}.items():
        monkeypatch.setenv(f"FOREBAY_ADOBE_{name}", value)
    with Forebay(f"sqlite:///{tmp_path}/forebay.db", blobs=f"file://{tmp_path}/blobs") as app:
        done = app.process(io.BytesIO(pdf(1)), name="a.pdf", options={"ocr": "never"}).id

        async def beside(drain: Callable[[str], None]) -> None:
            while (await asyncio.to_thread(app.get, done)).status is not COMPLETED:  # noqa: ASYNC110 - same
                await asyncio.sleep(0.05)
            drain("seen")

        asyncio.run(asyncio.wait_for(awork(app, beside), 30))
        with pytest.raises(BadInput, match="limits set adobe --preset adobe"):
            asyncio.run(awork(app, beside, needs="autotag.adobe"))
