"""Names the rights that a user of a server needs, and writes them as the line that grants them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SENTINEL_COMMANDS = ("sentinel|get-master-addr-by-name", "sentinel|master")
CLUSTER_COMMANDS = ("asking", "cluster|slots")
# Sent by the program, not by a script; a connection also sends AUTH, which everybody may.
_SENT = ("eval", "evalsha", "exists", "ping", "publish", "scan", "select", "subscribe", "time", "unsubscribe")
_CALLED = re.compile(r"""redis\.p?call\(\s*['"](\w+)['"]""")


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user of limits must be allowed: commands, patterns of keys, patterns of channels."""

    commands: tuple[str, ...]
    keys: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()

    def line(self, user: str) -> str:
        """Return the command that grants all of the rights to a user; granting a right twice does no harm."""
        rules = [f"~{key}" for key in self.keys] + [f"&{channel}" for channel in self.channels]
        return " ".join(["ACL SETUSER", user, *rules, *(f"+{command}" for command in self.commands)])


def limit_rights(environment: str, tags: Iterable[str], *, cluster: bool = False) -> Rights:
    """Return what limits of an environment need of a server; `tags`: further hash tags of their keys."""
    keys = [f"{{forebay:{environment}:*}}:*", *(f"{{{tag}}}:*" for tag in tags)]
    more = CLUSTER_COMMANDS if cluster else ()
    return Rights(tuple(sorted({*commands(), *more})), tuple(keys), (f"forebay:{environment}:wake:*",))


@cache
def commands() -> tuple[str, ...]:
    """Return all commands that limits use on one server, by what the program and its scripts say."""
    folder = files("forebay.stores.redis") / "lua"
    called = {
        command.lower()
        for file in folder.iterdir()
        if file.name.endswith(".lua")
        for command in _CALLED.findall(file.read_text("utf-8"))
    }
    return tuple(sorted({*_SENT, *called}))
