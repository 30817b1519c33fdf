from __future__ import annotations

import math

import pytest

from forebay.errors import BadInput, BadName, BadPayload
from forebay.ids import shown
from forebay.model.outcome import Canceled, Completed, Failed, Rescheduled
from tests.unit.builders import assert_helpful


@pytest.mark.parametrize(
    "value",
    [-1, math.nan, math.inf, 10**5000, "5", True],
    ids=shown,
)
def test_a_bad_delay_is_refused(value: float) -> None:
    with pytest.raises(BadInput, match="delay_s") as failed:
        Failed(error_class="timeout", text="60 s", delay_s=value)
    with pytest.raises(BadInput, match="delay_s") as rescheduled:
        Rescheduled(delay_s=value)
    with pytest.raises(BadInput, match="until") as later:
        Rescheduled(until=value)
    for caught in (failed, rescheduled, later):
        assert_helpful(caught.value)


def test_a_reschedule_takes_a_delay_or_an_instant() -> None:
    assert Rescheduled(delay_s=0).delay_s == 0
    assert Rescheduled(until=5.0).until == 5.0
    for delay_s, until in ((None, None), (1.0, 5.0)):
        with pytest.raises(BadInput, match="either delay_s or until") as caught:
            Rescheduled(delay_s=delay_s, until=until)
        assert_helpful(caught.value)


def test_a_century_is_not_too_long_to_sleep() -> None:
    assert Rescheduled(delay_s=100 * 365 * 86_400).delay_s == 100 * 365 * 86_400


def test_a_failure_needs_no_delay_and_a_stop_no_words() -> None:
    failed = Failed(error_class="timeout", text="60 s")
    assert (failed.delay_s, failed.permanent) == (None, False)
    assert Canceled().text == "Canceled"


def test_a_result_is_json_text_or_none() -> None:
    assert [Completed(result_json=text).result_json for text in (None, "null", "[1]")] == [None, "null", "[1]"]
    for text in ("[", "NaN", {"a": 1}):
        with pytest.raises(BadPayload, match="result") as caught:
            Completed(result_json=text)  # type: ignore[arg-type]  # the point of this test
        assert_helpful(caught.value)


def test_a_reschedule_keeps_a_class_that_is_a_name() -> None:
    assert Rescheduled(delay_s=1, error_class="auth").error_class == "auth"
    with pytest.raises(BadName, match="error class") as caught:
        Rescheduled(delay_s=1, error_class="a\nb")
    assert_helpful(caught.value)
