"""Where something stands: `why`, `get`, `list` and `limits show` are asked at once, and say the same."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from forebay import ids
from forebay.app.forebay import Forebay
from forebay.clock import SystemClock
from forebay.limits import Limit, Limiter, Window
from forebay.model.exchange import Session
from forebay.model.outcome import Failed
from forebay.settings import load
from forebay.testing.workers import Worker, action, lone
from tests.cli.ground import Ground

LANE = "work@api"
SECONDS = 3.0
"""How far apart answers may be that were asked for one after the other."""


@dataclass
class Scene:
    """A ledger with two tasks of a limited kind, and a limit; each situation changes something of it."""

    app: Forebay
    limiter: Limiter
    ids: list[str]
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def first(self) -> str:
        return self.ids[0]

    def call(self, **options: Any) -> None:  # noqa: ANN401 - those of a slot
        self.stack.enter_context(self.limiter.slot("api", timeout_s=0, **options))

    def worker(self) -> None:
        self.app.ledger.open_session(Session(id=ids.random_id(), worker="w", kinds=("work",), lease_s=60))


def open_(scene: Scene) -> None:
    scene.worker()


def no_worker(scene: Scene) -> None:
    assert scene.app.ledger.sessions() == []


def cool_down(scene: Scene) -> None:
    scene.worker()
    with scene.limiter.slot("api") as slot:
        slot.throttled(30)


def in_flight(scene: Scene) -> None:
    scene.worker()
    scene.call()
    scene.call()


def window(scene: Scene) -> None:
    scene.worker()
    scene.limiter.configure("api", in_flight=9, windows=[Window(2, 60)])
    scene.call()
    scene.call()


def pause_of_the_limit(scene: Scene) -> None:
    scene.worker()
    scene.limiter.pause("api", note="auth: 401")


def pause_of_the_lane(scene: Scene) -> None:
    scene.worker()
    scene.app.ledger.pause(LANE, action(note="they are down"))


def own_delay(scene: Scene) -> None:
    worker = Worker(scene.app.ledger, SystemClock(), lease_s=60)
    scene.worker()
    (claimed,) = worker.claim(1, "work")
    assert claimed.id == scene.first
    worker.settle(claimed, Failed(error_class="timeout", text="too slow", delay_s=30))


@dataclass(frozen=True)
class Expected:
    wait_reason: str | None
    eta_s: float | None
    binds: tuple[str, ...] = ()
    text: str = ""
    backoff_s: float = 0.0
    backoff_level: int = 0
    position: int | None = 1
    more_workers_help: bool | None = False


SITUATIONS: list[tuple[Callable[[Scene], None], Expected]] = [
    (open_, Expected(None, 0.0, more_workers_help=None)),
    (no_worker, Expected("no_worker", None, text="no worker that runs 'work' is alive", more_workers_help=True)),
    (
        cool_down,
        Expected("cooldown", 30.0, ("cooldown of api",), "cools down after a refusal", backoff_level=1),
    ),
    (in_flight, Expected("limit", 10.0, ("in_flight 2/2",), "2/2 calls in flight")),
    (window, Expected("limit", 60.3, ("2 calls per 60 s",), "has used 2 of 2 calls per 60 s")),
    (
        pause_of_the_limit,
        Expected("paused", None, ("pause of api",), "(auth: 401): `forebay limits resume api`"),
    ),
    (
        pause_of_the_lane,
        Expected("paused", None, (f"pause of lane {LANE}",), f"(they are down): `forebay lanes resume {LANE}`"),
    ),
    (own_delay, Expected("retry", 30.0, (), "1 of 3 used", backoff_s=30.0, backoff_level=1, position=None)),
]


@pytest.fixture
def scene(here: Ground) -> Iterator[Scene]:
    with Forebay(settings=load()) as app, app.limiter as limiter:
        limiter.define(Limit("api", in_flight=2, call_timeout_s=20.0, cooldown_s=(30.0,)))
        made = [each.id for each in app.ledger.submit([lone(n, limit="api") for n in range(2)])]
        scene = Scene(app, limiter, made)
        with scene.stack:
            yield scene


def near(found: float | None, expected: float | None) -> bool:
    if found is None or expected is None:
        return found is expected
    # A cool-down is made up to a fifth longer.
    return expected - SECONDS <= found <= 1.2 * expected + 0.01


@pytest.mark.parametrize(("situation", "expected"), SITUATIONS, ids=[each[0].__name__ for each in SITUATIONS])
def test_all_four_say_the_same(
    here: Ground, scene: Scene, situation: Callable[[Scene], None], expected: Expected
) -> None:
    situation(scene)
    wait_for(lambda: scene.limiter.usage("api"), expected)
    said = here.ok("why", scene.first, "-o", "json").json
    got = here.ok("get", scene.first, "-o", "json").json
    listed = next(each for each in here.ok("list", "-o", "json").json if each["id"] == scene.first)
    (lane,) = here.ok("limits", "show", "api", "-o", "json").json["lanes"]

    views = [said, got] if situation is own_delay else [said, got, lane]
    for view in views:
        assert view["wait_reason"] == expected.wait_reason
        assert near(view["eta_s"], expected.eta_s)
        assert (view["eta_at"] is None) == (expected.eta_s is None)
        assert view["more_workers_help"] is expected.more_workers_help
        assert tuple(view["binds"]) == expected.binds
        assert view["position"] == expected.position
        assert (view["limit"], view["backoff_level"]) == ("api", expected.backoff_level)
        assert near(view["backoff_s"], expected.backoff_s)
        assert (view["cooldown_until"] is not None) == (situation is cool_down)
    assert [listed[name] for name in ("wait_reason", "limit", "backoff_level")] == [
        got[name] for name in ("wait_reason", "limit", "backoff_level")
    ]
    assert "position" not in listed
    assert near(listed["backoff_s"], expected.backoff_s)
    assert expected.text in " ".join(reason["text"] for reason in said["reasons"])
    assert lane["ready_count"] == (1 if situation is own_delay else 2)


def wait_for(look: Callable[[], Any], expected: Expected) -> None:
    """What was told to the limit goes out with its next request."""
    ends_at = time.monotonic() + 30
    while expected.wait_reason == "cooldown" and not look().cooldown and time.monotonic() < ends_at:
        time.sleep(0.01)


@pytest.mark.slow
def test_people_read_the_same(here: Ground, scene: Scene) -> None:
    in_flight(scene)
    lines = here.ok("why", scene.ids[1]).lines
    assert lines[0] == "1. limit: limit 'api' has 2/2 calls in flight"
    assert lines[1] == f"2. line: 1 tasks are ahead of it in lane '{LANE}'"
    assert lines[2] == "position: 2 in its lane"
    assert lines[3].startswith("starts: about 2")
    assert lines[-1] == "more workers would not help (in_flight 2/2 binds)"
    got = {key: value.strip() for key, _, value in (line.partition(":") for line in here.ok("get", scene.ids[1]).lines)}
    assert (got["wait_reason"], got["limit"], got["position"], got["more_workers_help"]) == ("limit", "api", "2", "no")
    assert 10 <= float(got["eta_s"]) <= 20
    assert [line.split()[3] for line in here.ok("list").lines[1:]] == ["limit", "limit"]
    shown = here.ok("limits", "show", "api").lines
    at = next(index for index, line in enumerate(shown) if line.startswith("LANE"))
    assert re.fullmatch(rf"{LANE} 2 0 0 limit in about \d+ s would not help", " ".join(shown[at + 1].split()))


def test_a_list_of_what_cools_down_says_until_when(here: Ground, scene: Scene) -> None:
    cool_down(scene)
    wait_for(lambda: scene.limiter.usage("api"), Expected("cooldown", None))
    assert "cooldown, in " in here.ok("list").lines[1]


def test_what_has_ended_or_runs_has_no_place_in_line(here: Ground, scene: Scene) -> None:
    scene.app.cancel(scene.first)
    worker = Worker(scene.app.ledger, SystemClock(), lease_s=60)
    worker.claim(1, "work")
    got = here.ok("get", scene.first, "-o", "json").json
    assert (got["wait_reason"], "eta_s" in got) == (None, False)
    running = here.ok("get", scene.ids[1], "-o", "json").json
    assert (running["wait_reason"], running["position"], running["eta_s"]) == (None, None, None)


def test_a_limit_store_that_is_gone_is_told_beside_the_rest(
    here: Ground, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.worker()
    monkeypatch.setenv("FOREBAY_LIMITS", "redis://127.0.0.1:1/0")
    found = here.ok("why", scene.ids[1], "-o", "json").json
    assert [reason["code"] for reason in found["reasons"]] == ["limit", "line"]
    assert "its limit store does not answer" in found["reasons"][0]["text"]
    assert (found["position"], found["eta_s"], found["more_workers_help"]) == (2, None, None)
    assert here.ok("list").lines[1].split()[3] == "limit"


def test_limits_are_shown_without_a_ledger(here: Ground, scene: Scene) -> None:
    del scene
    answer = here.ok(
        "limits", "show", "api", "--ledger", "sqlite:///none.db", "--limits", limits_of(here), "-o", "json"
    )
    assert (answer.json["lanes"], answer.json["name"]) == (None, "api")


def limits_of(here: Ground) -> str:
    return f"sqlite:///{here.home}/forebay.db-limits.db"
