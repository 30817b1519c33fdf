"""What befalls the servers and the provider, and when: each has a deck of troubles, which is dealt again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from chaos.fleet.promised import RULES
from chaos.fleet.proxy import FAULTS
from chaos.limits.lines import Message

RESTART = "restart"
_PATIENCE_S = 3.0
_KILLED = {"ledger", "limits"}

Tell = Callable[[Message], Message]


def kinds(servers: list[str]) -> list[tuple[str, str]]:
    """Every trouble that there is, as server and fault."""
    faults = [(server, fault) for server in servers for fault in FAULTS]
    return [*faults, *((server, RESTART) for server in servers if server in _KILLED)]


class Deck:
    """The troubles of one server, one after the other, with some peace between them."""

    def __init__(self, server: str, site: Tell, chance: random.Random) -> None:
        self.server = server
        self.site = site
        self.chance = chance
        self.under_way = ""
        self.due_at = time.monotonic() + chance.uniform(0.5, 2.0)
        self._cards = self._dealt()
        self._dealt_count = 0

    def _dealt(self) -> Iterator[str]:
        while True:
            cards = self.chance.sample(FAULTS, len(FAULTS))
            if self.server in _KILLED:
                # Never two in a row: what one restart may cost is over before the next.
                cards.insert(self.chance.randrange(1, len(FAULTS)), RESTART)
            yield from cards

    def look(self) -> None:
        """Begin or end a trouble, if it is time."""
        if time.monotonic() < self.due_at or self._goes_on():
            return
        if self.under_way:
            self.calm()
            # All of them soon, and then with time in between in which limits are reached and work is done.
            self._dealt_count += 1
            longest_s = 1.2 if self._dealt_count < len(FAULTS) + 1 else 6.0
            self.due_at = time.monotonic() + self.chance.uniform(0.3, 1.0) * longest_s
            return
        self.under_way = next(self._cards)
        lasts_s, amount = self._size()
        self.due_at = time.monotonic() + lasts_s
        if self.under_way == RESTART:
            self.site({"do": "restart", "server": self.server, "down_s": amount})
        else:
            self.site({"do": "begin", "server": self.server, "fault": self.under_way, "amount": amount})

    def _size(self) -> tuple[float, float]:
        uniform = self.chance.uniform
        match self.under_way:
            case "latency":
                return uniform(0.4, 1.2), uniform(0.01, 0.15)
            case "hang":
                return self.chance.choice([0.4, 0.8, 1.5, 3.0]), 0.0
            case "lost":
                return 1.0, self.chance.randrange(1, 4)
            case "restart":
                return 0.2, uniform(0.05, 0.8)
            case _:
                return 0.0, 0.0

    def _goes_on(self) -> bool:
        """Until the server is back, or somebody was struck."""
        if self.under_way == RESTART:
            return self._down()
        if not self.under_way or time.monotonic() > self.due_at + _PATIENCE_S:
            return False
        return self.server not in self.site({"do": "state"})["struck"]

    def _down(self) -> bool:
        return self.server in self.site({"do": "state"})["down"]

    def calm(self) -> None:
        while self.under_way == RESTART and self._down():
            time.sleep(0.05)
        self.under_way = ""
        self.site({"do": "end", "server": self.server})


class Weather:
    def __init__(self, servers: list[str], site: Tell, provider: Tell, chance: random.Random) -> None:
        self._decks = [Deck(server, site, chance) for server in servers]
        self._provider = provider
        self._chance = chance
        self._refuses_at = time.monotonic() + chance.uniform(2, 4)

    def look(self) -> None:
        for deck in self._decks:
            deck.look()
        if time.monotonic() >= self._refuses_at:
            self._refuses_at = time.monotonic() + self._chance.uniform(3, 7)
            self._refuse()

    def _refuse(self) -> None:
        order = {"do": "refuse", "limit": self._chance.choice([*RULES]), "status": 429, "for_s": 2.0}
        retry_after_s, worked = self._chance.uniform(0.6, 2.0), self._chance.random() < 0.5
        self._provider(
            order | {"calls": self._chance.randrange(1, 4), "retry_after_s": retry_after_s, "worked": worked}
        )

    def calm(self) -> None:
        for deck in self._decks:
            deck.calm()
        for limit in RULES:
            self._provider({"do": "refuse", "limit": limit, "calls": 0})
