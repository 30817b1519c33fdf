"""Articles of a document that has not come to its end: those that are done, and which are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay import Context, Permanent
from forebay.model.exchange import Action
from forebay.processors.base import Chunk
from tests.pipelines.ground import pdf
from tests.segment.ground import ANSWER, TEXT, Ground
from tests.server.ground import Service, problem, serving

PARTIAL = {"partial": 1}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ground]:
    with Ground(tmp_path) as made:
        yield made


@pytest.fixture
def service(here: Ground) -> Iterator[Service]:
    with serving(here.app) as running:
        yield running


@pytest.mark.slow
def test_articles_are_handed_out_while_others_are_being_tagged(here: Ground, service: Service) -> None:
    async def answer(_: Context, chunk: Chunk) -> bytes:
        if chunk.page_start == 2:
            raise Permanent("It is torn", error_class="refused")
        return ANSWER

    here.register(answer)
    here.app.ledger.pause("segment.mine", Action(who="test"))
    job_id = service.submit(TEXT.encode(), params={"pipeline": "segment", "processor": "mine"})
    path = f"/v1/jobs/{job_id}/result"
    problem(service.get(path, params=PARTIAL), 409, "not_completed")
    here.work_until(lambda: len(here.chunks(job_id)) == 3)

    problem(service.get(path), 409, "not_completed")
    found = service.get(path, params=PARTIAL)
    assert found.status_code == 200, found.text
    assert standing(found.json()) == [(1, "not_yet"), (2, "not_yet"), (3, "not_yet")]
    assert found.json()["summary"]["untagged"] == [1, 2, 3]
    assert (found.headers["forebay-untagged"], found.headers["forebay-holes"]) == ("1-3", "")
    assert "etag" not in found.headers
    assert service.get(path, params=PARTIAL | {"format": "md"}).text.strip() == TEXT.strip()

    here.app.ledger.resume("segment.mine", Action(who="test"))
    here.work()
    problem(service.get(path), 409, "not_completed")
    found = service.get(path, params=PARTIAL)
    assert standing(found.json()) == [(1, None), (2, "refused"), (3, None)]
    assert [each["tags"] for each in found.json()["articles"]] == [["x"], [], ["x"]]
    assert found.headers["forebay-untagged"] == "2-2"


def test_an_unknown_format_is_answered_with_the_formats_of_its_own_pipeline(service: Service) -> None:
    path = f"/v1/jobs/{service.submit(TEXT.encode(), params={'pipeline': 'segment'})}/result"
    told = [problem(service.get(path, params={"format": name}), 422, "bad_input") for name in ("articles", "txt")]
    assert [each["detail"] for each in told] == ["There is no format 'articles'.", "There is no format 'txt'."]
    assert {each["remedy"] for each in told} == {"Formats are: md, json."}


@pytest.mark.slow
def test_pages_that_were_not_cut_into_articles_yet_are_holes(here: Ground, service: Service) -> None:
    ledger, lanes = here.app.ledger, ("segment.articles", "ocr.local")
    for lane in lanes:
        ledger.pause(lane, Action(who="test"))
    job_id = service.submit(pdf(2), params={"pipeline": "segment"})
    path = f"/v1/jobs/{job_id}/result"
    here.work_until(lambda: len(here.chunks(job_id)) == 2)
    for lane in reversed(lanes):
        found = service.get(path, params=PARTIAL)
        assert found.status_code == 200, found.text
        assert found.json()["articles"] == []
        (hole,) = found.json()["summary"]["holes"]
        assert (hole["page_start"], hole["page_end"], hole["error_class"]) == (1, 2, "not_yet")
        assert found.headers["forebay-holes"] == "1-2"
        assert service.get(path, params=PARTIAL | {"format": "md"}).text == ""
        ledger.resume(lane, Action(who="test"))
        here.work_until(lambda: here.job(job_id).pending_count < 2)
    here.work()
    assert service.get(path, params=PARTIAL).json() == here.result(here.job(job_id))


def standing(result: dict[str, Any]) -> list[tuple[int, str | None]]:
    """Each article, and why it has no language and no tags."""
    return [(each["ordinal"], each.get("missing", {}).get("error_class")) for each in result["articles"]]
