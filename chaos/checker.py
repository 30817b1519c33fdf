"""The judge of a run: no import from Forebay, only the file's rows by SQL of its own and the journals."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chaos import judge_claims, judge_jobs, judge_tasks
from chaos.accounts import Accounts
from chaos.evidence import Evidence, gather

OK, VIOLATION, VOID = 0, 1, 3
_SHOWN = 20
_EXPECTED_ERRORS = {"StoreBusy"}


@dataclass(slots=True)
class Verdict:
    """What was found, what was seen on the way, and what should have been seen but was not."""

    violations: list[str]
    figures: dict[str, int]
    missing: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        if self.violations:
            return VIOLATION
        return VOID if self.missing else OK

    def text(self, replay: str = "") -> str:
        word = {OK: "SOUND", VIOLATION: "UNSOUND", VOID: "VOID"}[self.exit_code]
        width = max(map(len, self.figures))
        lines = [f"verdict: {word}", ""]
        lines += [f"  {name:<{width}}  {count}" for name, count in self.figures.items()]
        if self.missing:
            lines += ["", f"did not happen often enough to prove anything: {', '.join(self.missing)}"]
        if self.violations:
            lines += ["", f"{len(self.violations)} violations:", *(f"  {text}" for text in self.violations[:_SHOWN])]
            if len(self.violations) > _SHOWN:
                lines += ["  …"]
        if replay:
            lines += ["", f"again: {replay}"]
        return "\n".join(lines)


def judge(file: Path, logs: Path, *, least: dict[str, int] | None = None) -> Verdict:
    """`least` names the figures without which a run proves nothing."""
    evidence = gather(file, logs)
    accounts = Accounts(evidence)
    violations = [*_process(evidence)]
    if evidence.quick_check == ["ok"]:
        violations += [
            *judge_tasks.submissions(evidence),
            *judge_tasks.histories(evidence, accounts),
            *judge_claims.claims(evidence, accounts),
            *judge_claims.settles(evidence, accounts),
            *judge_claims.losses(evidence),
            *judge_jobs.jobs(evidence),
        ]
    figures = _figures(evidence, accounts)
    missing = [f"{name} {figures[name]} of {count}" for name, count in (least or {}).items() if figures[name] < count]
    return Verdict(violations, figures, missing)


def _process(evidence: Evidence) -> Iterator[str]:
    if evidence.quick_check != ["ok"]:
        yield f"store: {'; '.join(evidence.quick_check)}"
    for record in evidence.crashes:
        yield f"a worker crashed: {record['text']}"
    for record in evidence.errors:
        if record["kind"] not in _EXPECTED_ERRORS:
            yield f"{record['verb']} failed with {record['kind']}: {record['text']}"
    if any(record["e"] == "drained" and not record["ok"] for record in evidence.strikes):
        yield "T5 when nobody disturbed it any more, a worker could not bring everything to an end"


def _figures(evidence: Evidence, accounts: Accounts) -> dict[str, int]:
    strikes = Counter(record["e"] for record in evidence.strikes)
    submits = evidence.of("submit")
    outcomes = Counter(one.outcome for history in evidence.history.values() for one in history)
    statuses = Counter(job.status for job in evidence.jobs.values())
    return {
        "kills": strikes["kill"],
        "stops": strikes["stop"],
        "tasks": len(evidence.tasks),
        "jobs": len(evidence.jobs),
        "jobs completed": statuses["completed"],
        "jobs failed": statuses["failed"],
        "jobs canceled": statuses["canceled"],
        "jobs run again": sum(evidence.revived.values()),
        "merges": sum(task.role == "merge" for task in evidence.tasks.values()),
        "claims": sum(task.claim_count for task in evidence.tasks.values()),
        "settles acknowledged": sum(told == {False} for told in accounts.settled.values()),
        "settles fenced": sum(told == {True} for told in accounts.settled.values()),
        "attempts retried": outcomes["retried"],
        "attempts rescheduled": outcomes["rescheduled"],
        "attempts released": outcomes["released"],
        "attempts rescued": outcomes["lost"],
        "tasks poisoned": sum(task.error_class == "poison" for task in evidence.tasks.values()),
        "answers thrown away": sum(len(question.dropped) for question in evidence.questions.values()),
        "submissions repeated after a kill": sum(question.asked[0]["again"] for question in submits),
        "of these found stored": _found_stored(evidence),
        "group commits": _group_commits(evidence),
        "busy answers": sum(record["kind"] in _EXPECTED_ERRORS for record in evidence.errors),
    }


def _found_stored(evidence: Evidence) -> int:
    """Items whose first reply was lost with its process: the commit had happened, the repeat created nothing."""
    return sum(
        outcome == "existing"
        for question in evidence.of("submit")
        if question.asked[0]["again"] and question.answers
        for _, outcome in question.answers[0]["outcomes"]
    )


def _group_commits(evidence: Evidence) -> int:
    """Instants that the ledger wrote for a submission and for another caller's claim or settle: one transaction."""
    submitted = {task.created_at for task in evidence.tasks.values() if task.role in {"lone", "chunk"}}
    others = {at for history in evidence.history.values() for one in history for at in (one.claimed_at, one.ended_at)}
    return len(submitted & others)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a run: ledger.db and logs/")
    folder = parser.parse_args().folder
    verdict = judge(folder / "ledger.db", folder / "logs")
    print(verdict.text())
    return verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
