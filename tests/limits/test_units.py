"""A call says what it takes of every unit that its limit counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from forebay.app.forebay import Forebay
from forebay.errors import Busy, NeverFits
from forebay.limits import Limit, Limiter, Window
from forebay.limits.share import Share
from forebay.rules import limit_actions
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process
from tests.unit.builders import assert_helpful

TOKENS = Limit("llm", windows=[Window(10, per_s=60), Window(1000, per_s=60, unit="tokens")])


@pytest.fixture
def limiter() -> Iterator[Limiter]:
    with Limiter("memory://") as made:
        made.define(TOKENS)
        made.define(Limit("calls", in_flight=1, windows=[Window(10, per_s=60)]))
        yield made


def test_a_unit_that_is_left_out_is_an_error(limiter: Limiter) -> None:
    with pytest.raises(NeverFits, match="counts tokens") as caught, limiter.slot("llm", timeout_s=5):
        pass
    assert caught.value.unnamed == "tokens"
    assert_helpful(caught.value)
    assert limiter.usage("llm").windows[0].used == 0


def test_it_is_one_in_an_event_loop_and_for_who_tries_once(limiter: Limiter) -> None:
    async def ask() -> None:
        async with limiter.slot("llm", units={"calls": 1}, timeout_s=5):
            pass

    with pytest.raises(NeverFits):
        asyncio.run(ask())
    with pytest.raises(NeverFits):
        limiter.try_slot("llm")


def test_none_of_a_unit_is_said_by_0(limiter: Limiter) -> None:
    with limiter.slot("llm", units={"tokens": 0}) as slot:
        slot.settle({"tokens": 7})


def test_a_call_is_one_call_by_itself(limiter: Limiter) -> None:
    with limiter.slot("calls"):
        pass


def test_a_settle_need_not_name_all(limiter: Limiter) -> None:
    with limiter.slot("llm", units={"tokens": 10}) as slot:
        slot.settle({"calls": 1})


@pytest.mark.parametrize("units", [None, {"calls": 1}, "function"])
def test_a_task_that_leaves_a_unit_out_fails_and_others_are_done(units: object) -> None:
    with Forebay("memory://", limits="memory://") as app:
        app.limit(TOKENS)

        @app.task("forgets", limit="llm", units=(lambda: None) if units == "function" else units)  # type: ignore[arg-type]
        async def forgets(_ctx: object) -> None: ...

        @app.task("names", limit="llm", units=lambda: {"tokens": 5})
        async def names(_ctx: object) -> str:
            return "done"

        task, other = app.submit("forgets", {}), app.submit("names", {})
        app.work(until_idle=True)
        failed = app.wait(task.id, timeout_s=5)
        assert failed.status == "failed"
        assert "counts tokens" in str(failed.error_text)
        assert app.wait(other.id, timeout_s=5).result == "done"
        assert app.limiter.usage("llm").windows[0].used == 1


@pytest.mark.slow
def test_a_handler_that_leaves_a_unit_out_of_its_own_call_hears_of_it() -> None:
    with Forebay("memory://", limits="memory://") as app:
        app.limit(TOKENS)

        @app.task("call", limit="llm", slot="call")
        async def call(ctx: object) -> str:
            try:
                async with ctx.slot():  # type: ignore[attr-defined]
                    return "let in"
            except NeverFits as error:
                return error.unnamed

        task = app.submit("call", {})
        app.work(until_idle=True)
        assert app.wait(task.id, timeout_s=5).result == "tokens"


PAGES = Limit("layout", in_flight={"calls": 3, "pages": 100})


def test_units_in_flight_are_bounded_named_and_shown(limiter: Limiter) -> None:
    limiter.define(PAGES)
    with pytest.raises(NeverFits, match="counts pages") as unnamed, limiter.slot("layout"):
        pass
    assert unnamed.value.unnamed == "pages"
    with pytest.raises(NeverFits, match="101 pages never fits into 100 pages in flight") as large:
        limiter.slot("layout", units={"pages": 101}).take()
    assert_helpful(large.value)
    with pytest.raises(NeverFits, match="counts no 'words'"):
        limiter.slot("layout", units={"pages": 1, "words": 1}).take()
    with limiter.slot("layout", units={"pages": 70}):
        with pytest.raises(Busy) as busy:
            limiter.slot("layout", units={"pages": 31}, timeout_s=0).take()
        assert busy.value.blocked_by == ("100 pages in flight",)
        usage = limiter.usage("layout")
        assert [(each.unit, each.n, each.used, each.free) for each in usage.units_in_flight] == [("pages", 100, 70, 30)]
        assert usage.plain()["units_in_flight"][0]["utilisation"] == 0.7
        assert (usage.in_flight, usage.free, usage.limit.in_flight) == (1, 2, 3)
    assert limiter.usage("layout").units_in_flight[0].used == 0


def test_a_share_of_units_in_flight_is_rounded_down_and_counts_what_is_held() -> None:
    held: dict[str, int] = {"pages": 0}
    terms = limit_actions.terms_of(PAGES)
    share = Share("layout", terms, 3, lambda: int(held["pages"] > 0), lambda unit: held[unit])
    assert share.bounds == {"in_flight": 1, "in_flight_units": ("33 pages in flight",), "windows": ()}
    waiter = Process(share, HandClock(), "a", limit="layout")
    held["pages"] = 10
    assert share.bounds["in_flight_units"] == ("33 pages in flight",)
    share._in_flight = -1
    assert waiter.wants(1, {"pages": 24}) == []
    waiter.line.clear()
    assert len(waiter.wants(1, {"pages": 23})) == 1
