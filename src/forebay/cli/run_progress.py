"""Shows on stderr how documents get on: a bar for all and one for each on a terminal, else a line now and then."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from forebay.cli import output
from forebay.cli.cells import span
from forebay.ids import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from forebay.app.item import Item
    from forebay.app.running import Run

_LINE_S = 10.0
_BAR_S = 0.2  # all items are counted for it, and there may be many
_BARS = 8


class Progress:
    """Called in the worker's loop, so it does little; `ended` hears of each item that has ended, once."""

    def __init__(self, ended: Callable[[Item], None] | None = None) -> None:
        self._ended = ended
        self._run: Run | None = None
        self._bars: Bars | None = None
        self._rows: dict[int, TaskID] = {}
        self._total: TaskID | None = None
        self._told: set[int] = set()
        self._before: dict[int, float] = {}
        self._began_at = time.monotonic()
        self._line_at = self._began_at

    def of(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._bars = _bars()
            self._bars.start()
            self._total = self._bars.add_task("all", total=None, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()

    def told(self, item: Item) -> None:
        if item.page_count is not None and not item.ended:
            self._before.setdefault(id(item), item.page_count * item.done_share)
        if item.ended and id(item) not in self._told:
            self._told.add(id(item))
            self.say(_end_of(item))
            if self._ended is not None:
                self._ended(item)
        if self._bars is not None:
            self._show(item, self._bars)
        elif time.monotonic() - self._line_at >= _LINE_S:
            self._line_at = time.monotonic()
            self.say(self._summary())

    def say(self, text: str) -> None:
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False)
            return
        with suppress(OSError):  # continue also if nobody listens any more
            output.note(text)

    def _show(self, item: Item, bars: Bars) -> None:
        row = self._rows.get(id(item))
        if item.ended:
            if row is not None:
                bars.remove_task(self._rows.pop(id(item)))
        elif row is None and len(self._rows) < _BARS:
            self._rows[id(item)] = bars.add_task(printable(item.path.name), total=1.0, note="")
        if id(item) in self._rows:
            pages = f"{item.page_count} pages" if item.page_count else "looking into it"
            bars.update(self._rows[id(item)], completed=item.done_share, note=item.waits or pages)
        if self._total is not None and self._run is not None and time.monotonic() - self._line_at >= _BAR_S:
            self._line_at = time.monotonic()
            items = self._run.items
            shares = sum(1.0 if each.ended else each.done_share for each in items)
            bars.update(self._total, total=len(items), completed=shares, note=self._summary())

    def _summary(self) -> str:
        items = self._run.items if self._run is not None else []
        ended = sum(item.ended for item in items)
        known = _pages(items)
        done = sum((item.page_count or 0) * item.done_share for item in items)
        took_s = time.monotonic() - self._began_at
        # What was stored before this run says nothing of its pace.
        rate = (done - sum(self._before.values())) / took_s if took_s > 0 else 0.0
        text = f"{ended} of {len(items)} documents, {done:.0f} of {known} pages"
        if rate > 0 and done < known:
            text += f", {rate:.1f} pages/s, about {span((known - done) / rate)} left"
        waits = next((item.waits for item in items if not item.ended and item.waits), "")
        return f"{text}; {waits}" if waits else text


def _pages(items: Sequence[Item]) -> int:
    """Of all; those that nobody has looked into yet are taken for as long as the others."""
    known = [item.page_count for item in items if item.page_count is not None]
    unknown = sum(item.page_count is None and not item.ended for item in items)
    return sum(known) + (round(unknown * sum(known) / len(known)) if known else 0)


def _end_of(item: Item) -> str:
    name = printable(str(item.path))
    if item.status == "completed":
        pages = "1 page" if item.page_count == 1 else f"{item.page_count} pages"
        holes = f", {item.hole_count} of them missing" if item.hole_count else ""
        files = ", ".join(printable(str(each)) for each in item.outputs)
        damage = f" ({printable(item.damage)})" if item.damage else ""
        return f"{name}: {pages}{holes}{damage} -> {files}"
    how = dict.fromkeys((str(item.status), str(item.error_class)))  # what is refused may be so because it is refused
    return printable(f"{name}: {': '.join(how)}: {item.error_text} {item.remedy}".rstrip())


def _bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Made

    return Made(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
        transient=True,
        # Answers that a program reads must not take the way of the bars.
        redirect_stdout=sys.stdout.isatty(),
    )
