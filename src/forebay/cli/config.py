"""The command for settings: config show."""

from __future__ import annotations

from forebay.cli import output
from forebay.cli.opening import settings_of
from forebay.cli.options import Reading

_USUAL = Reading()


def show(*, common: Reading = _USUAL) -> None:
    """Secrets are masked."""
    settings = settings_of(common)
    if common.output != "table":
        output.write(settings.sources(), common.output)
    else:
        output.table(
            ("setting", "value", "source"), [(each.name, each.value_shown, each.source) for each in settings.sources()]
        )
    for name in settings.unknown_variables():
        output.note(f"{name} is not a setting.")
