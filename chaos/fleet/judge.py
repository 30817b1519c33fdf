"""The judge of a run of the fleet: no import from Forebay, only what servers, provider and processes left behind."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from chaos import journal
from chaos.checker import Verdict
from chaos.engine import judge as engine
from chaos.engine.evidence import gather
from chaos.fleet import judge_limits, troubles
from chaos.fleet.weather import RESTART, kinds
from chaos.limits import records

_NOT_HERE = "failpoint result_written"


def judge(root: Path, *, ledger: str = "postgres", least: int = 0, kills: int = 0) -> Verdict:
    """`least` is how often each fault must have struck; with fewer of any, the run proves nothing."""
    evidence = gather(root)
    api = root / "logs" / "api.jsonl"
    site = troubles.of(evidence, journal.read(root / "logs" / "site.jsonl"))
    work = engine.verdict(evidence, fleet=True, out_waited=troubles.out_waited(site, evidence))
    refused = {record["call"] for record in evidence.provider if record["e"] == "refused"}
    calls = records.read(api)
    limits = judge_limits.judge(calls, site, refused)
    of_workers = {name: count for name, count in engine.faults(evidence).items() if name not in _skipped(ledger)}
    faults = {**of_workers, **_faults(site, ledger), "429 of the provider": len(calls.cooldowns)}
    figures = {"workers killed": engine.killed(evidence), **faults, **limits.figures, **work.figures}
    wanted = dict.fromkeys(faults, least) | {"workers killed": kills}
    missing = [f"{name} {figures[name]} of {count}" for name, count in wanted.items() if figures[name] < count]
    return Verdict([*work.violations, *limits.violations], figures, [*missing, *limits.missing] if least else [])


def _skipped(ledger: str) -> set[str]:
    """On servers the faults of the store are those of its line, and results go through no file."""
    of_calls = {"answers of the store lost", "calls to the store failed"}
    return {_NOT_HERE} | (of_calls if ledger == "postgres" else set())


def _faults(site: troubles.Troubles, ledger: str) -> dict[str, int]:
    servers = ["blobs", "limits", *(["ledger"] if ledger == "postgres" else [])]
    counts = Counter(site.fired)
    counts.update({(server, RESTART): len(restarts) for server, restarts in site.restarts.items()})
    return {f"{server}: {fault}": counts[server, fault] for server, fault in kinds(servers)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a run: ledger.db, blobs/ and logs/")
    parser.add_argument("--ledger", choices=["postgres", "sqlite"], default="postgres")
    options = parser.parse_args()
    verdict = judge(options.folder, ledger=options.ledger)
    print(verdict.text())
    return verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
