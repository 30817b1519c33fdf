"""Puts outputs in their place: whole or not at all, and never over a file of somebody else's."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from forebay.app import exporting
from forebay.app.draft import draft
from forebay.app.naming import Names
from forebay.errors import BadInput, Conflict
from forebay.ids import printable
from forebay.model.exchange import Remembered
from forebay.model.job import Job
from forebay.pipelines.pipeline import Output

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

_PIECE = 1 << 20


class Outputs:
    """Where the outputs of a document go, and which of the files there are its own.

    Its own is what was written for the same file or for the same bytes, and was not changed since.
    """

    def __init__(
        self, app: Forebay, formats: Mapping[str, Output], *, folder: Path | None, overwrite: bool = False
    ) -> None:
        self._app = app
        self._formats = formats
        self._folder = folder
        self._overwrite = overwrite
        self.names = Names(folder, [each.suffix for each in formats.values()])

    def prepare(self) -> None:
        """The folder that was named has to be one, and to take files, before anything is read."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self._folder, error.strerror) from None
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise _unusable(self._folder, "it is not to be written in")

    def targets(self, source: Path) -> dict[str, Path]:
        name = self.names.of(source)
        return {form: name.with_name(name.name + each.suffix) for form, each in self._formats.items()}

    def check(self, source: Path, document: str, tenant: str) -> None:
        """Before anything is spent: refuses if an output cannot be written, or only over what is not its own."""
        for target in self.targets(source).values():
            try:
                self._check_one(target, source, document, tenant)
                parent = target.parent
                if parent.exists() and not os.access(parent, os.W_OK | os.X_OK):
                    raise _unusable(parent, "it is not to be written in")
            except OSError as error:
                raise _unusable(target, error.strerror) from None

    def _check_one(self, target: Path, source: Path, document: str, tenant: str) -> None:
        if not target.exists():
            return
        name = printable(str(target))
        if source.exists() and target.samefile(source):
            raise Conflict(f"{name} is the document itself.", remedy="Name another folder with --out.")
        if not target.is_file():
            what = "a folder" if target.is_dir() else "a device or a pipe"
            raise Conflict(f"{name} is {what}.", remedy="Name another folder with --out.")
        if not self._overwrite and not self._owns(target, source, document, tenant):
            raise Conflict(
                f"{name} is there already, and is not an output of this document.",
                remedy="Name another folder with --out, or give --overwrite.",
            )

    async def write(self, source: Path, job: Job) -> list[Path]:
        """The outputs of a document; those that are there with the same bytes are left as they are."""
        targets = self.targets(source)
        async with exporting.merged(self._app, job) as merged:
            for form, target in targets.items():
                with draft(target) as (path, file):
                    await exporting.write(self._app, job, merged, self._formats[form], file)
                    if await asyncio.to_thread(self._is_new, file, target, source, job):
                        path.replace(target)
        return [*targets.values()]

    def _is_new(self, file: IO[bytes], target: Path, source: Path, job: Job) -> bool:
        """Blocking; looks once more, at the last moment, for what may have come meanwhile."""
        file.flush()
        sha256 = _sha256(file)
        same = target.is_file() and _sha256_of(target) == sha256
        document = job.document or ""
        if not same:
            self._check_one(target, source, document, job.tenant)
            os.fsync(file.fileno())
        # Known before it is there: who dies in between has left nothing that would look like somebody else's.
        self._app.ledger.remember(
            [
                Remembered(tenant=job.tenant, key=key, document=document)
                for key in _keys(target, sha256, source, document)
            ]
        )
        return not same

    def _owns(self, target: Path, source: Path, document: str, tenant: str) -> bool:
        return bool(self._app.ledger.recall(tenant, _keys(target, _sha256_of(target), source, document)))


def _keys(target: Path, sha256: str, source: Path, document: str) -> list[str]:
    """What an output is known by: where it lies, what is in it, and what it was made of, by name and by bytes."""
    return [
        hashlib.sha256(f"output\0{target.absolute()}\0{sha256}\0{made_of}".encode(errors="surrogateescape")).hexdigest()
        for made_of in (source.absolute(), document)
    ]


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return _sha256(file)


def _sha256(file: IO[bytes]) -> str:
    file.seek(0)
    sha256 = hashlib.sha256()
    while piece := file.read(_PIECE):
        sha256.update(piece)
    return sha256.hexdigest()


def _unusable(path: Path, why: str | None) -> BadInput:
    return BadInput(
        f"{printable(str(path))} cannot be written: {why or 'unknown'}.", remedy="Name another folder with --out."
    )
