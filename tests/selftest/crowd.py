"""Sends eight writer processes against one value and says what the server acknowledged."""

import json
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.selftest import writer
from tests.selftest.contenders import Contender

WRITERS = 8
ROOT = Path(writer.__file__).parents[2]
HEAD_START_S = 0.05


@dataclass(frozen=True)
class Result:
    acknowledged: list[list[int]]
    """For each writer, the turns in which the server said yes to it."""
    final: list[int]

    @property
    def lost_updates(self) -> int:
        (final,) = self.final
        return sum(map(len, self.acknowledged)) - final

    @property
    def disputed_turns(self) -> list[int]:
        """Turns without a creator, with several, or where another's object is stored."""
        return [
            turn
            for turn, owner in enumerate(self.final)
            if [who for who, turns in enumerate(self.acknowledged) if turn in turns] != [owner]
        ]


class Crowd:
    def __init__(self) -> None:
        self._writers = [
            subprocess.Popen(
                [sys.executable, "-m", writer.__name__, str(number)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(WRITERS)
        ]

    def contend(
        self,
        kind: type[Contender],
        url: str,
        corner: str,
        *,
        turns: int,
        step_s: float = 0.0,
        atomic: bool = True,
    ) -> Result:
        order = {
            "kind": f"{kind.__module__}:{kind.__name__}",
            "url": url,
            "corner": corner,
            "atomic": atomic,
            "turns": turns,
        }
        with closing(kind(url, corner, atomic=atomic)) as judge:
            judge.prepare()
            self._tell(json.dumps(order))
            self._hear()
            self._tell(f"{time.time() + HEAD_START_S} {step_s}")
            acknowledged = [json.loads(line) for line in self._hear()]
            return Result(acknowledged, judge.values(turns))

    def _tell(self, line: str) -> None:
        for process in self._writers:
            assert process.stdin is not None
            # A writer that has ended says why when it is heard.
            with suppress(BrokenPipeError):
                process.stdin.write(line + "\n")
                process.stdin.flush()

    def _hear(self) -> list[str]:
        lines = []
        for number, process in enumerate(self._writers):
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"writer {number} ended with {process.wait()}: see the captured stderr")
            lines.append(line)
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._writers:
            process.kill()
            process.communicate()
