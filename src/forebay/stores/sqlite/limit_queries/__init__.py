"""The SQL of limits in SQLite: one statement a file, with its arguments and reply in the header."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def sql(name: str) -> str:
    """Without its header, which need not be compared with each use."""
    lines = (resources.files(__package__) / f"{name}.sql").read_text("utf-8").splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith("--"))


def names() -> list[str]:
    folder = resources.files(__package__)
    return sorted(file.name.removesuffix(".sql") for file in folder.iterdir() if file.name.endswith(".sql"))
