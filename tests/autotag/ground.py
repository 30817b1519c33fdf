"""Tagged documents, what is marked in them, and an application that has Adobe tag them."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pikepdf

from forebay import Forebay, Limit
from forebay.model.job import Job
from forebay.model.query import Query
from forebay.model.task import Role, Task
from forebay.processors.pdf.verbs import VERBS
from forebay.testing import Simulated
from tests.pipelines.ground import pdf
from tests.pipelines.works import Works


def checked(data: bytes, *untagged: tuple[int, int]) -> dict[str, Any]:
    """What the checker says of a document."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        answer: Any = VERBS["check_tagged"]({"untagged": [list(each) for each in untagged]}, [file.fileno()])
        return dict(answer)


def merged(*parts: bytes, untagged: tuple[int, ...] = ()) -> bytes:
    """The parts as one document; those whose place is named have no tags."""
    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as output:
        listed = []
        for place, part in enumerate(parts):
            listed.append({"offset": file.tell(), "size": len(part), "tagged": place not in untagged})
            file.write(part)
        file.flush()
        VERBS["merge_tagged"]({"parts": listed}, [file.fileno(), output.fileno()])
        output.seek(0)
        return output.read()


@contextmanager
def changed(data: bytes) -> Iterator[tuple[pikepdf.Pdf, list[bytes]]]:
    """A document to change; its bytes are in the list afterwards."""
    done: list[bytes] = []
    with pikepdf.open(io.BytesIO(data)) as opened:
        yield opened, done
        raw = io.BytesIO()
        opened.save(raw, static_id=True)
        done.append(raw.getvalue())


def words(data: bytes) -> list[tuple[str, str]]:
    """The kind of each element with the text that it leads to, found by its page and its mark alone."""
    with pikepdf.open(io.BytesIO(data)) as opened:
        found: list[tuple[str, str]] = []

        def visit(element: Any) -> None:  # noqa: ANN401 - of pikepdf
            kids = element.get("/K")
            for kid in kids if isinstance(kids, pikepdf.Array) else [kids]:
                if isinstance(kid, int):
                    found.append((str(element.S), _marked(element.Pg)[kid]))
                elif isinstance(kid, pikepdf.Dictionary) and "/S" in kid:
                    visit(kid)

        visit(opened.Root.StructTreeRoot)
        return found


def _marked(page: Any) -> dict[int, str]:  # noqa: ANN401 - of pikepdf
    found: dict[int, str] = {}
    mark: int | None = None
    for step in pikepdf.parse_content_stream(page):
        operands: Any
        operands, operator = step.operands, step.operator
        if str(operator) == "BDC":
            mark = int(operands[1]["/MCID"])
        elif str(operator) == "EMC":
            mark = None
        elif str(operator) == "Tj" and mark is not None:
            found[mark] = found.get(mark, "") + str(operands[0])
    return found


class Ground(Works):
    def __init__(self, folder: Path, sim: Simulated) -> None:
        self.folder = folder
        self.sim = sim
        self.app = Forebay(f"sqlite:///{folder}/forebay.db", blobs=f"file://{folder}/blobs")
        self.app.limit(Limit("adobe", in_flight=4))
        self.app.documents.pipeline.processor("adobe").max_pages = 2

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.app.close()

    def submit(self, pages: int = 5, **terms: Any) -> str:  # noqa: ANN401 - of app.process
        return self.app.process(io.BytesIO(pdf(pages)), name="scan.pdf", processor="adobe", **terms).id

    def run(self, pages: int = 5, **terms: Any) -> Job:  # noqa: ANN401 - same
        job_id = self.submit(pages, **terms)
        self.work()
        return self.job(job_id)

    def result(self, job: Job) -> bytes:
        found = self.app.result(job.id)
        assert isinstance(found, bytes)
        return found

    def summary(self, job: Job) -> dict[str, Any]:
        merge = self.app.ledger.get(job.merge_id or "")
        assert merge is not None
        assert isinstance(merge.result, dict)
        return merge.result

    def chunks(self, job_id: str) -> list[Task]:
        listed = self.app.ledger.list_tasks(Query(job_id=job_id, role=Role.CHUNK, size=500)).items
        found = [self.app.ledger.get(task.id) for task in listed]
        return [task for task in found if task is not None]

    def calls(self, route: str) -> int:
        return len(self.sim.calls(f"adobe.{route}"))

    def used(self) -> dict[str, float]:
        rows = self.app.ledger.used(tenant=None, since=0.0)
        return {row.unit: row.amount for row in rows if row.meter == "adobe"}
