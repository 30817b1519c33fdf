"""Puts outputs in their place: whole or not at all, and never over a file of somebody else's."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from forebay.app import exporting
from forebay.app.naming import Names
from forebay.errors import BadInput, Conflict
from forebay.ids import printable
from forebay.model.exchange import Remembered
from forebay.model.job import Job

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

_PIECE = 1 << 20


class Outputs:
    """Where the outputs of a document go, and which of the files there are its own.

    Its own is what was written for the same file or for the same bytes, and was not changed since.
    """

    def __init__(self, app: Forebay, formats: Sequence[str], *, folder: Path | None, overwrite: bool = False) -> None:
        self._app = app
        self._formats = exporting.checked(formats)
        self._folder = folder
        self._overwrite = overwrite
        self.names = Names(folder, [exporting.SUFFIXES[name] for name in self._formats])

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
        return {form: name.with_name(name.name + exporting.SUFFIXES[form]) for form in self._formats}

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
        if target.is_dir():
            raise Conflict(f"{name} is a folder.", remedy="Name another folder with --out.")
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
                with _draft(target) as draft:
                    await exporting.write(self._app, job, merged, form, draft)
                    await asyncio.to_thread(self._publish, draft, target, source, job)
        return [*targets.values()]

    def _publish(self, draft: IO[bytes], target: Path, source: Path, job: Job) -> None:
        """Looks once more, at the last moment, for what may have come meanwhile."""
        draft.flush()
        sha256 = _sha256(draft)
        same = target.is_file() and _sha256_of(target) == sha256
        document = job.document or ""
        if not same:
            self._check_one(target, source, document, job.tenant)
            os.fsync(draft.fileno())
        # Known before it is there: who dies in between has left nothing that would look like somebody else's.
        self._app.ledger.remember(
            [
                Remembered(tenant=job.tenant, key=key, document=document)
                for key in _keys(target, sha256, source, document)
            ]
        )
        if not same:
            Path(draft.name).replace(target)

    def _owns(self, target: Path, source: Path, document: str, tenant: str) -> bool:
        return bool(self._app.ledger.recall(tenant, _keys(target, _sha256_of(target), source, document)))


def _keys(target: Path, sha256: str, source: Path, document: str) -> list[str]:
    """What an output is known by: where it lies, what is in it, and what it was made of, by name and by bytes."""
    return [
        hashlib.sha256(f"output\0{target.absolute()}\0{sha256}\0{made_of}".encode(errors="surrogateescape")).hexdigest()
        for made_of in (source.absolute(), document)
    ]


@contextmanager
def _draft(target: Path) -> Iterator[IO[bytes]]:
    """A file beside the target, gone when the block ends unless it was given the target's name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.with_name(f".forebay-{secrets.token_hex(8)}")
    try:
        with path.open("x+b") as draft:
            yield draft
    finally:
        with suppress(OSError):
            path.unlink()


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
