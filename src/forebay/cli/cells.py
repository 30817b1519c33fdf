"""Turns values into what people read: times beside now, short ids, harmless text."""

from __future__ import annotations

from collections.abc import Iterable

from forebay.clock import iso
from forebay.ids import printable

_LEAST = 8
_LONG = 60
_STEPS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def clock_time(instant: float) -> str:
    """An instant to the second; JSON has the milliseconds."""
    return f"{iso(instant)[:10]} {iso(instant)[11:19]}Z"


def beside(instant: float | None, now: float) -> str:
    """`in 42 s` or `3 min ago`."""
    if instant is None:
        return ""
    amount = span(abs(instant - now))
    return f"in {amount}" if instant > now else f"{amount} ago"


def span(seconds: float) -> str:
    for size, unit in _STEPS:
        if seconds >= size:
            return f"{int(seconds / size)} {unit}"
    return f"{round(seconds * 1000)} ms"


def when(instant: float | None, now: float) -> str:
    return "" if instant is None else f"{clock_time(instant)} ({beside(instant, now)})"


def short_ids(full: Iterable[str]) -> dict[str, str]:
    """The shortest beginning of each, of 8 characters or more, that no other of them has."""
    ordered = sorted(set(full))
    made = {}
    for index, each in enumerate(ordered):
        length = _LEAST
        for other in ordered[max(0, index - 1) : index] + ordered[index + 1 : index + 2]:
            while other[:length] == each[:length] and length < len(each):
                length += 1
        made[each] = each[:length]
    return made


def cut(text: str, most: int = _LONG) -> str:
    """One harmless line, for a cell that must not push the others away."""
    line = printable(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"
