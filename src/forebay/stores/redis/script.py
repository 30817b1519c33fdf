"""Runs Lua files on the server, by the hash that it knows them by."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError

if TYPE_CHECKING:
    from forebay.stores.redis.links import Links


_PARTS = ("", ":sessions", ":calls", ":ends", ":line", ":unconfirmed", ":tails", ":windows")
"""What the keys of a limit end in, in the order of header.lua."""


_COMMON = ("clock", "header")


def _read_files(names: Sequence[str]) -> str:
    folder = files("forebay.stores.redis") / "lua"
    return "\n".join((folder / f"{name}.lua").read_text("utf-8") for name in names)


def keys_of(key: str) -> tuple[str, ...]:
    """Return all keys of a limit, given that of its header."""
    return tuple(key + part for part in _PARTS)


class Script:
    """The files of this folder's `lua`, one after the other: a script cannot load another.

    All but the first, which every script has, are put into a function. Their functions are made again for each run, and
    a local of the function around them is found without a search.

    A script is given the key of a limit's header and declares all keys of the limit.
    """

    def __init__(self, *names: str) -> None:
        outer, inner = (_read_files(some) for some in (_COMMON, names))
        self.use(f"{outer}\nreturn (function()\n{inner}\nend)()\n")

    def use(self, text: str) -> None:
        self.text = text
        self._sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def send(self, links: Links, key: str, *arguments: str | bytes | int) -> bool:
        """Run it without its reply; a server that has restarted meanwhile does not know it, and does nothing."""
        return links.send(key, "EVALSHA", self._sha, *self._declared(key), *arguments)

    def run_many(self, links: Links, keys: Sequence[str], *arguments: str | bytes | int) -> list[Any]:
        """Run it for each key, in few round trips."""
        replies: dict[str, Any] = {}
        left = [*keys]
        while left:
            # By itself: with it the key's server knows the script, and is known to have the key.
            first, *left = left
            replies[first] = self.run(links, first, *arguments)
            found = links.call_many([(key, ("EVALSHA", self._sha, *self._declared(key), *arguments)) for key in left])
            replies |= {key: reply for key, reply in zip(left, found, strict=True) if reply is not None}
            left = [key for key in left if key not in replies]
        return [replies[key] for key in keys]

    def run(self, links: Links, key: str, *arguments: str | bytes | int) -> Any:  # noqa: ANN401 - what the script replies
        try:
            return links.call("EVALSHA", self._sha, *self._declared(key), *arguments, key=key)
        except NoScriptError:
            # Restarted, flushed, or never asked before.
            return links.call("EVAL", self.text, *self._declared(key), *arguments, key=key)

    @staticmethod
    def _declared(key: str) -> tuple[str | int, ...]:
        return len(_PARTS), *keys_of(key)
