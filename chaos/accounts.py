"""Turns the journals of a run by task and token: who claimed, settled and released, and what they were told."""

from __future__ import annotations

from collections import defaultdict

from chaos.evidence import Evidence
from chaos.journal import Record

Claim = tuple[str, int]


class Accounts:
    """What each claim went through, as its holders tell it."""

    def __init__(self, evidence: Evidence) -> None:
        self.claims: dict[Claim, list[Record]] = defaultdict(list)
        self.settles: dict[Claim, list[tuple[Record, str, str]]] = defaultdict(list)
        self.settled: dict[Claim, set[bool]] = defaultdict(set)
        self.unstarted: set[Claim] = set()
        for question in evidence.of("exchange") + evidence.of("mine"):
            for record in question.asked:
                for task_id, token, outcome, status in record.get("settles", ()):
                    self.settles[task_id, token].append((record, outcome, status))
                for task_id, token, started in record.get("releases", ()):
                    if not started:
                        self.unstarted.add((task_id, token))
            for record in question.answers:
                for task_id, token, n in record["claims"]:
                    self.claims[task_id, token].append({**record, "n": n})
                for task_id, token, fenced in record.get("settled", ()):
                    self.settled[task_id, token].add(fenced)
