from __future__ import annotations

from forebay.model.lane import Lane, Pause
from forebay.rules import pausing
from forebay.rules.pausing import Counts
from tests.unit.builders import NOW


def pause(lane: str = "ocr", *, at: float = NOW - 10, until: float | None = None, note: str = "") -> Pause:
    return Pause(lane=lane, at=at, until=until, note=note)


def test_a_pause_is_over_at_its_end() -> None:
    stored = [pause("a"), pause("b", until=NOW + 0.001), pause("c", until=NOW), pause("d", until=NOW - 1)]
    assert [*pausing.in_force(stored, NOW)] == ["a", "b"]


def test_a_new_pause_begins_now() -> None:
    other = pause("other")
    after = pausing.paused([other], NOW, lane="ocr", until=NOW + 5, note="quota")
    assert after == {"other": other, "ocr": pause(at=NOW, until=NOW + 5, note="quota")}


def test_pausing_again_replaces_end_and_note_but_not_the_beginning() -> None:
    before = pause(until=NOW + 1, note="first")
    after = pausing.paused([before], NOW, lane="ocr", until=None, note="second")
    assert after == {"ocr": pause(at=before.at, note="second")}


def test_a_pause_that_is_over_has_no_part_in_the_next() -> None:
    over = [pause(until=NOW), pause("other", until=NOW)]
    assert pausing.paused(over, NOW, lane="ocr", until=None, note="") == {"ocr": pause(at=NOW)}


def test_resuming_ends_one_pause_and_drops_those_that_are_over() -> None:
    stored = [pause(), pause("other"), pause("over", until=NOW)]
    assert pausing.resumed(stored, NOW, lane="ocr") == {"other": stored[1]}
    assert pausing.resumed(stored, NOW, lane="unheard") == {"ocr": stored[0], "other": stored[1]}


def test_lanes_are_those_with_tasks_or_a_pause_by_name() -> None:
    paused = pause("b@adobe", until=NOW + 5, note="quota")
    shown = pausing.lanes({"c": Counts(ready=1, later=2, running=3), "a": Counts(later=1)}, {"b@adobe": paused})
    assert [(lane.name, lane.kind) for lane in shown] == [("a", "a"), ("b@adobe", "b"), ("c", "c")]
    assert shown[1:] == [
        Lane(
            name="b@adobe",
            kind="b",
            paused_at=NOW - 10,
            paused_until=NOW + 5,
            note="quota",
            ready_count=0,
            later_count=0,
            running_count=0,
        ),
        Lane(
            name="c",
            kind="c",
            paused_at=None,
            paused_until=None,
            note="",
            ready_count=1,
            later_count=2,
            running_count=3,
        ),
    ]


def test_paused_lanes_are_not_offered_and_take_no_room() -> None:
    ready = {"ocr": ["ocr", "ocr@adobe", "ocr@docai", "ocr@x"], "merge": []}
    left = pausing.left(ready, [None], {"ocr@adobe": pause("ocr@adobe")}, now=NOW, most=2)
    assert left == ({"ocr": ("ocr", "ocr@docai"), "merge": ()}, None)


def test_the_next_tasks_are_due_when_a_delay_or_a_pause_ends() -> None:
    pauses = {lane: pause(lane, until=NOW + end) for lane, end in (("ocr", 7), ("ocr@adobe", 9), ("empty", 1))}
    ready = {"ocr": ["ocr", "ocr@adobe"]}
    assert pausing.left(ready, [None], pauses, now=NOW, most=9).next_due_in_s == 7
    assert pausing.left(ready, [NOW + 3, None], pauses, now=NOW, most=9).next_due_in_s == 3
    assert pausing.left({"ocr": []}, [None], pauses, now=NOW, most=9).next_due_in_s is None
    assert pausing.left({"ocr": []}, [NOW - 3], pauses, now=NOW, most=9).next_due_in_s == 0.0
