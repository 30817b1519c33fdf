"""What is submitted in the run: more than the limits let through, so that something always waits for them."""

from __future__ import annotations

import random

from chaos.engine.app import LARGE
from chaos.engine.submitter import Asked
from chaos.fleet.promised import LONGEST_MS
from forebay.app.forebay import Forebay

_WEIGHTS = {
    "quick": 7,
    "large": 7,
    "several": 3,
    "block": 2,
    "steps": 2,
    "later": 4,
    "flaky": 3,
    "refuse": 0.5,
    "pages": 2,
}
_MS = (50, 150, 300, LONGEST_MS)
_SLOW_MS = 1200
_FREE = {"later", "flaky", "refuse"}


def order(app: Forebay, number: int, chance: random.Random, *, slow: bool) -> Asked:
    """Slow ones still run when a worker wakes up that has lost them; no limit holds these back."""
    kind = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    if slow and chance.random() < 0.3:
        kind = "later"
    key = f"{kind}/{number}"
    ms = chance.choice(_MS)
    if kind == "pages":
        numbers = [1000 * number + index for index in range(chance.choice([1, 3, 6]))]
        payload = {"numbers": numbers, "ms": ms}
        return Asked(key, kind, len(numbers), lambda: app.start("pages", payload, idempotency_key=key))
    given: dict[str, object] = {"number": number, "ms": ms}
    if kind in {"several", "steps"}:
        given["pages"] = [chance.randrange(1, 4) for _ in range(chance.randrange(1, 4))]
    elif kind == "large":
        given["pages"] = chance.randrange(1, 4)
    elif kind in {"later", "flaky"}:
        given["times"] = chance.randrange(1, 3)
        given["filling"] = LARGE
    if kind in _FREE:
        given["ms"] = _SLOW_MS if slow else ms // 4
    return Asked(key, kind, 0, lambda: app.submit(kind, given, idempotency_key=key))
