"""Whose turn it is, and what each round told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping

from benchmarks.documents.commands import Ran


def alternating(contenders: Mapping[str, Callable[[], Ran]], rounds: int) -> Iterator[tuple[str, Ran]]:
    """Forwards and backwards, so that a drift of the machine does not favour anyone."""
    for turn in range(rounds):
        for name in list(contenders)[:: 1 if turn % 2 == 0 else -1]:
            ran = contenders[name]()
            told = f"  {turn + 1}: {name} {ran.seconds:.2f} s, CPU {ran.cpu_s:.2f} s, {ran.peak_mib:.0f} MiB"
            print(told, file=sys.stderr, flush=True)
            yield name, ran
