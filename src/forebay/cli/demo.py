"""The command that proves the promise on this machine: demo."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.options import Reading

if TYPE_CHECKING:
    from forebay.demo.judging import Promise
    from forebay.demo.playing import Shown, Way
    from forebay.demo.watching import Progress

_USUAL = Reading()
_BROKEN = 1
_CHEATED = 3
_LINE_S = 2.0
_MARKS = ("✓", "✗")
_PLAIN_MARKS = ("ok  ", "FAIL")


def demo(
    *,
    quick: Annotated[bool, Parameter(negative="", help="Fewer documents, in less than half a minute.")] = False,
    naive: Annotated[bool, Parameter(help="Do the same load the naive way first, to compare.")] = True,
    cheat: Annotated[
        bool, Parameter(negative="", help="Tell the workers three times the quota, to see the verdict notice.")
    ] = False,
    common: Reading = _USUAL,
) -> int:
    """Its stores are in a folder of its own, which it deletes; nothing leaves this machine. 0 if all promises held."""
    from forebay.app import documents
    from forebay.cli import simulate
    from forebay.demo.playing import Play
    from forebay.demo.scene import FULL, QUICK

    documents.require()
    simulate.require()
    began = time.monotonic()
    live = _Live()
    shown = Play(QUICK if quick else FULL, say=live.say, told=live.told).run(
        compare=naive, times=_CHEATED if cheat else 1
    )
    took_s = time.monotonic() - began
    if common.output != "table":
        output.write([_record(shown, took_s)], common.output, one=True)
    else:
        _show(shown, took_s)
    return 0 if shown.held else _BROKEN


class _Live:
    """On stderr: a line that is written over on a terminal, else one now and then."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._width = 0
        self._line_at = 0.0

    def say(self, text: str) -> None:
        self._clear()
        output.note(text)

    def told(self, now: Progress) -> None:
        text = _summary(now)
        if self._terminal:
            import shutil

            room = shutil.get_terminal_size().columns - 1
            self._clear()
            sys.stderr.write(text[:room])
            sys.stderr.flush()
            self._width = min(len(text), room)
        elif time.monotonic() - self._line_at >= _LINE_S:
            self._line_at = time.monotonic()
            output.note(text)

    def _clear(self) -> None:
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            self._width = 0


def _summary(now: Progress) -> str:
    from forebay.cli.cells import span

    text = f"  {now.done_count} of {now.document_count} documents, {now.chunk_done_count} of {now.chunk_count} chunks"
    if now.eta_s is not None:
        text += f", about {span(now.eta_s)} left"
    return f"{text}; {now.waits}" if now.waits else text


def _show(shown: Shown, took_s: float) -> None:
    ways = {"forebay": shown.forebay} | ({"naive": shown.naive} if shown.naive else {})
    columns = [_numbers(way) for way in ways.values()]
    output.line()
    output.table(["", *ways], [[name, *(column[name] for column in columns)] for name in columns[0]])
    output.line()
    good, bad = _marks()
    output.line("The simulator's verdict on Forebay, and what its ledger says:")
    for each in shown.promises:
        output.line(f"{good if each.held else bad} {each.text}: {each.seen}{_bound(each)}")
    held = sum(each.held for each in shown.promises)
    output.line(f"{held} of {len(shown.promises)} promises held, in {took_s:.0f} s in all.")


def _bound(promise: Promise) -> str:
    return f" of {promise.most}" if promise.least else f", allowed are {promise.most}"


def _numbers(way: Way) -> dict[str, str]:
    seen, ended = way.verdict, way.ended
    found = {
        "documents done": f"{ended.done_count} of {ended.document_count}",
        "calls": str(seen["calls"]),
        "refused with 429": str(seen["refused_429"]),
        "made again": str(way.repeated_count),
    }
    for api, quota in seen["quotas"].items():
        found[f"{api}: most at once"] = f"{quota['in_flight']['peak']} (limit {quota['in_flight']['limit']})"
        for window in quota["windows"]:
            found[f"{api}: worst {window['per_s']:g} s"] = f"{window['worst']} (limit {window['limit']})"
    return found | {"took": f"{ended.took_s:.1f} s"}


def _marks() -> tuple[str, str]:
    try:
        "".join(_MARKS).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return _PLAIN_MARKS
    return _MARKS


def _record(shown: Shown, took_s: float) -> dict[str, Any]:
    return {
        "held": shown.held,
        "took_s": round(took_s, 1),
        "promises": [
            {"text": each.text, "held": each.held, "seen": each.seen, "least": each.least, "most": each.most}
            for each in shown.promises
        ],
        "killed": None
        if shown.killed is None
        else {
            "worker": shown.killed.name,
            "pid": shown.killed.pid,
            "calls_under_way": shown.killed.calls_under_way,
        },
        "forebay": _plain(shown.forebay),
        "naive": None if shown.naive is None else _plain(shown.naive),
    }


def _plain(way: Way) -> dict[str, Any]:
    return {
        "done_count": way.ended.done_count,
        "document_count": way.ended.document_count,
        "took_s": round(way.ended.took_s, 1),
        "repeated_count": way.repeated_count,
        "verdict": way.verdict,
    }
