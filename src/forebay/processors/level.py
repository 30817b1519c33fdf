"""Says how far a parser child is shut off."""

from __future__ import annotations

from typing import NamedTuple


class Level(NamedTuple):
    """`missing` has a reason for each part that this system does not offer."""

    name: str
    landlock_abi: int
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        abi = f" (ABI {self.landlock_abi})" if self.landlock_abi else ""
        return self.name + abi
