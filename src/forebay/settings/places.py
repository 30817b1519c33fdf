"""Knows the user's folders, and finds and reads `forebay.toml`."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from forebay.errors import BadInput
from forebay.ids import shown

FILE_VARIABLE = "FOREBAY_CONFIG"
_FILE_NAME = "forebay.toml"


def here() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise BadInput("The current folder is gone.", remedy="Change into a folder that exists.") from None


def user_home(environ: Mapping[str, str]) -> Path | None:
    found = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - answers "~" where pathlib raises
    return Path(found) if os.path.isabs(found) else None  # noqa: PTH117 - of a text


def data_folder(environ: Mapping[str, str], user: Path) -> Path:
    return _folder(environ.get("XDG_DATA_HOME"), user / ".local" / "share", user)


def find_file(environ: Mapping[str, str], folder: Path) -> Path | None:
    """The one that is named, else the first that exists."""
    user = user_home(environ)
    named = environ.get(FILE_VARIABLE)
    if named:
        file = absolute(named, FILE_VARIABLE, folder, user)
        if not os.path.exists(file):  # noqa: PTH110 - pathlib raises where a folder may not be read
            raise BadInput(
                f"{FILE_VARIABLE} names {str(file)!r}, which does not exist.",
                remedy=f"Create it, or unset {FILE_VARIABLE}.",
            )
        return file
    candidates = [folder / _FILE_NAME]
    if user is not None:
        candidates.append(_folder(environ.get("XDG_CONFIG_HOME"), user / ".config", user) / _FILE_NAME)
    return next((each for each in candidates if os.path.exists(each)), None)  # noqa: PTH110 - same


def read_file(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"{str(file)!r} cannot be read: {error.strerror}."
        remedy = f"Make it a readable file, or name another one in {FILE_VARIABLE}."
    except (ValueError, RecursionError) as error:
        what = f"{str(file)!r} is not TOML: {error}."
        remedy = "Write one setting a line: lease_s = 15, or ledger in quotes."
    raise BadInput(what, remedy=remedy)


def absolute(value: object, what: str, folder: Path, user: Path | None) -> Path:
    """A path as a user may write it: with ~, or relative to the current folder."""
    text = os.fspath(value) if isinstance(value, (str, Path)) else ""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = ""
    if not text or "\0" in text:
        raise BadInput(f"{what} is {shown(value)}.", remedy="Give a path, in UTF-8.")
    if user is not None and (text == "~" or text.startswith("~/")):
        text = f"{user}{text[1:]}"
    return Path(os.path.abspath(folder / text))  # noqa: PTH100 - removes .. too, which an address may not have


def _folder(chosen: str | None, usual: Path, user: Path) -> Path:
    if sys.platform == "darwin":
        usual = user / "Library" / "Application Support"
    # The XDG standard: a relative path is to be ignored.
    return (Path(chosen) if chosen and os.path.isabs(chosen) else usual) / "forebay"  # noqa: PTH117 - of a text
