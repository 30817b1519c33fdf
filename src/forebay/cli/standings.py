"""Lays out for people where tasks, jobs and lanes stand."""

from __future__ import annotations

from collections.abc import Iterator

from forebay.cli.cells import beside, span, when
from forebay.model.lane import Certainty
from forebay.rules.standing import Standing

_HELP = {True: "more workers would help", False: "more workers would not help"}


def outlook_lines(standing: Standing, now: float) -> Iterator[str]:
    """What `why` says below the reasons."""
    if standing.position is not None:
        yield f"position: {_position(standing)} in its lane"
    if standing.position is not None or standing.wait_reason is not None:
        yield f"starts: {_when(standing, standing.eta_s, standing.eta_at, now)}"
    if standing.calls_left_count:
        last = "" if standing.last_eta_s is None else f", the last of them in about {span(standing.last_eta_s)}"
        yield f"calls left: {standing.calls_left_count}{last}"
    if standing.end_eta_s is not None:
        yield f"done: {_when(standing, standing.end_eta_s, standing.end_eta_at, now)}"
    if standing.more_workers_help is not None:
        binds = f" ({', '.join(standing.binds)} binds)" if standing.binds else ""
        yield f"{_HELP[standing.more_workers_help]}{binds}"


def outlook_pairs(standing: Standing, now: float) -> list[tuple[str, str]]:
    """What `get` says of something that is open."""
    waits = standing.position is not None or standing.wait_reason is not None
    help_ = standing.more_workers_help
    return [
        ("wait_reason", standing.wait_reason or ""),
        ("limit", standing.limit or ""),
        ("backoff_s", f"{standing.backoff_s:.3f}" if standing.backoff_s else ""),
        ("backoff_level", str(standing.backoff_level) if standing.backoff_level else ""),
        ("cooldown_until", when(standing.cooldown_until, now)),
        ("position", _position(standing)),
        ("eta_s", "" if not waits else "not known" if standing.eta_s is None else f"{standing.eta_s:.3f}"),
        ("eta_at", when(standing.eta_at, now)),
        ("end_eta_at", when(standing.end_eta_at, now)),
        ("calls_left_count", "" if standing.calls_left_count is None else str(standing.calls_left_count)),
        ("binds", ", ".join(standing.binds)),
        ("more_workers_help", "" if help_ is None else "yes" if help_ else "no"),
    ]


def waits_cell(standing: Standing, now: float) -> str:
    """The reason and, where it is known, its end."""
    if standing.wait_reason is None:
        return ""
    first = next(each for each in standing.reasons if each.code == standing.wait_reason)
    return standing.wait_reason if first.until is None else f"{standing.wait_reason}, {beside(first.until, now)}"


def start_cell(standing: Standing) -> str:
    if standing.eta_s is None:
        return "not known"
    return "now" if standing.eta_s <= 0 else f"in about {span(standing.eta_s)}"


def _position(standing: Standing) -> str:
    if standing.position is None:
        return ""
    if standing.position_is is Certainty.AT_LEAST:
        return f"more than {standing.position - 1}"
    return f"about {standing.position}" if standing.position_is is Certainty.ABOUT else str(standing.position)


def _when(standing: Standing, eta_s: float | None, eta_at: float | None, now: float) -> str:
    if eta_s is None:
        return "nobody can say when"
    if standing.position_is is Certainty.AT_LEAST:
        return f"later than {when(eta_at, now)}"
    return "as soon as a worker takes it" if eta_s <= 0 else f"about {when(eta_at, now)}"
