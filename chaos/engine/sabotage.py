"""Ledgers that break one promise to workers: a judge that does not convict them is no judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from chaos.sabotage import Unfenced
from forebay.model.exchange import Reply, Settle, Settled
from forebay.stores.base import Ledger


class Forgetful:
    """Acknowledges one settle of many without having written it."""

    def __init__(self, ledger: Ledger, *, one_in: int = 10) -> None:
        self._ledger = ledger
        self._one_in = one_in
        self._count = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest of the contract, as it is
        return getattr(self._ledger, name)

    def exchange(self, session_id: str, n: int, *, settles: Sequence[Settle] = (), **rest: Any) -> Reply:  # noqa: ANN401
        kept = [settle for settle in settles if self._keeps()]
        reply = self._ledger.exchange(session_id, n, settles=kept, **rest)
        told = {(answer.task_id, answer.token): answer for answer in reply.settled}
        answers = [
            told.get((settle.task_id, settle.token)) or Settled(settle.task_id, settle.token, fenced=False)
            for settle in settles
        ]
        return replace(reply, settled=tuple(answers))

    def _keeps(self) -> bool:
        self._count += 1
        return self._count % self._one_in != 0


def apply(kind: str, ledger: Ledger, forged: Path) -> Ledger:
    """With a line in the file `forged` for each late settle that passes for another: none, and nothing is shown."""
    if kind == "unfenced":
        return cast("Ledger", Unfenced(ledger, forges=lambda: _add_line(forged)))
    return cast("Ledger", Forgetful(ledger)) if kind == "forgetful" else ledger


def _add_line(path: Path) -> None:
    with path.open("a") as file:
        file.write("\n")
