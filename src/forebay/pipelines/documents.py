"""The pipelines of documents: which processors there are, what a job of one is, and the steps that workers run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from forebay.engine.context import Context
from forebay.engine.registry import Kind, Registry
from forebay.engine.submission import chunk_options
from forebay.errors import BadInput, NotFound
from forebay.ids import derived_id, shown
from forebay.model.callback import Callback
from forebay.model.job import NewJob
from forebay.model.names import check_name
from forebay.model.outcome import Outcome
from forebay.model.payload import Json
from forebay.model.task import DEFAULT_TENANT, Role
from forebay.pipelines.ground import Ground
from forebay.pipelines.intake import Document
from forebay.pipelines.pipeline import STEPS, Pipeline, Run
from forebay.processors.base import Processor

_MAX_RETRIES = 3


class Documents:
    """Registers its steps with the kinds of an application; each processor's chunks are a kind of their own."""

    def __init__(
        self,
        ground: Ground,
        processors: dict[str, Processor],
        registry: Registry,
        *,
        absent: Mapping[str, str] | None = None,
    ) -> None:
        """`absent` says of processors that are not set up how they would be."""
        self._ground = ground
        self._absent = absent or {}
        self._processors = processors
        self._registry = registry
        for pipeline in ground.pipelines.values():
            for name, step in pipeline.steps.items():
                registry.add(Kind(name=pipeline.kind(name), handler=self._handler(step.run), timeout_s=step.timeout_s))

    def add(self, processor: Processor, *, optional: bool = False) -> None:
        """One that is `optional` is not worked for where nobody has defined its limit."""
        name = check_name("processor", processor.name)
        if name in STEPS or name in self._processors:
            raise BadInput(f"There is a processor {name!r} already.", remedy="Give the second one another name.")
        pipeline = self._ground.pipelines.get(processor.pipeline)
        if pipeline is None:
            names = ", ".join(self._ground.pipelines)
            raise BadInput(
                f"Processor {name!r} is of the pipeline {shown(processor.pipeline)}.", remedy=f"There are: {names}."
            )
        limited: dict[str, Any] = (
            {}
            if processor.limit is None
            else {
                "limit": processor.limit,
                "slot": "call",
                "optional": optional,
            }
        )
        self._registry.add(
            Kind(
                name=pipeline.kind(name),
                handler=self._handler(pipeline.process),
                timeout_s=processor.timeout_s,
                # Only some say so: those of Forebay leave it to the engine.
                max_retries=getattr(processor, "max_retries", _MAX_RETRIES),
                max_reschedules=getattr(processor, "max_reschedules", None),
                **limited,
            )
        )
        self._processors[name] = processor

    def processor(self, name: str) -> Processor:
        known = self._processors.get(name)
        if known is None and name in self._absent:
            raise BadInput(f"Processor {name!r} is not set up.", remedy=self._absent[name])
        if known is None:
            names = ", ".join(sorted(self._processors))
            raise NotFound(f"There is no processor {shown(name)}.", remedy=f"Known processors: {names}.")
        return known

    def checked(self, processor: str, options: Mapping[str, Any]) -> dict[str, Json]:
        return self.pipeline_of(processor).checked(self._ground, self.processor(processor), options)

    def usual(self, pipeline: str) -> str:
        """Who works for a pipeline unless somebody is named: what a language model can do, where there is one."""
        known = self._ground.pipelines.get(pipeline)
        if known is None:
            names = ", ".join(self._ground.pipelines)
            raise BadInput(f"There is no pipeline {shown(pipeline)}.", remedy=f"There are: {names}.")
        return next((name for name in known.processors if name in self._processors), known.processors[-1])

    @property
    def names(self) -> set[str]:
        """Of all processors, also of those that are not set up."""
        return {*self._processors, *self._absent}

    def pipeline_of(self, processor: str) -> Pipeline:
        return self._ground.pipelines[self.processor(processor).pipeline]

    @property
    def ground(self) -> Ground:
        return self._ground

    def job(
        self,
        document: Document,
        *,
        processor: str = "local",
        options: Mapping[str, object] | None = None,
        allow_holes: bool = False,
        reuse: bool = True,
        callback: Callback | None = None,
        idempotency_key: str | None = None,
        **given: Any,  # noqa: ANN401 - the options of a submission, checked there
    ) -> NewJob:
        """The same bytes with the same options are the same job, unless reuse is refused or it has a key of its own.

        `timeout_s`, `max_retries` and `max_reschedules` are those of the chunks; split and merge keep their own.
        """
        known = self.processor(processor)
        order = {
            "document": document.sha256,
            "media_type": document.media_type,
            "processor": processor,
            "options": self.checked(processor, options or {}),
            "reuse": reuse,
        }
        pipeline = self.pipeline_of(processor)
        submissions = self._ground.submissions()
        terms, of_chunks = chunk_options(given)  # type: ignore[arg-type]  # submissions check it
        chosen = {"chunk_options": of_chunks} if of_chunks else {}
        payload = {"order": order, **chosen}
        split = submissions.task(pipeline.kind("split"), payload, terms, role=Role.SPLIT, blob=document.sha256)
        merge = submissions.task(pipeline.kind("merge"), payload, terms, role=Role.MERGE)
        tenant = terms.get("tenant", DEFAULT_TENANT)
        own_key = _key({**order, **chosen}, known.version, callback, allow_holes=allow_holes) if reuse else None
        key = idempotency_key or own_key
        return NewJob(
            pipeline=pipeline.name,
            tasks=(split,),
            merge=merge,
            allow_holes=allow_holes,
            tenant=tenant,
            environment=submissions.environment,
            document=document.sha256,
            label=document.label,
            idempotency_key=key,
            tags=split.tags,
            callback=callback,
            # Who says nothing but the document means the same job, by whatever name.
            terms=() if idempotency_key is None else (document.label, split.priority, list(split.tags)),
            id="" if key is None else _id(submissions.environment, tenant, key),
        )

    def _handler(self, run: Run) -> Callable[..., Coroutine[Any, Any, Outcome]]:
        async def handle(ctx: Context, **payload: Any) -> Outcome:  # noqa: ANN401 - JSON of our own
            return await run(self._ground, ctx, payload)

        return handle


def _id(environment: str, tenant: str, key: str) -> str:
    """Not of a pipeline: a key stands for one document that was handed in, whatever is to be made of it."""
    return derived_id("document", environment, tenant, key)


def _key(order: Mapping[str, object], version: str, callback: Callback | None, *, allow_holes: bool) -> str:
    """Whoever wants to be told gets a job of their own, which takes from the other what is stored already."""
    told = [] if callback is None else callback.terms
    known = json.dumps([order, version, allow_holes, *told], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(known.encode()).hexdigest()
