"""A document that is cut into articles tells of each of them, and then of itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.callbacks.receiver import Receiver
from tests.segment.ground import COMPLETED, TEXT, Ground

Make = Callable[..., Receiver]


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
    assert {body["data"]["chunk_index"] for body in bodies[:3]} == {1, 2, 3}
    assert {body["data"]["pipeline"] for body in bodies} == {"segment"}
    link = f"https://forebay.example/v1/jobs/{job.id}"
    assert bodies[0]["data"]["links"] == {"job": link, "chunks": f"{link}/chunks"}
    assert bodies[3]["data"]["links"] == {"job": link, "result": f"{link}/result"}
    assert "basin" not in "".join(each["body"] for each in hook.seen)
