from __future__ import annotations

import gc
import sys

import pytest

from forebay.app.working import run


async def setting() -> tuple[int, float, int]:
    return gc.get_threshold()[0], sys.getswitchinterval(), gc.get_freeze_count()


def test_a_worker_collects_rarely_and_hands_over_soon_and_puts_both_back() -> None:
    before = gc.get_threshold(), sys.getswitchinterval()
    threshold, switch_s, frozen = run(setting())
    assert threshold == 20_000
    assert switch_s == pytest.approx(0.001)
    assert frozen > 0
    assert (gc.get_threshold(), sys.getswitchinterval()) == before
    assert gc.get_freeze_count() == 0


def test_what_only_waits_leaves_the_interpreter_as_it_is() -> None:
    threshold, switch_s, _ = run(setting(), working=False)
    assert (threshold, switch_s) == (gc.get_threshold()[0], sys.getswitchinterval())


def test_a_program_that_never_collects_goes_on_like_that() -> None:
    usual = gc.get_threshold()
    gc.set_threshold(0)
    try:
        threshold, *_ = run(setting())
    finally:
        gc.set_threshold(*usual)
    assert threshold == 0
