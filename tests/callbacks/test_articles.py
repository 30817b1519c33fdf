"""A document that is cut into articles tells of each of them, and then of itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.callbacks.receiver import Receiver
from tests.segment.ground import COMPLETED, TEXT, Ground

Make = Callable[..., Receiver]


@pytest.mark.slow
def test_each_article_and_the_end_are_told_with_links_to_follow(receiver: Make, tmp_path: Path) -> None:
    hook = receiver()
    url = hook.url()
    with Ground(tmp_path, callback_loopback="allow", public_url="https://forebay.example/") as here:
        hook.knows(here.app.callbacks.secret(here.app.callbacks.known_endpoint(url)))
        job = here.run(TEXT, callback=url, callback_each=True)
        assert job.status is COMPLETED
        here.work_until(lambda: len(hook.seen) == 4)
    assert all(each["verified"] for each in hook.seen)
    bodies = sorted((json.loads(each["body"]) for each in hook.seen), key=lambda body: body["data"]["sequence"])
    assert [body["type"] for body in bodies] == ["chunk.completed"] * 3 + ["job.completed"]
    assert {body["data"]["chunk_index"] for body in bodies[:3]} == {0, 1, 2}
    assert {body["data"]["pipeline"] for body in bodies} == {"segment"}
    link = f"https://forebay.example/v1/jobs/{job.id}"
    index = bodies[0]["data"]["chunk_index"]
    assert bodies[0]["data"]["links"] == {
        "job": link,
        "chunk": f"{link}/chunks/{index}",
        "chunks": f"{link}/chunks",
    }
    assert bodies[3]["data"]["links"] == {"job": link, "result": f"{link}/result"}
    assert "basin" not in "".join(each["body"] for each in hook.seen)


def told_with_results(receiver: Make, tmp_path: Path, **settings: str) -> list[dict[str, Any]]:
    hook = receiver()
    url = hook.url("500", "ok")  # whatever is sent again is the same
    with Ground(tmp_path, callback_loopback="allow", **settings) as here:
        here.app.callbacks.schedule_s = (0.05,) * 5
        hook.knows(here.app.callbacks.secret(here.app.callbacks.known_endpoint(url)))
        here.run(TEXT, callback=url, callback_each=True, callback_results=True)
        here.work_until(lambda: len({each["id"] for each in hook.seen if each["said"] == "ok"}) == 4)
    assert all(each["verified"] for each in hook.seen)
    assert len({(each["id"], each["body"]) for each in hook.seen}) == 4
    bodies = {each["id"]: json.loads(each["body"]) for each in hook.seen}
    return sorted(bodies.values(), key=lambda body: body["data"]["sequence"])


@pytest.mark.slow
def test_callbacks_carry_the_articles_where_that_was_asked_for(receiver: Make, tmp_path: Path) -> None:
    bodies = told_with_results(receiver, tmp_path)
    articles = {body["data"]["chunk_index"]: body["data"]["result"] for body in bodies[:3]}
    assert [articles[index]["ordinal"] for index in sorted(articles)] == [1, 2, 3]
    assert all({"title", "text", "lang", "tags"} <= article.keys() for article in articles.values())
    whole = bodies[3]["data"]["result"]
    assert [article["text"] for article in whole["articles"]] == [articles[index]["text"] for index in sorted(articles)]
    assert all(body["data"]["result_omitted"] is None for body in bodies)


def test_a_result_that_is_too_large_is_left_out_and_said_so(receiver: Make, tmp_path: Path) -> None:
    bodies = told_with_results(receiver, tmp_path, callback_result_max_bytes="1024")
    last = bodies[3]["data"]
    assert (last["result"], last["result_omitted"]) == (None, "too_large")
    assert "result" in last["links"]
