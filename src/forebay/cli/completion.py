"""The command for shells: completion."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from forebay.cli import output
from forebay.cli.commands import COMMANDS, GROUPS
from forebay.cli.dispatch import load


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL", help="The shell.")], /) -> None:
    """Save it where the shell looks, such as ~/.local/share/bash-completion/completions/forebay for bash."""
    output.line(tree().generate_completion(prog_name="forebay", shell=shell).rstrip())


def tree() -> App:
    """All commands in one, as cyclopts wants them to describe them."""
    root = App(name="forebay", help_flags=[], version_flags=[])
    groups = {}
    for group, text in GROUPS.items():
        groups[group] = App(name=group, help=text, help_flags=[], version_flags=[])
        root.command(groups[group])
    for name, command in COMMANDS.items():
        group, _, verb = name.rpartition(" ")
        app = load(name)
        app.help = command.summary
        (groups[group] if group else root).command(app, name=verb)
    return root
