"""What a handler says through its context."""

from typing import Any, cast

import pytest

from forebay.engine.content import Content
from forebay.engine.context import Context
from forebay.engine.signals import Stopped
from forebay.errors import BadInput
from tests.engine.ground import TASK


class Told:
    def __init__(self) -> None:
        self.shares: list[float] = []

    def progress(self, share: float, note: str) -> None:
        self.shares.append(share)


def context(told: Told) -> Context:
    return Context(TASK, cast("Any", told), cast("Content", None), calls=cast("Any", None))


def test_of_many_steps_in_a_row_the_first_and_the_last_are_told() -> None:
    told = Told()
    speaking = context(told)
    for step in range(1000):
        speaking.progress(step / 1000)
    speaking.progress(1)
    assert told.shares[0] == 0
    assert told.shares[-1] == 1
    assert len(told.shares) < 20


def test_a_few_steps_in_a_row_are_all_told() -> None:
    told = Told()
    speaking = context(told)
    for step in range(8):
        speaking.progress(step / 10)
    assert told.shares == [step / 10 for step in range(8)]


@pytest.mark.parametrize("share", [float("nan"), "half", None])
def test_what_is_no_share_is_refused(share: object) -> None:
    with pytest.raises(BadInput, match="from 0 to 1"):
        context(Told()).progress(cast("float", share))


def test_progress_is_a_checkpoint() -> None:
    speaking = context(Told())
    speaking.stop()
    with pytest.raises(Stopped):
        speaking.progress(0.5)
