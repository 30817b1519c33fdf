"""Decides each setting: a flag wins over the environment, that over `forebay.toml`, that over the default."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from forebay.errors import BadInput
from forebay.ids import printable, shown
from forebay.observe.redact import hide_given
from forebay.settings import older
from forebay.settings.fields import ADDRESSES, FILES, PREFIX, SECRETS, Settings
from forebay.settings.places import FILE_VARIABLE, absolute, data_folder, find_file, here, read_file, user_home

_LIMIT_FIELDS = f"{PREFIX}LIMIT_"  # read by whoever follows them, not here


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """Flags win over the environment, that over `forebay.toml`; a flag that is None was not given."""
    environ = os.environ if environ is None else environ
    folder = here() if cwd is None else cwd
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    file = find_file(environ, folder)
    if file is not None:
        values = _without_limits(read_file(file), file)
        _check_known(values, str(file))
        origins = dict.fromkeys(values, str(file))
    for variable, name, value in older.given(environ):
        values[name] = value
        origins[name] = f"environment {variable}"
    for name in Settings.model_fields:
        variable = PREFIX + name.upper()
        # An empty variable is one that a shell or a compose file left unset.
        if environ.get(variable):
            values[name] = environ[variable]
            origins[name] = f"environment {variable}"
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    _check_known(given, "The command line")
    values |= given
    origins |= dict.fromkeys(given, "flag")
    return _make(values, origins, environ, folder)


def _make(values: dict[str, object], origins: dict[str, str], environ: Mapping[str, str], folder: Path) -> Settings:
    user = user_home(environ)
    defaults: dict[str, object] = {"processes": _usable_cores()}
    if user is not None:
        defaults["home"] = data_folder(environ, user)
    if "home" in values:
        values["home"] = absolute(values["home"], f"home ({origins['home']})", folder, user)
    for name in FILES:
        if isinstance(given := values.get(name), str) and given.lower() != "none":
            values[name] = absolute(given, f"{name} ({origins[name]})", folder, user)
    for name in SECRETS:
        if isinstance(values.get(name), str):
            hide_given(str(values[name]))
    home = values.get("home", defaults.get("home"))
    if home is None:
        raise BadInput("This user has no home folder.", remedy="Set FOREBAY_HOME to a folder of your own.")
    place = quote(str(home))
    defaults["ledger"] = f"sqlite:///{place.rstrip('/')}/forebay.db"
    defaults["limits"] = beside(values.get("ledger", defaults["ledger"]))
    defaults["blobs"] = f"file://{place.rstrip('/')}/blobs"
    try:
        made = Settings.model_validate({**defaults, **values})
    except ValidationError as error:
        problem = _problem(error, {**defaults, **values}, origins)
    else:
        made._origins, made._defaults = origins, defaults  # noqa: SLF001 - ours
        made._strangers = [*_strangers(environ), *older.unused(environ)]  # noqa: SLF001 - same
        return made
    # Outside of the except: the validation error, which holds the values, is not a part of what is raised.
    raise problem


def beside(ledger: object) -> object:
    """The limit store of those who name none: a file beside the ledger's, never in it, or the ledger's own server."""
    return f"{ledger}-limits.db" if isinstance(ledger, str) and ledger.startswith("sqlite:") else ledger


def _without_limits(values: dict[str, object], file: Path) -> dict[str, object]:
    """Tables of limits are for the limiter; of them, only the address is a setting."""
    tables = values.get("limits")
    if not isinstance(tables, dict):
        return values
    rest = {name: value for name, value in values.items() if name != "limits"}
    for name, table in tables.items():
        if name == "address" and not isinstance(table, dict):
            rest["limits"] = table
        elif not isinstance(table, dict):
            raise BadInput(
                f"{str(file)!r} has limits.{printable(name)}, which is not a table.",
                remedy=f"Write [limits.{printable(name)}] and its fields below, or address = … for the limit store.",
            )
    return rest


def _problem(error: ValidationError, values: Mapping[str, object], origins: Mapping[str, str]) -> BadInput:
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0])
    field = Settings.model_fields[name]
    least = next((each.ge for each in field.metadata if hasattr(each, "ge")), None)
    most = next((each.le for each in field.metadata if hasattr(each, "le")), None)
    if least is not None:
        sort = "a whole number" if "int" in str(field.annotation) else "a number of seconds"
        advice = f"Give {sort} from {least:.10g} to {most:.10g}{', or none' if field.default is None else ''}."
    elif first["type"] == "literal_error":
        advice = f"Give {first['ctx']['expected']}."
    else:
        advice = str(first.get("ctx", {}).get("error", "Give text."))
    # Whatever is not a proper address may still hold a password.
    what = (
        "is not an address"
        if name in ADDRESSES
        else "cannot be used"
        if name in SECRETS
        else f"is {shown(values[name])}"
    )
    return BadInput(f"{name} ({origins.get(name, 'default')}) {what}.", remedy=advice)


def _strangers(environ: Mapping[str, str]) -> list[str]:
    known = {FILE_VARIABLE, *(PREFIX + name.upper() for name in Settings.model_fields)}
    return sorted(
        name
        for name in environ
        if name.upper().startswith(PREFIX) and name not in known and not name.startswith(_LIMIT_FIELDS)
    )


def _check_known(values: Mapping[str, object], where: str) -> None:
    for key in values:
        if key not in Settings.model_fields:
            near = get_close_matches(key, Settings.model_fields, n=1)
            remedy = f"Did you mean {near[0]}?" if near else "`forebay config show` lists the settings."
            raise BadInput(f"{where} has {shown(key)}, which is not a setting.", remedy=remedy)


def _usable_cores() -> int:
    # A container or taskset may leave fewer than the machine has.
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
