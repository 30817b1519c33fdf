"""Plays scenarios of `chaos.limits` in their short form, and says what the judge must say of them."""

from __future__ import annotations

from pathlib import Path

from chaos import checker
from chaos.limits.play import play


def assert_sound(name: str, store: str, folder: Path) -> None:
    verdict = play(name, store, folder / "short", short=True)
    print(verdict.text())  # noqa: T201 - shown when asked for, and when it fails
    is_slow = bool(verdict.violations) and all(_measures_use(each) for each in verdict.violations)
    if verdict.exit_code == checker.VOID or is_slow:
        # The machine was too slow to show anything, or to use what was free: once more, for longer.
        verdict = play(name, store, folder / "long")
    assert verdict.exit_code == checker.OK, verdict.text()


def _measures_use(violation: str) -> bool:
    """Return whether a machine that is too slow to use what is free violates this as well."""
    return "L5 " in violation or "calls were in progress on average" in violation


def assert_convicted(sabotage: str, name: str, store: str, promise: str, seconds: float, folder: Path) -> None:  # noqa: PLR0917
    """Play a scenario with a limiter that breaks one promise: the judge must find that promise broken."""
    limiter = f"chaos.limits.sabotaged:{sabotage}"
    verdict = play(name, store, folder / "short", adapter=limiter, short=True, seconds=seconds)
    if not _violates(verdict, promise):
        # A machine that is too slow gives the limiter no occasion: once more, for longer.
        verdict = play(name, store, folder / "long", adapter=limiter, short=True)
    assert _violates(verdict, promise), verdict.text()


def _violates(verdict: checker.Verdict, promise: str) -> bool:
    """For the right reason: what did not happen for lack of time would convict it, too, and say nothing."""
    found = [text for text in verdict.violations if text.startswith(f"{promise} ")]
    return verdict.exit_code == checker.VIOLATION and bool(found)
