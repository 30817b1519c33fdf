"""Plays scenarios one after the other, and says what the judge made of each."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from chaos.checker import OK, VIOLATION, VOID
from chaos.limits.cast import OURS
from chaos.limits.play import play
from chaos.limits.scenarios import SCENARIOS

_WORDS = {OK: "SOUND", VIOLATION: "UNSOUND", VOID: "VOID"}


def run(options: argparse.Namespace) -> int:
    root = options.folder or Path(tempfile.mkdtemp(prefix="forebay-chaos-"))
    codes = []
    lines = []
    began_at = time.monotonic()
    for name, store in chosen(options.scenario, options.store):
        folder = root / f"{name}-{store}"
        if folder.exists():
            sys.exit(f"{folder} is there already: name another --folder, or remove it.")
        played_at, load = time.monotonic(), os.getloadavg()[0]
        verdict = play(name, store, folder, adapter=options.adapter or OURS, short=options.short)
        again = f"./dev chaos limits --scenario {name} --store {store}{' --short' if options.short else ''}"
        again += f" --adapter {options.adapter}" if options.adapter else ""
        print(f"\n{name} on {store}: {verdict.text(again)}", flush=True)
        took_s = time.monotonic() - played_at
        lines.append(f"{name:<20} {store:<7} {_WORDS[verdict.exit_code]:<8} {took_s:6.1f} s   load {load:.1f}")
        codes.append(verdict.exit_code)
        if options.folder is None and verdict.exit_code == OK:
            shutil.rmtree(folder)
        else:
            print(f"kept: {folder}")
    print("", *lines, f"{len(lines)} scenarios in {time.monotonic() - began_at:.0f} s", sep="\n")
    if options.folder is None and not any(root.iterdir()):
        root.rmdir()
    return VIOLATION if VIOLATION in codes else VOID if VOID in codes else OK


def chosen(name: str, store: str | None) -> list[tuple[str, str]]:
    if name != "all" and name not in SCENARIOS:
        sys.exit(f"no scenario {name!r}: all, {', '.join(SCENARIOS)}")
    names = [*SCENARIOS] if name == "all" else [name]
    found = [(each, one) for each in names for one in SCENARIOS[each].stores if store in {None, one}]
    if not found:
        sys.exit(f"{name} cannot befall {store}: it has {', '.join(SCENARIOS[name].stores)}")
    return found
