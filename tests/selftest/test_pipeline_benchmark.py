"""What the judges of the pipeline's benchmark say of runs that are made up, good and bad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.fleet.crew import Wrong
from benchmarks.pipeline import eta, pace, papers, reasons, storm
from benchmarks.pipeline.seen import Call, Foretold, Said, Seen, read
from benchmarks.pipeline.shapes import IN_FLIGHT, MIXED, RATE, SHAPES, Shape, quick
from forebay.model.task import WaitReason
from forebay.rules.standing import Standing
from forebay.rules.why import READY, Reason

SHAPE = Shape(name="small", in_flight=3, n=4, per_s=1.7, call_s=0.5, most_s=0.5, calls=12)  # 2 s wide
VERDICT: dict[str, Any] = {"quotas": {"docai": {"in_flight": {"peak": 3}, "windows": [{"worst": 4}]}}}


def call(arrived: float, lasted_s: float = 0.5, *, refused: bool = False) -> Call:
    return Call(arrived=arrived, ended=arrived + lasted_s, refused=refused, blob=str(arrived))


def best() -> list[Call]:
    """As soon as both bounds let them: three at once, the fourth when they have ended, the next window after 2 s."""
    return [call(at + 0.001 * number) for at in (0.0, 2.1, 4.2) for number, at in enumerate([at, at, at, at + 0.6])]


def seen(calls: Sequence[Call], **more: Any) -> Seen:  # noqa: ANN401 - of Seen
    return Seen(shape=SHAPE, calls=tuple(calls), verdict=VERDICT, **more)


def test_the_bound_is_the_slower_of_the_two() -> None:
    assert SHAPE.bound_s(12, 0.5) == pytest.approx(2 * 2 + 0.5)
    assert SHAPE.bound_s(12, 3.0) == pytest.approx(12 * 3 / 3)


def test_the_best_time_is_that_of_both_bounds_together() -> None:
    assert SHAPE.best_s([0.5] * 12) == pytest.approx(2 * 2 + 0.5 + 0.5)
    assert SHAPE.best_s([0.5] * 11) == pytest.approx(2 * 2 + 0.5)
    assert SHAPE.best_s([3.0] * 12) == pytest.approx(12)


@pytest.mark.parametrize("shape", [*SHAPES, *map(quick, SHAPES)], ids=lambda shape: f"{shape.name} {shape.calls}")
def test_the_bound_can_be_reached_under_every_quota(shape: Shape) -> None:
    call_s = (shape.call_s + shape.most_s) / 2
    assert shape.best_s([call_s] * shape.calls) <= 1.005 * shape.bound_s(shape.calls, call_s)


def test_each_quota_is_bound_as_its_name_says() -> None:
    assert RATE.n / RATE.wide_s < RATE.in_flight / RATE.most_s
    assert IN_FLIGHT.in_flight / IN_FLIGHT.call_s < IN_FLIGHT.n / IN_FLIGHT.wide_s
    assert MIXED.in_flight < MIXED.n  # the head of each window fills it
    assert MIXED.n / MIXED.wide_s < MIXED.in_flight / MIXED.most_s


def test_there_are_as_many_documents_as_make_so_many_calls() -> None:
    assert [len(list(papers.documents(calls))) for calls in (1, 5, 8, 16)] == [1, 5, 6, 12]


def test_time_is_from_the_first_arrival_to_the_last_end() -> None:
    found = pace.judge(seen(best()))
    assert (found.calls, found.refused) == (12, 0)
    assert found.took_s == pytest.approx(4.2 + 0.603 + 0.5)
    assert found.ratio == pytest.approx(5.303 / 4.5)
    assert [verdict.met for verdict in pace.verdicts("it", found)] == [False, True]


def test_a_chunk_that_is_missing_or_called_twice_counts_for_nothing() -> None:
    with pytest.raises(Wrong, match="11 chunks"):
        pace.judge(seen(best()[1:]))
    with pytest.raises(Wrong, match="13 calls"):
        pace.judge(seen([*best(), replace(best()[-1], arrived=9.0, ended=9.5)]))


def test_a_refused_call_is_a_429() -> None:
    found = pace.judge(seen([*best(), call(5.0, 0.01, refused=True)]))
    assert [verdict.met for verdict in pace.verdicts("it", found)] == [False, False]


JOBS = {"a": frozenset({"0.0", "2.1"}), "b": frozenset({"4.803"})}


def foretold(*etas: float | None) -> Seen:
    ends = {"a": 2.6, "b": 5.303}
    samples = [Foretold(job=job, at=1.0, eta_s=eta_s) for job, eta_s in zip("ab" * 9, etas, strict=False)]
    assert {job: max(each.ended for each in best() if each.blob in blobs) for job, blobs in JOBS.items()} == ends
    return seen(best(), foretold=tuple(samples), blobs=JOBS)


def test_what_is_foretold_is_judged_by_the_last_call_of_its_job() -> None:
    right = eta.judge(foretold(1.6, 4.303, None))
    assert right.error == pytest.approx(0)
    assert right.untold == 1
    late = eta.judge(foretold(0.8, 2.1515))
    assert late.error == pytest.approx(0.5)
    assert late.early == 0.0


def test_an_eta_that_is_stretched_is_found() -> None:
    right = foretold(1.6, 4.303)
    wrong = replace(right, foretold=eta.stretched(right.foretold, 1.5))
    assert eta.verdict("it", eta.judge(right)).met
    assert not eta.verdict("it", eta.judge(wrong)).met
    assert eta.judge(wrong).early == 1.0
    assert not eta.verdict("it", eta.combined([wrong, wrong, right])).met


def test_nothing_foretold_counts_for_nothing() -> None:
    with pytest.raises(Wrong):
        eta.judge(foretold(None))


def said(at: float, *binds: str, reason: WaitReason | None = WaitReason.LIMIT) -> Said:
    why = (Reason("limit", "it waits"),) if binds else (READY,)
    standing = Standing(reasons=why, wait_reason=reason if binds else None, binds=binds)
    return Said(began=at, ended=at, standing=standing)


FULL = "4 calls per 1.7 s"
FLIGHT = "in_flight 3/3"


def wrong(*samples: Said, calls: Sequence[Call] | None = None, hint_s: float = 0.0) -> int:
    return len(reasons.judge(seen(best() if calls is None else calls, said=samples), hint_s=hint_s).wrong)


def test_what_binds_is_named_as_the_provider_saw_it() -> None:
    long = [call(0.001 * number, 5.0) for number in range(3)]
    assert wrong(said(2.5, FLIGHT), calls=long) == 0
    assert wrong(said(1.5, FULL)) == 0
    assert wrong(said(8.0)) == 0


def test_what_binds_and_is_not_said_or_said_and_does_not_bind_is_found() -> None:
    long = [call(0.001 * number, 5.0) for number in range(3)]
    assert wrong(said(2.5), said(2.5, FULL), calls=long) == 2
    assert wrong(said(1.5), said(1.5, FLIGHT), said(1.5, FLIGHT, FULL)) == 3
    assert wrong(said(8.0, FLIGHT), said(8.0, FULL), said(8.0, "cooldown of docai")) == 3
    assert wrong(said(1.5, "pause of docai", reason=WaitReason.PAUSED)) == 1


def test_what_is_said_at_another_time_is_found() -> None:
    samples = (said(1.5, FULL), said(8.0))
    assert wrong(*samples) == 0
    assert wrong(*reasons.moved(samples, 5.0), *reasons.moved(samples, -6.0)) == 2


def test_a_cool_down_is_said_while_it_lasts_and_no_longer() -> None:
    calls = [call(0.0, 0.01, refused=True)]
    assert wrong(said(1.0, "cooldown of docai"), said(2.5, "ramp"), calls=calls, hint_s=2.0) == 0
    assert wrong(said(1.0), said(1.0, "ramp"), said(4.0, "cooldown of docai"), calls=calls, hint_s=2.0) == 3


def runs(at: float, job: str, *binds: str) -> Said:
    reasons = (Reason("job", "half"), Reason("running", "attempt 1 runs"))
    return Said(began=at, ended=at, standing=Standing(reasons=reasons, binds=binds), job=job)


def test_of_a_job_that_runs_a_call_is_in_progress_or_it_says_what_it_waits_for() -> None:
    def faults(*samples: Said, late_s: float = 0.0) -> int:
        return len(reasons.judge(seen(best(), said=samples, blobs=JOBS), late_s=late_s).wrong)

    assert faults(runs(0.4, "a"), runs(2.2, "a"), runs(1.4, "a", FULL), runs(8.0, "b")) == 0
    assert faults(runs(1.4, "a"), runs(1.4, "b"), runs(1.4, "b", FLIGHT)) == 3
    assert faults(runs(1.4, "a"), late_s=0.5) == 0
    assert faults(runs(1.4, "a"), runs(1.4, "b", FLIGHT), late_s=0.1) == 2


def refused(at: float) -> Call:
    return call(at, 0.01, refused=True)


def after(since: float) -> list[Call]:
    return [call(since + 0.1 * number) for number in range(8)]


def test_of_a_storm_those_under_way_and_one_probe_for_each_cool_down_are_allowed() -> None:
    calls = [refused(0.0), refused(0.02), refused(0.2), refused(1.3), refused(2.5), *after(5.0)]
    found = storm.judge(seen(calls), 1.0)
    assert (found.refused, found.granted, found.probes, found.too_many) == (5, 3, 2, 0)
    assert found.back_s == pytest.approx(5.3 - 3.51)
    assert [verdict.met for verdict in storm.verdicts(found)] == [True, True]


def test_who_comes_again_too_early_or_in_numbers_is_found() -> None:
    early = storm.judge(seen([refused(0.0), refused(0.6), *after(5.0)]), 1.0)
    assert early.too_many == 1
    many = storm.judge(seen([*(refused(0.01 * number) for number in range(5)), *after(5.0)]), 1.0)
    assert many.too_many == 2
    two = storm.judge(seen([refused(0.0), refused(1.3), refused(1.31), *after(5.0)]), 1.0)
    assert two.too_many == 1


def test_a_rate_that_does_not_come_back_is_found() -> None:
    slow = [refused(0.0), *(call(2.0 + number) for number in range(20))]
    found = storm.judge(seen(slow), 1.0)
    assert found.back_s == math.inf
    assert not storm.verdicts(found)[0].met


def test_the_last_cool_down_is_over_when_it_was_said_to_be() -> None:
    standing = Standing(reasons=(READY,), cooldown_until=3.0)
    samples = (Said(began=1.0, ended=1.0, standing=standing),)
    found = storm.judge(seen([refused(0.0), *after(5.0)], said=samples), 1.0)
    assert found.back_s == pytest.approx(2.3)


def test_calls_are_read_from_the_simulators_record() -> None:
    row = {"arrived": 1.0, "ended": 1.25, "arrived_at": "2026-01-01T00:00:01.000Z", "status": 429, "fingerprint": "ab"}
    (found,) = read([row, row | {"ended": None}])
    assert (found.refused, found.blob) == (True, "ab")
    assert found.lasted_s == pytest.approx(0.25)
    assert found.arrived == pytest.approx(1767225601.0)
