"""Runs as one of eight processes that update the same value of a server at the same time."""

import json
import sys
import time
from contextlib import closing
from pkgutil import resolve_name

from tests.selftest.contenders import Contender


def take_part(order: dict[str, object], writer: int) -> None:
    kind: type[Contender] = resolve_name(str(order["kind"]))
    acknowledged = []
    with closing(kind(str(order["url"]), str(order["corner"]), atomic=bool(order["atomic"]))) as contender:
        say("ready")
        begin, step = (float(part) for part in sys.stdin.readline().split())
        for turn in range(int(str(order["turns"]))):
            # A common start for each turn: otherwise the first process to begin meets nobody.
            time.sleep(max(0.0, begin + turn * step - time.time()))
            if contender.attempt(turn, writer):
                acknowledged.append(turn)
    say(json.dumps(acknowledged))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for line in sys.stdin:
        take_part(json.loads(line), int(sys.argv[1]))
