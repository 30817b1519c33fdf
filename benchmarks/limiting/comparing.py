"""Measures contenders in interleaved rounds, and prints ratios of their medians before the figures themselves."""

from __future__ import annotations

import os
import statistics
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks.limiting.driving import Driven, drive
from benchmarks.limiting.gates import LOOSE, Bound, Contender, anothing, nothing
from benchmarks.limiting.server import Scripts, ServerTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How all contenders of one comparison are driven; `address` is asked for each measurement anew."""

    address: Callable[[], str]
    callers: int
    rounds: int
    seconds: float
    bound: Bound = LOOSE
    server: ServerTime | None = None
    inside: Callable[[], object] = nothing
    ainside: Callable[[], Awaitable[object]] = anothing


@dataclass(slots=True)
class Row:
    contender: Contender
    driven: list[Driven] = field(default_factory=list)
    scripts: list[Scripts] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(each.rate for each in self.driven)

    @property
    def cpu_us(self) -> float:
        return statistics.median(each.cpu_us for each in self.driven)

    @property
    def script_us(self) -> float | None:
        """The server's time for one run of a script."""
        found = [each.usec / each.calls for each in self.scripts if each.calls]
        return statistics.median(found) if found else None

    @property
    def scripts_each(self) -> float | None:
        """How many runs of scripts a pair took."""
        if not self.scripts:
            return None
        return statistics.median(
            each.calls / driven.pairs for each, driven in zip(self.scripts, self.driven, strict=True) if driven.pairs
        )


def measure(contenders: Iterable[Contender], setting: Setting) -> list[Row]:
    rows = [Row(each) for each in contenders]
    for turn in range(setting.rounds):
        # Forwards and backwards, so that a drift of the machine does not favour anyone.
        for row in rows if turn % 2 == 0 else rows[::-1]:
            _measure(row, setting)
    return rows


def _measure(row: Row, setting: Setting) -> None:
    server = setting.server
    if server is not None:
        server.empty()
    row.driven.append(
        drive(
            row.contender,
            setting.address(),
            setting.bound,
            callers=setting.callers,
            seconds=setting.seconds,
            inside=setting.inside,
            ainside=setting.ainside,
            warmed=nothing if server is None else server.restart,
        )
    )
    if server is not None:
        row.scripts.append(server.scripts())


def table(
    title: str,
    rows: list[Row],
    against: Row | None,
    *,
    asked: float | None = None,
    worst: Mapping[str, int] | None = None,
    allowed: int = 0,
) -> None:
    """`against` is what ratios refer to, `asked` the ratio that is asked of ours; `worst` counts, `allowed` of them."""
    rounds = len(rows[0].driven)
    print(f"\n{title}; {rounds} rounds, interleaved; load {os.getloadavg()[0]:.1f}")
    exact = f"{f'worst of {allowed}':>12}" if worst is not None else ""
    print(
        f"{'median of rounds':>37} {'ratio':>6} {'pairs/s':>9} {'least':>8} {'most':>8} {'CPU us':>7}"
        f" {'scripts':>8} {'us each':>8}{exact}"
    )
    for row in rows:
        rates = [each.rate for each in row.driven]
        ratio = f"{row.rate / against.rate:>5.2f}x" if against is not None else f"{'':>6}"
        print(
            f"{row.contender.name:>37} {ratio} {row.rate:>9,.0f} {min(rates):>8,.0f} {max(rates):>8,.0f}"
            f" {row.cpu_us:>7.0f} {_shown(row.scripts_each, 2):>8} {_shown(row.script_us, 1):>8}"
            f"{_exact(row, worst, allowed)}  {_verdict(row, against, asked)}".rstrip(),
            flush=True,
        )


def _shown(figure: float | None, digits: int) -> str:
    return "" if figure is None else f"{figure:.{digits}f}"


def _exact(row: Row, worst: Mapping[str, int] | None, allowed: int) -> str:
    if worst is None:
        return ""
    count = worst.get(row.contender.name)
    if count is None:
        return f"{'no window':>12}"
    return f"{count:>12}" if count <= allowed else f"{f'{count} OVER':>12}"


def _verdict(row: Row, against: Row | None, asked: float | None) -> str:
    if not row.contender.is_ours or asked is None or against is None:
        return row.contender.setting
    return f"asked >= {asked:g}x: {met(row.rate >= asked * against.rate)}"


def met(is_met: bool) -> str:  # noqa: FBT001 - a condition and its word
    return "met" if is_met else "MISSED"
