"""Chooses which call misbehaves: by its own header, by the script, or by chance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from forebay.simulate.fault import Fault
from forebay.simulate.routes import matching
from forebay.simulate.settings import FaultRule

HEADER = "x-simulate"


@dataclass
class _Running:
    rule: FaultRule
    set_at: float
    seen: int = 0
    fired: int = 0


class Faults:
    """The first rule that applies wins; each counts the calls of its routes from when it was set."""

    def __init__(self, rules: Iterable[FaultRule], random: Random, *, now: float) -> None:
        self._random = random
        self._running: list[_Running] = []
        self.configure(rules, now=now)

    def configure(self, rules: Iterable[FaultRule], *, now: float) -> None:
        """A rule that stays keeps its count."""
        kept = list(self._running)
        self._running = []
        for rule in rules:
            old = next((each for each in kept if each.rule == rule), None)
            if old is not None:
                kept.remove(old)
            self._running.append(old or _Running(rule, now))

    def choose(self, route: str, header: str | None, *, now: float) -> Fault | None:
        chosen = Fault.read(header) if header is not None else None
        for each in self._running:
            if route in matching(each.rule.route) or each.rule.route == "*":
                each.seen += 1
                if chosen is None and self._strikes(each, now):
                    each.fired += 1
                    chosen = Fault.read(each.rule.fault)
        return None if chosen is not None and chosen.kind == "ok" else chosen

    def _strikes(self, each: _Running, now: float) -> bool:
        rule = each.rule
        if rule.for_s is not None and now - each.set_at > rule.for_s:
            return False
        if rule.times is not None and each.fired >= rule.times:
            return False
        if rule.calls is not None and each.seen not in rule.calls:
            return False
        return rule.share >= 1.0 or self._random.random() < rule.share
