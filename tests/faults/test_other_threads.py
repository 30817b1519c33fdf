"""An exception at any line of the other internal loops: reported, and the loop works on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from forebay.bridge import Call, StoreThread
from forebay.callbacks.alerting import Alert, Alerts
from forebay.engine.heart import Heart
from forebay.engine.lease import Lease
from forebay.limits import Limiter
from forebay.limits.follow import FollowedFile
from forebay.model.exchange import Hold, Progress, Renewal
from forebay.stores.memory.ledger import MemoryLedger
from tests.faults.injecting import Injected, Injector, Step
from tests.faults.test_limiter_threads import failures
from tests.limits.ground import until

SOON_S = 10.0


def store_thread() -> bool:
    """Steps are answered or fail, and a later one is answered."""

    def run(group: Sequence[Call[None]]) -> None:
        for call in group:
            call.future.set_result(call.step(None))

    thread: StoreThread[None] = StoreThread("forebay-test-store", run)
    first = [thread.submit(lambda _: "done") for _ in range(3)]
    errors = [future.exception(SOON_S) for future in first]
    assert all(error is None or isinstance(error, Injected) for error in errors)
    assert thread.submit(lambda _: "later").result(SOON_S) == "later"
    thread.close()
    return any(errors)


class _Renewing(MemoryLedger):
    def __init__(self) -> None:
        super().__init__()
        self.renewed = 0

    def renew(self, session_id: str, holds: Sequence[Hold] = (), progress: Sequence[Progress] = ()) -> Renewal:
        self.renewed += 1
        return Renewal(alive=True)


def heart() -> None:
    """The session is renewed again and again."""
    ledger = _Renewing()
    beating = Heart(
        ledger,
        "session",
        lease_s=0.3,
        lease=Lease(0.3),
        holds=lambda: (),
        progress=lambda: (),
        renewed=lambda _: beating.tick(),
    )
    beating.start()
    until(lambda: ledger.renewed > 4, SOON_S)
    beating.stop()


def alerts() -> None:
    """What is heard after the fault is told."""
    told: list[Alert] = []
    listening = Alerts(told.append).start()
    listening.heard("limit_degraded", {"limit": "a"})
    until(lambda: len(told) == 1 or listening._thread.failures.count, SOON_S)
    listening.heard("limit_degraded", {"limit": "b"})
    until(lambda: any(alert.data["limit"] == "b" for alert in told), SOON_S)
    listening.close()


def followed_file(tmp_path: Path) -> None:
    """A change of the file is found."""
    file = tmp_path / "forebay.toml"
    file.write_text("[limits.api]\nin_flight = 1\n")
    with Limiter("memory://") as limiter, FollowedFile(limiter, file, environ={}, every_s=0.01):
        file.write_text("[limits.api]\nin_flight = 22\n")
        until(lambda: limiter.usage("api").limit.in_flight == 22, SOON_S)
        until(lambda: threading.active_count() > 1, SOON_S)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("play", "file"),
    [
        (store_thread, "bridge.py"),
        (heart, "engine/heart.py"),
        (alerts, "callbacks/alerting.py"),
        (followed_file, "limits/follow.py"),
    ],
    ids=["store", "heart", "alerts", "file"],
)
def test_a_fault_at_every_line_is_reported_and_survived(
    play: Callable[..., bool | None], file: str, tmp_path: Path
) -> None:
    given = (tmp_path,) if play is followed_file else ()
    seen = Injector([file])
    with seen.on():
        play(*given)
    assert seen.steps
    for step in sorted(seen.steps):
        _hurt(play, given, file, step)


def _hurt(play: Callable[..., bool | None], given: tuple[Path, ...], file: str, step: Step) -> None:
    injector = Injector([file], step)
    with failures() as heard, injector.on():
        told_to_caller = play(*given)
    if injector.fired.is_set() and not told_to_caller:
        until(lambda: _told(heard), SOON_S)


def _told(heard: list[Mapping[str, object]]) -> bool:
    return any(each["error_class"] == "Injected" for each in heard)
