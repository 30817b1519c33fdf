from __future__ import annotations

import pytest

from tests.cli.ground import Ground


def test_a_plan_names_the_bound_that_binds_and_what_raising_it_gives(here: Ground) -> None:
    out = here.ok("plan", "--call-time", "30", "--in-flight", "150", "--window", "190/60", "--calls", "10000").out
    assert "binds:       190 calls per 60 s\nthroughput:  189.1 calls a minute\n" in out
    assert "crossover:   47.6 s: calls that take longer are bound by in_flight" in out
    assert "in_flight binds, at 300.0 calls a minute (+110.9)" in out
    assert "10000 calls take at least 3165.6 s (52 min), bound by 190 calls per 60 s" in out
    assert out.splitlines()[-1].split() == ["190", "calls", "per", "60", "s", "189.1", "100%"]
    assert not here.home.exists()


def test_a_plan_as_json_has_every_number(here: Ground) -> None:
    options = ["--window", "100/60:pages", "--units", "pages=15", "--callers", "3", "--call-time", "500ms"]
    found = here.ok("plan", *options, "-o", "json").json
    assert (found["binds"], found["call_s"], found["total"]) == ("100 pages per 60 s", 0.5, None)
    assert [each["name"] for each in found["bounds"]] == ["100 pages per 60 s", "callers"]


def test_a_preset_gives_the_bounds_and_what_is_given_here_wins(here: Ground) -> None:
    assert "binds:       in_flight" in here.ok("plan", "--preset", "docai", "--call-time", "2m").out
    answer = here.ok("plan", "--preset", "adobe", "--call-time", "30", "--window", "1000/60")
    assert "binds:       in_flight" in answer.out


def test_the_examples_say_what_is_wrong_in_what_is_often_said(here: Ground) -> None:
    out = here.ok("plan", "--examples").out
    assert "about 300 calls a minute" in out
    assert "300 calls a minute would break 190 per 60 s" in out
    found = here.ok("plan", "--examples", "-o", "json").json
    assert [each["plan"]["binds"] for each in found] == ["190 calls per 60 s"] * 3


WIDE_S = 60 + 0.25 + 0.05  # a call counts from its grant, which comes before it arrives


@pytest.mark.parametrize(("place", "call_s"), [(0, 5.0), (1, 30.0), (2, (5 + 30) / 2)], ids=["small", "large", "mixed"])
def test_the_numbers_of_the_three_workloads_are_those_of_plain_arithmetic(
    here: Ground, place: int, call_s: float
) -> None:
    found = here.ok("plan", "--examples", "-o", "json").json[place]["plan"]
    by_rate, by_flight = 190 / WIDE_S * 60, 150 / call_s * 60
    assert found["call_s"] == call_s
    assert (found["per_minute"], found["busy"]) == pytest.approx((by_rate, 190 / WIDE_S * call_s))
    assert [each["per_minute"] for each in found["bounds"]] == pytest.approx([by_flight, by_rate])
    assert [each["utilisation"] for each in found["bounds"]] == pytest.approx([by_rate / by_flight, 1.0])
    assert [each["call_s"] for each in found["crossovers"]] == pytest.approx([150 * WIDE_S / 190])
    raised = found["raised"]
    assert (raised["next_bound"], raised["per_minute"]) == ("in_flight", pytest.approx(by_flight))
    # With so many the rate does not bind any more, and with one less it does.
    assert (raised["needed"] - 1) / WIDE_S * 60 < by_flight <= raised["needed"] / WIDE_S * 60 + 1e-9


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--call-time", "30"],
        ["--call-time", "soon", "--in-flight", "5"],
        ["--call-time", "30", "--window", "100/60:pages"],
        ["--call-time", "30", "--window", "100/60:pages", "--units", "pages"],
        ["--call-time", "30", "--window", "100/60:pages", "--units", "pages=200"],
        ["--call-time", "30", "--in-flight", "0"],
        ["--call-time", "30", "--in-flight", "5", "--calls", "0"],
        ["--call-time", "30", "--in-flight", "5", "--callers", "-1"],
    ],
)
def test_what_cannot_be_planned_exits_2(here: Ground, options: list[str]) -> None:
    answer = here.run("plan", *options)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
