"""The SQL of limits in PostgreSQL: one statement a file, with its arguments and reply in the header."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

NAMES = (
    "lock",
    "lock_free",
    "near_sessions",
    "near_runs",
    "named_calls",
    "first_tails",
    "named_tails",
    "windows",
    "likely_behind",
    "behind",
    "before",
    "due_sessions",
    "later_session",
    "session",
    "runs_of",
    "calls_of",
    "totals",
    "read",
    "find",
    "put",
    "put_packed",
    "put_beat",
    "put_header",
    "add",
    "tell",
    "names",
)


@cache
def sql(name: str) -> str:
    """Without its header, which need not be sent each time."""
    lines = (resources.files(__package__) / f"{name}.sql").read_text("utf-8").splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith("--"))


@cache
def prepare() -> bytes:
    return "; ".join(f"PREPARE forebay_{name} AS {sql(name)}" for name in NAMES).encode()


def execute(name: str, *literals: bytes) -> bytes:
    return b"EXECUTE forebay_%b(%b)" % (name.encode(), b", ".join(literals))


def written_out(name: str, *literals: bytes) -> bytes:
    """The same where nothing can be prepared."""
    return re.sub(rb"\$(\d+)", lambda at: literals[int(at[1]) - 1], sql(name).encode())
