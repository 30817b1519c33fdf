from __future__ import annotations

import copy
from typing import Any

import pytest

from forebay.errors import BadInput
from forebay.model.limit import FIELDS, Limit, Window
from forebay.model.limit_record import Layer, Record
from forebay.rules import admission, cooldown, limit_actions
from forebay.rules.limit_actions import LAYERS
from tests.unit.rules.limit_builders import NOW, ask_of, wish


def layer(name: str = "code", until: int = -1, **values: Any) -> Layer:  # noqa: ANN401 - any field
    stored = limit_actions.checked(values)
    return {"name": name, "values": stored, "ends_at": until, "set_at": NOW, "set_by": "ann", "note": ""}


def put(record: Record | None, name: str = "code", until: int = -1, **values: Any) -> Record:  # noqa: ANN401 - any field
    changed = limit_actions.configured(record, "api", layer(name, until, **values), NOW)
    assert changed is not None
    return changed


def used(record: Record, name: str) -> int:
    return record["window_logs"][name]["sum"]


def test_a_definition_is_kept_by_what_differs_from_the_defaults() -> None:
    limit = Limit("api", in_flight=5, windows=[Window(9, 60), Window(7, 1, "pages")], cooldown_s=(1, 2))
    assert limit_actions.values_of(limit) == {
        "in_flight": 5,
        "windows": [[9, 60.0, "calls"], [7, 1.0, "pages"]],
        "cooldown_s": [1.0, 2.0],
    }
    assert limit_actions.values_of(Limit("api", windows=(Window(1, 1),))) == {"windows": [[1, 1.0, "calls"]]}


def test_a_definition_comes_back_as_it_was() -> None:
    usual = (7.0, 30.0, 2.0, 0.1, 0.2, "share", "stops", (1.0, 9.0), 30.0, 2, 4)
    limit = Limit("api", 5, (Window(9, 60.0),), *usual, {"pages": 9})  # type: ignore[arg-type]
    values = limit_actions.values_of(limit)
    assert values.keys() == {*FIELDS}
    assert limit_actions.limit_of("api", [layer() | {"values": values}], NOW) == limit


def test_in_flight_bounds_of_units_are_fields_of_their_own() -> None:
    bounds = {"calls": 5, "words": 7, "pages": 9}
    assert limit_actions.checked({"in_flight": bounds}) == {
        "in_flight": 5,
        "in_flight_units": {"pages": 9, "words": 7},
    }
    assert limit_actions.checked({"in_flight": {"pages": 9}}) == {"in_flight": None, "in_flight_units": {"pages": 9}}
    assert limit_actions.checked({"in_flight": 5}) == {"in_flight": 5}
    terms = limit_actions.terms_of(Limit("api", bounds))
    assert (terms["in_flight"], terms["in_flight_units"]) == (5, [{"n": 9, "unit": "pages"}, {"n": 7, "unit": "words"}])
    assert limit_actions.terms_of(Limit("api", {"pages": 9}))["in_flight"] == -1


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="inflight"):
        limit_actions.checked({"inflight": 5})


def test_stored_fields_are_checked_as_well_as_typed_ones() -> None:
    stored = limit_actions.checked({"windows": [Window(9, 60)], "cooldown_s": 3})
    assert stored == {"windows": [[9, 60.0, "calls"]], "cooldown_s": [3.0]}
    assert limit_actions.checked(stored) == stored


@pytest.mark.parametrize(("windows"), [5, [5], [[1]], "ab"])
def test_windows_that_are_none_are_refused(windows: object) -> None:
    with pytest.raises(BadInput):
        limit_actions.checked({"windows": windows})


def test_of_a_field_that_several_name_the_highest_counts() -> None:
    layers = [layer(name, in_flight=at + 1) for at, name in enumerate(LAYERS)]
    for count in range(len(LAYERS), 0, -1):
        shuffled = [*layers[:count]][::-1]
        assert limit_actions.limit_of("api", shuffled, NOW).in_flight == count
        assert limit_actions.source_of(shuffled, NOW)["in_flight"] == LAYERS[count - 1]
    assert limit_actions.source_of(layers, NOW)["lease_s"] == "default"


def test_a_layer_counts_until_its_instant() -> None:
    layers = [layer(in_flight=5), layer("override", NOW + 1, in_flight=1)]
    assert limit_actions.limit_of("api", layers, NOW).in_flight == 1
    assert limit_actions.limit_of("api", [layers[0], layer("override", 0, in_flight=1)], 0).in_flight == 5
    assert limit_actions.limit_of("api", layers, NOW + 1).in_flight == 5
    assert limit_actions.source_of(layers, NOW + 1)["in_flight"] == "code"


def test_what_one_layer_says_can_be_read() -> None:
    record = put(put(None, in_flight=5), "operator", in_flight=7)
    assert limit_actions.values_in(record, "operator") == {"in_flight": 7}
    assert limit_actions.values_in(record, "file") == {}


def test_terms_are_whole_milliseconds_never_shorter_than_was_said() -> None:
    limit = Limit(
        "api",
        windows=(Window(9, 0.0011, "pages"),),
        call_timeout_s=0.1,
        lease_s=0.3,
        heartbeat_s=0.1,
        start_within_s=0.0101,
        transit_s=0,
        cooldown_s=(1.0005,),
        max_cooldown_s=7,
        breaker_after=3,
        when_store_down="share",
        share_processes=4,
        on_disconnect="stops",
    )
    assert limit_actions.terms_of(limit) == {
        "in_flight": -1,
        "in_flight_units": [],
        "windows": [{"n": 9, "per_ms": 2, "unit": "pages"}],
        "call_timeout_ms": 100,
        "lease_ms": 300,
        "heartbeat_ms": 100,
        "start_within_ms": 11,
        "transit_ms": 0,
        "stops_on_disconnect": 1,
        "cooldown_steps_ms": [1001],
        "max_cooldown_ms": 7000,
        "breaker_after": 3,
        "when_store_down": "share",
        "share_processes": 4,
    }
    assert limit_actions.terms_of(Limit("api", 3))["stops_on_disconnect"] == 0
    assert limit_actions.terms_of(Limit("api", 3))["in_flight"] == 3


@pytest.mark.parametrize(("call_timeout_s", "call"), [(60.0000000001, 60_000), (60.000000001, 60_001), (60.0, 60_000)])
def test_less_than_a_nanosecond_is_noise(call_timeout_s: float, call: int) -> None:
    assert limit_actions.terms_of(Limit("api", 1, call_timeout_s=call_timeout_s))["call_timeout_ms"] == call


def test_the_first_layer_makes_the_record() -> None:
    record = put(None, in_flight=5)
    assert (record["version"], record["terms_version"], record["held_back_until"], record["last_step_at"]) == (
        1,
        1,
        0,
        NOW,
    )
    assert [era["ends_at"] for era in record["eras"]] == [-1]
    assert [each["name"] for each in record["layers"]] == ["code"]


def test_one_who_remembers_a_limit_that_is_gone_makes_it_with_a_hold() -> None:
    record = limit_actions.configured(None, "api", layer(in_flight=5), NOW, version=70)
    assert record is not None
    assert (record["version"], record["held_back_until"]) == (71, NOW + 62_050)
    assert limit_actions.configured(record, "api", layer(in_flight=6), NOW, version=99) is record
    assert record["held_back_until"] == NOW + 62_050


def test_a_layer_replaces_the_one_of_its_name() -> None:
    record = put(put(None, in_flight=5), in_flight=7)
    assert [each["values"] for each in record["layers"]] == [{"in_flight": 7}]
    assert (record["version"], record["terms_version"]) == (2, 2)


def test_a_layer_that_says_the_same_for_good_is_nothing_new() -> None:
    record = put(None, in_flight=5)
    assert limit_actions.configured(record, "api", layer(in_flight=5), NOW) is None


def test_a_layer_is_new_unless_the_layer_of_its_own_name_says_the_same() -> None:
    record = put(put(None, in_flight=5), "operator", in_flight=7)
    assert limit_actions.configured(record, "api", layer("operator", in_flight=7), NOW) is None
    assert limit_actions.configured(record, "api", layer("operator", in_flight=5), NOW) is not None


def test_a_layer_for_a_while_is_always_new_and_so_is_one_that_has_ended() -> None:
    record = put(put(None, in_flight=5), "override", NOW + 9, in_flight=1)
    assert limit_actions.configured(record, "api", layer("override", NOW + 9, in_flight=1), NOW) is not None
    assert limit_actions.configured(record, "api", layer("override", in_flight=1), NOW + 8) is not None
    record = put(put(None, in_flight=5), "override", NOW + 9, in_flight=1)
    assert limit_actions.configured(record, "api", layer("override", in_flight=1), NOW + 9) is not None
    assert limit_actions.configured(record, "api", layer("override", NOW + 99, in_flight=1), NOW + 9) is not None


def test_terms_change_by_themselves_when_layers_end() -> None:
    record = put(put(put(None, in_flight=5), "operator", NOW + 20, in_flight=3), "override", NOW + 10, in_flight=1)
    assert [(era["ends_at"], era["terms"]["in_flight"]) for era in record["eras"]] == [
        (NOW + 10, 1),
        (NOW + 20, 3),
        (-1, 5),
    ]


@pytest.mark.parametrize("fields", [{"in_flight": -5}, {"heartbeat_s": 9.0}, {"windows": []}])
def test_what_does_not_hold_together_is_refused_before_anything_changes(fields: dict[str, Any]) -> None:
    record = put(None, windows=[Window(5, 1)])
    before = copy.deepcopy(record)
    with pytest.raises(BadInput):
        put(record, "operator", **fields)
    assert record == before


def test_a_layer_can_be_cleared_but_not_the_last() -> None:
    record = put(put(None, in_flight=5), "override", in_flight=1)
    assert limit_actions.cleared(record, "api", "file", NOW) is None
    assert limit_actions.cleared(record, "api", "override", NOW) is record
    assert (record["eras"][0]["terms"]["in_flight"], record["terms_version"], record["version"]) == (5, 3, 3)
    with pytest.raises(BadInput, match="api"):
        limit_actions.cleared(record, "api", "code", NOW)


def test_a_layer_without_which_nothing_is_bounded_cannot_be_cleared() -> None:
    record = put(put(None, in_flight=5), "operator", lease_s=20.0)
    before = copy.deepcopy(record)
    with pytest.raises(BadInput):
        limit_actions.cleared(record, "api", "code", NOW)
    assert record == before


def test_a_changed_window_keeps_its_log_and_a_new_one_takes_the_longest_of_its_unit() -> None:
    record = put(None, windows=[Window(9, 1), Window(9, 60), Window(99, 10, "pages")])
    record["window_logs"] = {
        "calls/1000": {"sum": 1, "entries": [NOW, 1]},
        "calls/60000": {"sum": 5, "entries": [NOW - 9, 4, NOW, 1]},
        "pages/10000": {"sum": 7, "entries": [NOW, 7]},
    }
    windows = [Window(3, 1), Window(9, 30), Window(9, 600), Window(9, 5, "pages"), Window(9, 1, "words")]
    record = put(record, windows=windows)
    assert {name: log["sum"] for name, log in record["window_logs"].items()} == {
        "calls/1000": 1,
        "calls/30000": 5,
        "calls/600000": 5,
        "pages/5000": 7,
        "words/1000": 0,
    }
    record["window_logs"]["calls/30000"]["entries"].clear()
    assert record["window_logs"]["calls/600000"]["entries"] == [NOW - 9, 4, NOW, 1]


def test_windows_of_all_terms_to_come_have_a_log() -> None:
    record = put(put(None, windows=[Window(9, 1)]), "override", NOW + 9, windows=[Window(9, 5)])
    assert sorted(record["window_logs"]) == ["calls/1000", "calls/5000"]


def test_a_limit_that_is_new_has_no_earlier_grants_to_wait_for() -> None:
    eras = put(None, in_flight=1, windows=[Window(9, 1)])["eras"]
    assert limit_actions.carry_over([], eras) == (0, 0, 0)


def test_a_log_of_terms_that_are_over_is_not_taken_up_again() -> None:
    record = put(put(None, windows=[Window(9, 1)]), "override", NOW + 9, windows=[Window(9, 5)])
    admission.decide(record, ask_of(runs=[wish(count=2)]), NOW)
    admission.decide(record, ask_of(n=2, confirmed_grant_number=1, runs=[wish(2, 3)]), NOW + 9)
    assert (used(record, "calls/1000"), used(record, "calls/5000")) == (5, 2)
    record = limit_actions.configured(record, "api", layer("override", NOW + 90, windows=[Window(9, 5)]), NOW + 10)  # type: ignore[assignment]
    assert used(record, "calls/5000") == 5


def test_a_pause_is_for_good_or_for_a_while() -> None:
    record = put(None, in_flight=5)
    assert limit_actions.paused(record, NOW, for_ms=None, note="why") is record
    assert (record["paused_until"], record["pause_note"], record["version"]) == (0, "why", 2)
    limit_actions.paused(record, NOW + 5, for_ms=10, note="")
    assert (record["paused_until"], record["last_step_at"]) == (NOW + 15, NOW + 5)


def test_resuming_ends_a_pause_and_a_rest() -> None:
    record = limit_actions.paused(put(None, in_flight=5), NOW, for_ms=None, note="why")
    record["cooldown"] |= {"kind": "quota", "ends_at": NOW + 99, "ramp_began_at": -1}
    limit_actions.resumed(record, NOW + 1)
    assert (record["paused_until"], record["pause_note"], record["version"], record["last_step_at"]) == (
        -1,
        "",
        3,
        NOW + 1,
    )
    assert record["cooldown"] == cooldown.none()


def test_a_reset_drops_the_dead_and_counts_their_calls() -> None:
    record = put(None, in_flight=9)
    admission.decide(record, ask_of("a", runs=[wish(count=2)]), NOW)
    admission.decide(record, ask_of("b", runs=[wish(count=3)]), NOW + 1)
    record["held_back_until"] = NOW + 99
    _, count = limit_actions.forgotten(record, NOW + 15_000, everything=False)
    assert (count, sorted(record["sessions"]), record["held_back_until"], record["version"]) == (2, ["b"], NOW + 99, 4)
    assert len(record["sessions"]["b"]["unconfirmed"]) == 1


def test_a_reset_of_everything_leaves_the_line_and_nothing_else() -> None:
    record = put(None, in_flight=2, windows=[Window(9, 60)])
    admission.decide(record, ask_of("dead", runs=[wish(count=1)]), NOW)
    admission.decide(record, ask_of("b", runs=[wish(count=3)]), NOW + 1)
    record["held_back_until"] = NOW + 99
    record["cooldown"] |= {"kind": "quota", "ends_at": NOW + 99}
    changed, count = limit_actions.forgotten(record, NOW + 15_000, everything=True)
    assert changed is record
    assert (count, sorted(record["sessions"]), record["held_back_until"]) == (2, ["b"], 0)
    assert (record["sessions"]["b"]["calls"], record["sessions"]["b"]["unconfirmed"]) == ([], [])
    assert record["sessions"]["b"]["runs"][0]["caller_count"] == 2
    assert record["window_logs"] == {"calls/60000": {"sum": 0, "entries": []}}
    assert record["cooldown"] == cooldown.none()


def test_a_heartbeat_that_follows_from_its_lease_is_not_kept_and_follows_the_next_lease() -> None:
    values = limit_actions.values_of(Limit("api", in_flight=1, lease_s=6))
    assert values == {"in_flight": 1, "lease_s": 6.0}
    record = put(put(None, in_flight=1, lease_s=6), "operator", lease_s=3)
    assert limit_actions.limit_of("api", record["layers"], 0).heartbeat_s == 1.0
    assert limit_actions.values_of(Limit("api", in_flight=1, heartbeat_s=1)) == {"in_flight": 1, "heartbeat_s": 1.0}
