"""A pipeline of your own: split a payload, process each chunk, merge the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, Unpack

from forebay.engine.registry import Handler, Kind, KindOptions, Registry
from forebay.engine.split import check_number
from forebay.engine.submission import Options, Submissions
from forebay.errors import BadInput
from forebay.model.callback import Callback
from forebay.model.job import NewJob
from forebay.model.names import check_name
from forebay.model.task import DEFAULT_TENANT, Role

H = TypeVar("H", bound=Handler)


class Pipeline:
    """Its steps are tasks of the kinds `<name>.split`, `<name>.chunk` and `<name>.merge`.

    Without a split the payloads of the chunks are given at the start; without a merge the job is done when its
    chunks are. `allow_holes` merges what there is when some chunks failed for good.
    """

    def __init__(self, name: str, registry: Registry, *, allow_holes: bool = False) -> None:
        self.name = check_name("pipeline", name)
        self.allow_holes = allow_holes
        self._registry = registry

    def split(self, **options: Unpack[KindOptions]) -> Callable[[H], H]:
        """Decorate what gets the job's payload and returns a list with one payload for each chunk."""
        return self._step("split", f"{self.name}.chunk", **options)

    def process(self, **options: Unpack[KindOptions]) -> Callable[[H], H]:
        """Decorate what turns one chunk's payload into its result."""
        return self._step("chunk", **options)

    def merge(self, **options: Unpack[KindOptions]) -> Callable[[H], H]:
        """Decorate what gets the job's payload, reads `ctx.chunks()` and returns the job's result."""
        return self._step("merge", **options)

    def _step(self, step: str, chunk_kind: str | None = None, **options: Unpack[KindOptions]) -> Callable[[H], H]:
        def register(handler: H) -> H:
            self._registry.add(Kind(name=f"{self.name}.{step}", handler=handler, chunk_kind=chunk_kind, **options))
            return handler

        return register

    def job(
        self,
        payload: object,
        submissions: Submissions,
        options: Options,
        *,
        chunks: Iterable[object] | None = None,
        idempotency_key: str | None = None,
        label: str | None = None,
        callback: Callback | None = None,
    ) -> NewJob:
        splits = self._registry.find(f"{self.name}.split") is not None
        if splits == (chunks is not None):
            remedy = "Give it a payload." if splits else "Give chunks=[…], or register a split."
            raise BadInput(f"Pipeline {self.name!r} {'splits by itself' if splits else 'has no split'}.", remedy=remedy)
        if splits:
            tasks = [submissions.task(f"{self.name}.split", payload, options, role=Role.SPLIT)]
        else:
            tasks = [
                submissions.task(f"{self.name}.chunk", chunk, options, role=Role.CHUNK, chunk_index=index)
                for index, chunk in enumerate(check_number(chunks or ()))
            ]
        merge = None
        if self._registry.find(f"{self.name}.merge") is not None:
            merge = submissions.task(f"{self.name}.merge", payload, options, role=Role.MERGE)
        return NewJob(
            pipeline=self.name,
            tasks=tuple(tasks),
            merge=merge,
            allow_holes=self.allow_holes,
            tenant=options.get("tenant", DEFAULT_TENANT),
            environment=submissions.environment,
            label=label,
            idempotency_key=idempotency_key,
            tags=tasks[0].tags if tasks else (),
            callback=callback,
        )
