"""Writes what was read of a document into files: whole or not at all, and never over a file of somebody else's."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from forebay.blobs import BlobRef
from forebay.errors import BadInput, Conflict, NotCompleted
from forebay.ids import printable
from forebay.model.exchange import Remembered
from forebay.model.job import Job
from forebay.pipelines import sniffing
from forebay.pipelines.exports import EXPORTS

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

SEARCHABLE = "pdf"
FORMATS = (*EXPORTS, SEARCHABLE)
SUFFIXES = {name: export.suffix for name, export in EXPORTS.items()} | {SEARCHABLE: ".ocr.pdf"}
_PIECE = 1 << 20


class Outputs:
    """Where the outputs of a document go, and which of the files there are ours."""

    def __init__(self, app: Forebay, formats: Sequence[str], *, folder: Path | None, overwrite: bool = False) -> None:
        unknown = [name for name in formats if name not in FORMATS]
        if unknown or not formats:
            said = f"There is no format {printable(unknown[0])!r}." if unknown else "No format is given."
            raise BadInput(said, remedy=f"Formats are: {', '.join(FORMATS)}.")
        self._app = app
        self._formats = tuple(dict.fromkeys(formats))
        self._folder = folder
        self._overwrite = overwrite

    def targets(self, source: Path) -> dict[str, Path]:
        """Beside the document, or in the folder that was named."""
        folder = self._folder or source.parent
        return {name: folder / f"{source.stem}{SUFFIXES[name]}" for name in self._formats}

    def check(self, source: Path, document: str, tenant: str) -> None:
        """Before anything is spent: refuses if an output would be written over what is not ours."""
        for target in self.targets(source).values():
            if target.exists() and not self._overwrite and not self._ours(target, document, tenant):
                raise Conflict(
                    f"{printable(str(target))} is there already, and is not one of Forebay's outputs.",
                    remedy="Name another folder with --out, or give --overwrite.",
                )

    async def write(self, source: Path, job: Job) -> list[Path]:
        """The files that it wrote; those that are there with the same bytes are left as they are."""
        merge = await asyncio.to_thread(self._app.ledger.get, job.merge_id or "")
        if merge is None or merge.result_blob is None:
            raise NotCompleted(f"Job {job.id} has no result.", remedy=f"`forebay why {job.id}` says why.")
        ref = BlobRef(job.tenant, merge.result_blob)
        targets = self.targets(source)
        with self._app.blobs.open(ref) as merged:
            for name, target in targets.items():
                if name == SEARCHABLE:
                    await self._write_searchable(merged, job, target)
                else:
                    await asyncio.to_thread(self._write, name, merged, job, target)
        return [*targets.values()]

    def _write(self, name: str, merged: IO[bytes], job: Job, target: Path) -> None:
        with self._draft(target, job) as draft:
            EXPORTS[name].write(merged, draft)

    async def _write_searchable(self, merged: IO[bytes], job: Job, target: Path) -> None:
        document = BlobRef(job.tenant, job.document or "")
        with tempfile.TemporaryFile() as original, tempfile.TemporaryFile() as lines, self._draft(target, job) as draft:
            media_type = await asyncio.to_thread(self._prepare, document, merged, original, lines)
            files = [original.fileno(), lines.fileno(), draft.fileno()]
            await self._app.documents.parsers().call("searchable", {"media_type": media_type}, files=files)

    def _prepare(self, document: BlobRef, merged: IO[bytes], original: IO[bytes], lines: IO[bytes]) -> str:
        with self._app.blobs.open(document) as stored:
            media_type = sniffing.media_type(stored.read(sniffing.HEAD_BYTES))
            stored.seek(0)
            _copy(stored, original)
        merged.seek(0)
        _copy(merged, lines)
        return media_type

    @contextmanager
    def _draft(self, target: Path, job: Job) -> Iterator[IO[bytes]]:
        """A file that takes the target's place when the block ends well."""
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w+b") as draft:
                yield draft
                draft.flush()
                sha256 = _sha256(draft)
                if target.exists() and _sha256_of(target) == sha256:
                    Path(path).unlink()
                else:
                    self.check_one(target, job)
                    os.fsync(draft.fileno())
                    Path(path).chmod(0o666 & ~_umask())
                    Path(path).replace(target)
            key = _key(target, sha256)
            self._app.ledger.remember([Remembered(tenant=job.tenant, key=key, document=job.document or sha256)])
        except BaseException:
            with suppress(OSError):
                Path(path).unlink()
            raise

    def check_one(self, target: Path, job: Job) -> None:
        """Once more, at the last moment: it may have come meanwhile."""
        if target.exists() and not self._overwrite and not self._ours(target, job.document or "", job.tenant):
            raise Conflict(
                f"{printable(str(target))} is there now, and is not one of Forebay's outputs.",
                remedy="Name another folder with --out, or give --overwrite.",
            )

    def _ours(self, target: Path, document: str, tenant: str) -> bool:  # noqa: ARG002 - whichever document it was
        return target.is_file() and bool(self._app.ledger.recall(tenant, [_key(target, _sha256_of(target))]))


def _key(target: Path, sha256: str) -> str:
    """What a file that we wrote is known by: where it lies and what was in it."""
    return hashlib.sha256(f"output\0{target.absolute()}\0{sha256}".encode(errors="surrogateescape")).hexdigest()


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return _sha256(file)


def _sha256(file: IO[bytes]) -> str:
    file.seek(0)
    sha256 = hashlib.sha256()
    while piece := file.read(_PIECE):
        sha256.update(piece)
    return sha256.hexdigest()


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while piece := source.read(_PIECE):
        target.write(piece)
    target.flush()
    target.seek(0)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
