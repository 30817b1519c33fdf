"""The judge of a run: no import from Forebay, only the file's rows, the blobs and the journals."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from chaos import judge_jobs
from chaos.checker import Verdict
from chaos.engine import judge_calls, judge_processes, judge_results, judge_work
from chaos.engine.dice import PLACES
from chaos.engine.evidence import Evidence, gather

_KILLED = -9


def judge(root: Path, *, least: int = 0, kills: int = 0) -> Verdict:
    """`least` is how often each fault must have struck; with fewer of any, the run proves nothing."""
    evidence = gather(root)
    filled = evidence.struck("disk full")
    freed = [record["m"] for record in evidence.struck("disk free")]
    full = [(record["m"], ends) for record, ends in zip(filled, freed, strict=False)]
    gave_up = judge_processes.out_waited(evidence, full, judge_processes.GRACE_S)
    found = verdict(evidence, slow=bool(filled), out_waited=gave_up)
    struck = faults(evidence)
    if filled:
        codes = [record.get("code") for record in evidence.submitted]
        codes += [record["error_code"] for record in evidence.told("store_failed")]
        struck |= {"disk filled": len(filled), "calls refused by a full disk": codes.count("store_full")}
    figures = {"workers killed": killed(evidence), **struck, **found.figures}
    wanted = dict.fromkeys(struck, least) | {"workers killed": kills}
    missing = [f"{name} {figures[name]} of {count}" for name, count in wanted.items() if figures[name] < count]
    return Verdict(found.violations, figures, missing)


def verdict(
    evidence: Evidence, *, fleet: bool = False, slow: bool = False, out_waited: Collection[str] = ()
) -> Verdict:
    """What is to be said of the work alone, whatever befell it; `slow` if its disk was full for seconds."""
    processes = judge_processes.processes(evidence, fleet=fleet, slow=slow or fleet, out_waited=out_waited)
    violations = [*processes, *judge_processes.liveness(evidence)]
    if evidence.rows.quick_check != ["ok"]:
        violations.append(f"store: {'; '.join(evidence.rows.quick_check)}")
    else:
        violations += [
            *judge_work.submissions(evidence),
            *judge_work.tasks(evidence),
            *judge_work.acknowledged(evidence),
            *judge_calls.tokens(evidence),
            *judge_calls.numbers(evidence),
            *judge_calls.lateness(evidence),
            *judge_results.blobs(evidence),
            *judge_results.results(evidence),
            *judge_jobs.jobs(evidence.rows),
        ]
    return Verdict(violations, _figures(evidence))


def killed(evidence: Evidence) -> int:
    return sum(record["code"] == _KILLED for record in evidence.struck("ended") if record["life"] != "submitter")


def faults(evidence: Evidence) -> dict[str, int]:
    """Each kind that a run must have seen."""
    fired = Counter(record["place"] for record in evidence.fired)
    failed = Counter(record["error_code"] for record in evidence.told("store_failed"))
    return {
        **{f"failpoint {place}": fired[place] for place in PLACES},
        "kill -9 from outside": len(evidence.struck("kill")),
        "stopped past the lease from outside": sum(record["outside"] for record in evidence.struck("stopped")),
        "SIGTERM under load": _asked_once(evidence),
        "SIGTERM twice": len(evidence.struck("term again")),
        "answers of the store lost": failed["maybe_applied"],
        "calls to the store failed": failed["store_unreachable"],
        "settles fenced": len(evidence.told("task_fenced")),
    }


def _asked_once(evidence: Evidence) -> int:
    calm_at = next((record["m"] for record in evidence.struck("calm")), 0.0)
    twice = {record["life"] for record in evidence.struck("term again")}
    return sum(record["life"] not in twice and record["m"] < calm_at for record in evidence.struck("term"))


def _figures(evidence: Evidence) -> dict[str, int]:
    workers = {record["pid"] for record in evidence.struck("started")}
    actions = Counter((record["action"], record["pid"] in workers) for record in evidence.fired)
    outcomes = Counter(one.outcome for history in evidence.rows.history.values() for one in history)
    statuses = Counter(task.status for task in evidence.rows.tasks.values())
    jobs = Counter(job.status for job in evidence.rows.jobs.values())
    told = [record for record in evidence.submitted if record["e"] == "told"]
    drained = evidence.struck("drained")
    return {
        "failpoint kills of workers": actions["kill", True],
        "failpoint kills of handler children": actions["kill", False],
        "failpoint stops": actions["stop", True] + actions["stop", False],
        "lives of workers": len(evidence.workers),
        "sessions lost": len(evidence.told("session_lost")),
        "submissions answered": len(told),
        "of these repeated": sum(record["outcome"] == "existing" for record in told),
        **{f"tasks {status}": statuses[status] for status in ("completed", "failed", "canceled")},
        **{f"jobs {status}": jobs[status] for status in ("completed", "failed", "canceled")},
        "merges": sum(task.role == "merge" for task in evidence.rows.tasks.values()),
        "blobs recorded": sum(task.result_blob is not None for task in evidence.rows.tasks.values()),
        "calls that the provider saw": len(evidence.begins),
        "of these late after a freeze": judge_calls.late(evidence),
        **{f"attempts {name}": outcomes[name] for name in ("retried", "rescheduled", "lost", "released")},
        "tasks poisoned": sum(task.error_class == "poison" for task in evidence.rows.tasks.values()),
        "leftovers looked for": len(evidence.struck("looked")),
        "drained after ms": round(1000 * drained[-1]["took_s"]) if drained else 0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a run: ledger.db, blobs/ and logs/")
    found = judge(parser.parse_args().folder)
    print(found.text())
    return found.exit_code


if __name__ == "__main__":
    sys.exit(main())
