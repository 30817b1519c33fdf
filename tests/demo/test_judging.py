from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from forebay.demo.judging import Killed, Promise, late, promises, repeated
from forebay.model.task import Status
from tests.unit.builders import BLOB, NOW, task

OTHER = BLOB[::-1]
CHUNK = task(status=Status.COMPLETED, payload_blob=BLOB, result_blob=OTHER, finished_at=NOW)
QUOTAS = {"docai": {"in_flight": {"limit": 5, "peak": 5}, "windows": []}}


def call(at: float, fingerprint: str = BLOB, *, route: str = "docai.process", status: int = 200) -> dict[str, Any]:
    arrived_at = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    return {"route": route, "fingerprint": fingerprint, "status": status, "arrived_at": arrived_at}


def test_a_call_for_what_is_stored_is_late_and_one_before_is_not() -> None:
    assert late([call(NOW - 1)], [CHUNK]) == 0
    assert late([call(NOW - 1), call(NOW + 1)], [CHUNK]) == 1
    assert late([call(NOW + 1, OTHER), call(NOW + 1, route="adobe.status")], [CHUNK]) == 0


def test_the_first_result_counts_and_a_chunk_without_one_does_not() -> None:
    later = CHUNK._replace(finished_at=NOW + 10)
    assert late([call(NOW + 1)], [later, CHUNK]) == 1
    assert late([call(NOW + 1)], [CHUNK._replace(result_blob=None)]) == 0


def test_what_was_refused_is_not_made_again_by_being_called() -> None:
    assert repeated([call(1, status=429), call(2), call(3, OTHER)]) == 0
    assert repeated([call(1), call(2), call(3), call(4, OTHER)]) == 2


def test_a_promise_is_broken_by_one_too_many_and_by_one_too_few() -> None:
    assert Promise(text="", seen=5, most=5).held
    assert not Promise(text="", seen=6, most=5).held
    assert not Promise(text="", seen=4, most=5, least=5).held


def broken(*calls: dict[str, Any], whole: int = 3, killed: Killed | None = None, **seen: Any) -> list[str]:  # noqa: ANN401 - of a verdict
    verdict = {"quotas": QUOTAS, "refused_429": 0} | seen
    made = promises(verdict, calls, [CHUNK], whole_count=whole, document_count=3, killed=killed)
    return [each.text for each in made if not each.held]


def test_each_promise_is_broken_by_what_it_is_about_alone() -> None:
    killed = Killed(name="worker-1", pid=1, calls_under_way=1)
    again = [call(NOW - 9), call(NOW - 8)]
    assert broken(*again, killed=killed) == []
    assert broken(*again, call(NOW - 7), killed=killed) == ["calls made again because of the kill"]
    assert broken(whole=2, killed=killed) == ["documents done, with every page"]
    assert broken(killed=killed, refused_429=1) == ["calls refused with 429"]
    assert broken(call(NOW + 1), killed=killed) == ["calls after a stored result"]
    assert broken() == ["workers killed on the way"]
    over = {
        "docai": {
            "in_flight": {"limit": 5, "peak": 6},
            "windows": [{"unit": "calls", "per_s": 2, "limit": 1, "worst": 2}],
        }
    }
    assert broken(killed=killed, quotas=over) == ["docai: calls at once", "docai: calls in any 2 s"]
