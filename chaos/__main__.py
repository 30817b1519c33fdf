"""The chaos runs.

`ledger` kills processes that hammer one SQLite file, `engine` kills, stops and cuts off real workers on one, `power`
cuts the power at every step of a path, `limits` lets processes share a limiter and counts what a provider sees.
`fleet`, which is meant where nothing is named, does all this to workers on PostgreSQL, Valkey and S3.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from chaos import checker, copying, sabotage
from chaos.hammer import Hammer, Plan
from chaos.limits import command as limits

ROOT = Path(__file__).resolve().parent.parent
LONG_S, MANY_KILLS = 700, 500
"""What a long run of the fleet is, and how many kills it must have seen."""


def least(seconds: float) -> dict[str, int]:
    """What a run must have seen to prove anything; kills and stops grow with its length."""
    return {
        "kills": int(seconds * 2),
        "stops": max(1, int(seconds / 6)),
        "merges": 1,
        "settles fenced": 1,
        "attempts rescued": 1,
        "answers thrown away": 1,
        "of these found stored": 1,
        "group commits": 1,
    }


def ledger(options: argparse.Namespace) -> int:
    folder = options.folder or Path(tempfile.mkdtemp(prefix="forebay-chaos-"))
    if (folder / "run").exists():
        sys.exit(f"{folder / 'run'} is there already: name another --folder, or remove it.")
    seconds = options.minutes * 60
    plan = Plan(
        folder=folder / "run",
        seconds=seconds,
        seed=options.seed,
        processes=options.processes,
        sabotage=options.sabotage,
        address=options.address,
    )
    Hammer(plan).run()
    wanted = least(seconds)
    if plan.address:
        copying.copy(plan.address, plan.file)
        del wanted["group commits"]  # of one file and its one writer
    verdict = checker.judge(plan.file, plan.logs, least=wanted)
    broken = f" --sabotage {plan.sabotage}" if plan.sabotage else ""
    again = f"./dev chaos ledger --minutes {options.minutes:g} --processes {plan.processes} --seed {plan.seed}{broken}"
    print(verdict.text(again))
    if options.folder is None and verdict.exit_code == checker.OK:
        shutil.rmtree(folder)
    else:
        print(f"kept: {plan.folder}")
    return verdict.exit_code


def engine(options: argparse.Namespace) -> int:
    # Loaded when asked for: with its application come all of Forebay's modules.
    from chaos.engine import small_disk  # noqa: PLC0415
    from chaos.engine.conductor import Conductor  # noqa: PLC0415
    from chaos.engine.conductor import Plan as Storm  # noqa: PLC0415
    from chaos.engine.judge import judge  # noqa: PLC0415
    from chaos.engine.life import Folder  # noqa: PLC0415

    root = options.folder or Path(tempfile.mkdtemp(prefix="forebay-chaos-"))
    if (root / "run").exists():
        sys.exit(f"{root / 'run'} is there already: name another --folder, or remove it.")
    folder = Folder(root=root / "run")
    if options.disk_mb:
        folder = Folder(root=root / "run", disk=root / "disk")
        small_disk.mount(root / "disk", options.disk_mb)
    seconds = options.minutes * 60
    Conductor(
        Storm(folder=folder, seconds=seconds, seed=options.seed, kills=options.kills, sabotage=options.sabotage)
    ).run()
    if folder.disk is not None:
        small_disk.unmount(folder.disk)
    verdict = judge(folder.root, least=20 if seconds >= 120 else 1, kills=options.kills or 0)
    kills = f" --kills {options.kills}" if options.kills else ""
    broken = f" --sabotage {options.sabotage}" if options.sabotage else ""
    disk = f" --disk-mb {options.disk_mb}" if options.disk_mb else ""
    print(verdict.text(f"./dev chaos engine --minutes {options.minutes:g} --seed {options.seed}{kills}{broken}{disk}"))
    if options.folder is None and verdict.exit_code == checker.OK:
        shutil.rmtree(root)
    else:
        print(f"kept: {folder.root}")
    return verdict.exit_code


def fleet(options: argparse.Namespace) -> int:
    # Loaded when asked for: with its application come all of Forebay's modules.
    from chaos.fleet.conductor import lead  # noqa: PLC0415
    from chaos.fleet.judge import judge  # noqa: PLC0415
    from chaos.fleet.life import SABOTAGES  # noqa: PLC0415

    if unknown := {*filter(None, options.sabotage.split(","))} - {*SABOTAGES}:
        sys.exit(f"no sabotage {', '.join(sorted(unknown))}: {', '.join(SABOTAGES)}")
    root = options.folder or Path(tempfile.mkdtemp(prefix="forebay-chaos-"))
    if (root / "run").exists():
        sys.exit(f"{root / 'run'} is there already: name another --folder, or remove it.")
    seconds = options.minutes * 60
    lead(
        root / "run",
        ledger=options.ledger,
        seconds=seconds,
        seed=options.seed,
        kills=options.kills,
        sabotage=options.sabotage,
    )
    kills = options.kills or (MANY_KILLS if seconds >= LONG_S else 0)
    verdict = judge(root / "run", ledger=options.ledger, least=20 if seconds >= LONG_S else 1, kills=kills)
    more = "".join(
        f" --{name} {value}"
        for name, value in (("kills", options.kills), ("sabotage", options.sabotage), ("ledger", options.ledger))
        if value and value != "postgres"
    )
    print(verdict.text(f"./dev chaos fleet --minutes {options.minutes:g} --seed {options.seed}{more}"))
    if options.folder is None and verdict.exit_code == checker.OK:
        shutil.rmtree(root)
    else:
        print(f"kept: {root / 'run'}")
    return verdict.exit_code


def power(_: argparse.Namespace) -> int:
    tests = ["tests/faults/test_power_loss.py", "tests/faults/test_io_errors.py"]
    command = [sys.executable, "-m", "pytest", "-v", "--durations=0", *tests]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "FOREBAY_FUZZ": "1"}, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("ledger", help="several processes on one SQLite file, killed and stopped at random")
    one.add_argument("--minutes", type=float, default=1.0)
    one.add_argument("--seed", default=secrets.token_hex(4))
    one.add_argument("--processes", type=int, default=2)
    one.add_argument("--folder", type=Path, help="keep file and journals here")
    one.add_argument("--sabotage", choices=sorted(sabotage.KINDS), default="", help="break a promise: must be caught")
    one.add_argument("--address", default="", help="hammer this PostgreSQL database, which should be empty")
    one.set_defaults(run=ledger)
    engines = verbs.add_parser("engine", help="real workers on one SQLite file, struck at every step of a task's path")
    engines.add_argument("--minutes", type=float, default=1.0)
    engines.add_argument("--kills", type=int, help="end the storm when so many workers were killed")
    engines.add_argument("--seed", default=secrets.token_hex(4))
    engines.add_argument("--folder", type=Path, help="keep file, blobs and journals here")
    engines.add_argument(
        "--disk-mb", type=int, default=0, metavar="MB", help="keep ledger and blobs on a small disk that fills up"
    )
    engines.add_argument("--sabotage", choices=["forgetful", "unfenced"], default="", help="must be caught")
    engines.set_defaults(run=engine)
    fleets = verbs.add_parser("fleet", help="workers on PostgreSQL, Valkey and S3, which are struck as well")
    fleets.add_argument("--minutes", type=float, default=1.0)
    fleets.add_argument("--kills", type=int, help="end the storm when so many workers were killed")
    fleets.add_argument("--seed", default=secrets.token_hex(4))
    fleets.add_argument("--ledger", choices=["postgres", "sqlite"], default="postgres")
    fleets.add_argument("--folder", type=Path, help="keep rows, blobs and journals here")
    fleets.add_argument("--sabotage", default="", metavar="KIND,…", help="break promises: must be caught")
    fleets.set_defaults(run=fleet)
    two = verbs.add_parser("power", help="a power cut, a kill and a failing disk at every step of one task's path")
    two.set_defaults(run=power)
    three = verbs.add_parser("limits", help="processes that share a limiter, killed and stopped, seen by a provider")
    limits.add_options(three)
    three.set_defaults(run=limits.run)
    given = sys.argv[1:]
    named = bool(given) and (not given[0].startswith("-") or given[0] in {"-h", "--help"})
    options = parser.parse_args(given if named else ["fleet", *given])
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
