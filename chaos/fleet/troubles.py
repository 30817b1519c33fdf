"""What befell the servers and the processes of a run, as the judge of its limits needs to know it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from chaos.engine import judge_processes
from chaos.engine.evidence import Evidence
from chaos.fleet.promised import DRAIN_GRACE_S
from chaos.journal import Record
from chaos.limits.records import Mark

_RECOVERS_S = {"hang": 3.0}
"""A request on a line that fell silent is given up after 2 s, and made again on a new one."""
_DIALED_S = 3.0
"""How long a connection may take before whoever wants it gives up."""
_SOON_S = 1.0
"""What fails at once is asked again with the next heartbeat."""


@dataclass(slots=True)
class Troubles:
    """All instants are of the clock that every process of a machine shares."""

    fired: Counter[tuple[str, str]] = field(default_factory=Counter)
    restarts: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By server: when it was killed and when it was back."""
    disturbed: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By server: from when until when those who asked it may not have been answered."""
    marks: list[Mark] = field(default_factory=list)
    """Of workers: `kill`, `stop` and `cont`."""
    thaws: list[Mark] = field(default_factory=list)
    """When processes that were frozen went on."""
    rest: tuple[float, float] | None = None


def of(evidence: Evidence, site: list[Record]) -> Troubles:
    found = Troubles()
    _servers(found, site)
    _workers(found, evidence)
    for begins, ends in zip(evidence.struck("rests"), evidence.struck("rested"), strict=False):
        found.rest = (begins["m"], ends["m"])
    return found


def out_waited(found: Troubles, evidence: Evidence) -> set[str]:
    """Workers that gave up on a ledger that was away when the grace was over that they had from SIGTERM on."""
    away = [(begins, ends + _DIALED_S) for begins, ends in found.disturbed.get("ledger", [])]
    return judge_processes.out_waited(evidence, away, DRAIN_GRACE_S)


def _servers(found: Troubles, site: list[Record]) -> None:
    since: dict[tuple[str, str], tuple[float, str]] = {}
    for record in site:
        server = record["server"]
        disturbed = found.disturbed.setdefault(server, [])
        match record["e"]:
            case "began" | "killed" as event:
                since[server, event] = (record["m"], record.get("fault", ""))
            case "calmed" if (server, "began") in since:
                began_at, fault = since.pop((server, "began"))
                disturbed.append((began_at, record["m"] + _RECOVERS_S.get(fault, _SOON_S)))
            case "fired":
                found.fired[server, record["fault"]] += 1
            case "back":
                killed_at, _ = since.pop((server, "killed"))
                found.restarts.setdefault(server, []).append((killed_at, record["m"]))
                disturbed.append((killed_at, record["m"] + _SOON_S))
            case _:
                pass
    for found_at in found.disturbed.values():
        found_at.sort()


def _workers(found: Troubles, evidence: Evidence) -> None:
    for record in evidence.conducted:
        match record["e"]:
            case "stop" | "stopped":
                found.marks.append(Mark("stop", record["m"], record["life"]))
            case "cont":
                found.thaws.append(Mark("cont", record["m"], record["life"]))
            case "kill":
                found.marks.append(Mark("kill", record["m"], record["life"]))
            case "ended" if record["code"] != 0:
                found.marks.append(Mark("kill", record["m"], record["life"]))
            case _:
                pass
    found.marks += [*found.thaws, *_children(evidence)]
    found.marks.sort(key=lambda mark: mark.at)


def _children(evidence: Evidence) -> list[Mark]:
    """A handler child that was struck takes with it what it had heard; its worker lives on."""
    if not evidence.conducted:
        return []
    apart_s = evidence.conducted[0]["m"] - evidence.conducted[0]["w"]
    workers = {record["pid"] for record in evidence.struck("started")}
    lives = {record["pid"]: record["life"] for record in evidence.provider}
    marks = []
    for record in evidence.fired:
        if record["pid"] not in workers and record["pid"] in lives:
            at = record["w"] + apart_s
            life = lives[record["pid"]]
            marks += [Mark("stop", at, life), Mark("cont", at + 0.001, life)]
    return marks
