"""Judges the processes: what they left behind, how they ended, and whether they brought all to its end in time."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator, Sequence

from chaos.engine.evidence import Evidence
from chaos.journal import Record

GRACE_S = 1.0
"""How long a worker on one file has to end after SIGTERM."""
_LEAVES_WITHIN_S = 6.0
_LEAVES_SLOWLY_S = 15.0
"""What is in hand is worth waiting for a ledger that is away: a restart, and the longest pause before it is asked."""
_STARTING_CPU_S = 0.15
_WRITTEN_WITHIN_S = 1.0
"""How long after a refusal a worker on a busy machine has written it down."""


def processes(
    evidence: Evidence, *, fleet: bool = False, slow: bool = False, out_waited: Collection[str] = ()
) -> Iterator[str]:
    """Of a fleet, whose servers share the machine and go away, everything takes its time; `slow`: leaving alone does.

    `out_waited` are lives whose ledger was away for longer than they had to wait for it.
    """
    leaves_within_s = _LEAVES_SLOWLY_S if slow else _LEAVES_WITHIN_S
    frozen = {record["life"] for record in evidence.struck("stopped")}
    begun = {record["worker"] for record in evidence.told("worker_started")}
    stopped = {record["worker"] for record in evidence.told("worker_stopped")}
    yield from _left_behind(evidence, at_once=not fleet)
    for record in evidence.struck("ended"):
        life, code = record["life"], record["code"]
        if code == -signal.SIGTERM and (life not in begun or life in stopped):
            continue  # told to end before it had begun, or once more when it had ended
        if code not in {0, -signal.SIGKILL} or (code == 0 and not record["told"]):
            yield f"{life}: ended with {code}{'' if record['told'] else ', unasked'}"
        elif code == 0 and record["took_s"] > leaves_within_s and life not in frozen:
            yield f"{life}: took {record['took_s']:.1f} s to leave after SIGTERM"
    for record in evidence.struck("hung"):
        yield f"{', '.join(record['lives'])}: did not end after SIGTERM"
    hurried = {record["life"] for record in evidence.struck("term again")}
    unbegun = {record["life"] for record in evidence.struck("term")} - begun
    for life, records in evidence.workers.items():
        if life not in hurried | unbegun | {*out_waited} and any(record["e"] == "gave_up" for record in records):
            yield f"{life}: gave up on the ledger, and nobody had told it to hurry"
    for life, text in evidence.complaints.items():
        if text:
            yield f"{life}: complained: {text[-700:]}"


def out_waited(evidence: Evidence, away: Sequence[tuple[float, float]], grace_s: float) -> set[str]:
    """Return the workers that gave up on a ledger that was away, after the grace that they had from SIGTERM on.

    A worker says that it gave up when its threads and children have ended, seconds after the call that was its last:
    what counts is that the ledger was away when it refused the worker for the last time that was written down.
    """
    told = {record["life"]: record["m"] for record in reversed(evidence.struck("term"))}
    return {
        life
        for life, records in evidence.workers.items()
        for record in records
        if record["e"] == "gave_up"
        and record["m"] - told.get(life, record["m"]) >= grace_s
        and _is_within(_refused_last(records, before=record["m"]), away)
    }


def _refused_last(records: Sequence[Record], *, before: float) -> float:
    exchanges = [record for record in records if record["e"] == "store_failed" and record["verb"] == "exchange"]
    return max((record["m"] for record in exchanges), default=before)


def _is_within(instant: float, periods: Sequence[tuple[float, float]]) -> bool:
    return any(begins <= instant <= ends + _WRITTEN_WITHIN_S for begins, ends in periods)


def _left_behind(evidence: Evidence, *, at_once: bool) -> Iterator[str]:
    """Gone within a second; a child that a busy machine has not let begin yet, a little later."""
    for record in evidence.struck("looked") if at_once else ():
        left = [pid for pid, cpu_s in zip(record["left"], record["cpu_s"], strict=True) if cpu_s > _STARTING_CPU_S]
        if left:
            yield f"{record['life']}: {len(left)} of its processes outlived it by a second: {left}"
    for record in evidence.struck("looked again"):
        if record["left"]:
            yield f"{record['life']}: {len(record['left'])} of its processes outlived it for good: {record['left']}"


def liveness(evidence: Evidence) -> Iterator[str]:
    """T5: undisturbed, the workers end all there is, in bounded time."""
    drained = evidence.struck("drained")
    if not drained:
        yield "T5 the run ended before its work could be brought to an end"
    for record in drained:
        if record["left"]:
            yield f"T5 after {record['took_s']:.0f} s without a fault {record['left']} tasks and jobs were open"
