"""Writes the help: of all commands from their table, of one from its own signature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.cli.commands import COMMANDS, GROUPS

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument

_WIDTH = 100
_GAP = 2
_COMMON = [
    ("--ledger URL", "The ledger to use, such as sqlite:///forebay.db."),
    ("--config FILE", "The settings file to read."),
    ("-o, --output FORMAT", "table, json or ndjson, for commands that read."),
    ("--verbose", "More detail: tracebacks and log lines."),
    ("--version", "The version."),
    ("-h, --help", "This text, or that of a command: forebay list --help."),
]

_VALUES = {
    "--app": "MODULE:APP",
    "--bulk": "FILE",
    "--call-time": "DURATION",
    "--call-timeout": "DURATION",
    "--config": "FILE",
    "--deadline": "ISO",
    "--for": "DURATION",
    "--in-flight": "N",
    "--input": "JSON",
    "--ledger": "URL",
    "--limits": "URL",
    "--max-cooldown": "DURATION",
    "--option": "NAME=VALUE",
    "--out": "FOLDER",
    "--output": "FILE",
    "--scale": "FACTOR",
    "--scenario": "FILE",
    "--start-at": "ISO",
    "--until": "ISO",
}


def overview() -> str:
    commands = [(name, COMMANDS[name].summary) for name in COMMANDS]
    return (
        "usage: forebay COMMAND [ARGUMENTS] [OPTIONS]\n\n"
        f"Durable tasks through rate-limited services.\n\ncommands:\n{_rows(commands)}\noptions:\n{_rows(_COMMON)}"
    )


def of_group(group: str) -> str:
    verbs = [(name, each.summary) for name, each in COMMANDS.items() if name.startswith(f"{group} ")]
    return f"usage: forebay {group} COMMAND [ARGUMENTS] [OPTIONS]\n\n{GROUPS[group]}\n\ncommands:\n{_rows(verbs)}"


def of_command(name: str, app: App) -> str:
    arguments = [each for each in app.assemble_argument_collection() if each.show]
    places = [each for each in arguments if is_place(each)]
    options = [each for each in arguments if not is_place(each)]
    usage = " ".join(["usage: forebay", name, *map(_place, places), *(["[OPTIONS]"] if options else [])])
    command = app.default_command
    more = "\n".join(line.strip() for line in (getattr(command, "__doc__", None) or "").strip().splitlines())
    parts = [usage, COMMANDS[name].summary, more] if more else [usage, COMMANDS[name].summary]
    text = "\n\n".join(parts) + "\n"
    if places:
        text += f"\narguments:\n{_rows([(place_name(each), described(each)) for each in places])}"
    if options:
        text += f"\noptions:\n{_rows([(spelled(each), described(each)) for each in options])}"
    return text


def is_place(argument: Argument) -> bool:
    """Whether it is known by where it stands: a name without dashes."""
    return not argument.name.startswith("-")


def spelled(argument: Argument) -> str:
    names = ", ".join(sorted(argument.names, key=len))
    if argument.is_flag():
        return names
    hint = str(argument.hint)
    if "float" in hint:
        return f"{names} SECONDS"
    if "int" in hint:
        return f"{names} N"
    if argument.get_choices() and "--output" in argument.names:
        return f"{names} FORMAT"
    longest = max(argument.names, key=len)
    return f"{names} {_VALUES.get(longest) or longest.rpartition('-')[2].upper()}"


def place_name(argument: Argument) -> str:
    return argument.name.upper()


def _place(argument: Argument) -> str:
    name = place_name(argument) + ("..." if argument.is_var_positional() else "")
    return name if argument.required else f"[{name}]"


def described(argument: Argument) -> str:
    text = argument.parameter.help or ""
    choices = argument.get_choices()
    if choices:
        text = f"{text} One of: {', '.join(choices)}."
    default = argument.field_info.default
    if isinstance(default, (int, float, str)) and not isinstance(default, bool) and default != "":
        text = f"{text} Default: {default:g}." if isinstance(default, float) else f"{text} Default: {default}."
    return f"{text} Required." if argument.required and not is_place(argument) else text


def _rows(rows: list[tuple[str, str]]) -> str:
    width = max(len(left) for left, _ in rows) + _GAP
    lines = []
    for left, right in rows:
        wrapped = _wrapped(right, _WIDTH - width - _GAP)
        lines.append(f"  {left:<{width}}{wrapped[0]}")
        lines += [f"  {'':<{width}}{line}" for line in wrapped[1:]]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
