"""The progress of a running handler is in its ledger with the next heartbeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from forebay.errors import StoreUnreachable
from forebay.model.exchange import Hold, Progress, Renewal
from tests.engine.ground import Ground, run
from tests.servers.fresh import fresh_schema
from tests.servers.server import Server


@pytest.fixture(params=["sqlite", "postgresql"])
def here(
    ground: Callable[..., Ground],
    tmp_path: Path,
    postgres_server: Server,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    with fresh_schema(postgres_server) as found:
        address = found if request.param == "postgresql" else f"sqlite:///{tmp_path / 'ledger.db'}"
        monkeypatch.setenv("TEST_LEDGER", address)
        yield ground(lease_s=1.0)


def go_on(here: Ground, note: str) -> None:
    here.notes_file.with_name(f"after {note}").touch()


def shows(here: Ground, task_id: str, *expected: object) -> bool:
    task = here.task(task_id)
    return (task.progress, task.progress_note) == expected


@pytest.mark.parametrize("kind", ["reports", "reports_blocking"])
def test_get_shows_the_latest_progress_until_the_attempt_ends(here: Ground, kind: str) -> None:
    task = here.app.submit(kind, {"notes": ["one", "two"]}).id
    quiet = here.app.submit("sleeps", {"seconds": 0.5}).id

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: shows(here, task, 0.3333, "one"))
            assert shows(here, quiet, None, None)
            go_on(here, "one")
            await here.until(lambda: shows(here, task, 0.6666, "two"))
            go_on(here, "two")
            await here.ended(task)

    run(scenario)
    assert shows(here, task, None, None)


def test_a_renewal_that_fails_loses_no_progress(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    carried: list[Sequence[Progress]] = []
    renew = here.app.ledger.renew

    def fail_twice(session_id: str, holds: Sequence[Hold] = (), progress: Sequence[Progress] = ()) -> Renewal:
        if progress:
            carried.append(progress)
            if len(carried) <= 2:
                raise StoreUnreachable("The ledger does not answer.", remedy="Wait.")
        return renew(session_id, holds, progress)

    monkeypatch.setattr(here.app.ledger, "renew", fail_twice)
    task = here.app.submit("reports", {"notes": ["one"]}).id

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: shows(here, task, 0.5, "one"))
            go_on(here, "one")
            await here.ended(task)

    run(scenario)
    assert len(carried) >= 3
