"""Makes tasks ready to be submitted: the kind's own options unless others are given, large payloads in a blob."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypedDict

from forebay import ids
from forebay.engine.content import Content
from forebay.engine.registry import Registry
from forebay.engine.signals import instant
from forebay.errors import BadInput, IdempotencyConflict, TooLarge
from forebay.ids import shown
from forebay.model.bulk import Bulk
from forebay.model.exchange import Session
from forebay.model.names import kind_of, limit_of
from forebay.model.payload import JsonText
from forebay.model.task import DEFAULT_TENANT, NewTask, Role


class Options(TypedDict, total=False):
    """What may be said of a task when it is submitted; what is left out comes from its kind."""

    priority: int
    delay_s: float
    start_at: datetime | float
    deadline_at: datetime | float
    timeout_s: float
    max_retries: int
    max_reschedules: int | None
    tenant: str
    fairness_key: str
    tags: tuple[str, ...]


CHUNK_OPTIONS = ("timeout_s", "max_retries", "max_reschedules")


def chunk_options(options: Options) -> tuple[Options, Options]:
    """Return the options of a whole job, and those that hold for its chunks alone."""
    of_chunks: Any = {name: value for name, value in options.items() if name in CHUNK_OPTIONS}
    of_job: Any = {name: value for name, value in options.items() if name not in CHUNK_OPTIONS}
    if of_chunks:
        NewTask(kind="chunk", **of_chunks)  # refuses what is not valid before anything is stored
    return of_job, of_chunks


class Submissions:
    """Knows the kinds, the environment and where large payloads go."""

    def __init__(
        self, registry: Registry, content: Content, environment: str, sessions: Callable[[], Sequence[Session]]
    ) -> None:
        self._registry = registry
        self._sessions = sessions
        self._usual: dict[str, NewTask] = {}  # a task of each kind without options of its own
        self.content = content
        self.environment = environment

    def one(self, kind: str, payload: object, options: Options, *, idempotency_key: str | None = None) -> NewTask:
        """A lone task; without options of its own it is like the one before, whose fields have been checked."""
        usual = None if options else self._usual.get(kind)
        if usual is not None and (task := self._like(usual, payload, idempotency_key)) is not None:
            return task
        task = self.task(kind, payload, options, idempotency_key=idempotency_key)
        if not options and task.payload_blob is None and self._registry.find(kind) is not None:
            self._usual[kind] = task.like(None)
        return task

    def task(
        self,
        kind: str,
        payload: object,
        options: Options,
        *,
        idempotency_key: str | None = None,
        role: Role = Role.LONE,
        chunk_index: int | None = None,
        pages: tuple[int, int] | None = None,
        blob: str | None = None,
    ) -> NewTask:
        """`blob` is one beside the payload, which then has to be small."""
        fields: dict[str, Any] = {**self._defaults(kind), **_checked(options)}
        fields |= {
            "kind": kind,
            "environment": self.environment,
            "idempotency_key": idempotency_key,
            "role": role,
            "chunk_index": chunk_index,
        }
        if pages is not None:
            fields["page_start"], fields["page_end"] = pages
        if isinstance(payload, (bytes, bytearray, memoryview)):
            raise BadInput("A payload is JSON, not bytes.", remedy="Put the bytes into a file or blob and name it.")
        try:
            task = NewTask(payload=payload, payload_blob=blob, **fields)
        except TooLarge:
            if blob is not None:
                raise
        else:
            if blob is not None or self.content.fits(task.payload_json):
                return task
        tenant = fields.get("tenant", DEFAULT_TENANT)
        return NewTask(payload_blob=self.content.write(payload, tenant, what="payload")[1], **fields)

    def tasks(
        self, kind: str, payloads: Sequence[object], keys: Sequence[str | None], options: Options
    ) -> Sequence[NewTask]:
        """Many of a kind, with the same options, which are checked once."""
        if payloads and all(key is None for key in keys) and (texts := self._texts(payloads)):
            return Bulk(self.task(kind, payloads[0], options), texts)
        return [*self._each(kind, payloads, keys, options)]

    def _texts(self, payloads: Sequence[object]) -> list[JsonText] | None:
        """None if one of them does not fit into a row."""
        texts = []
        for payload in payloads:
            if (text := self.content.small(payload, what="payload")) is None:
                return None
            texts.append(text)
        return texts

    def _each(
        self, kind: str, payloads: Sequence[object], keys: Sequence[str | None], options: Options
    ) -> Iterator[NewTask]:
        first: NewTask | None = None
        made = ids.random_ids(len(payloads))
        for payload, key, own in zip(payloads, keys, made, strict=True):
            task = None if first is None else self._like(first, payload, key, own)
            if task is not None:
                yield task
                continue
            task = self.task(kind, payload, options, idempotency_key=key)
            if first is None and task.payload_blob is None:
                first = task
            yield task

    def _like(self, first: NewTask, payload: object, key: str | None, own: str = "") -> NewTask | None:
        """None if the payload does not fit into a row."""
        if isinstance(payload, (bytes, bytearray, memoryview)):
            return None
        try:
            task = first.like(payload, id=own if key is None else "", idempotency_key=key)
        except TooLarge:
            return None
        return task if self.content.fits(task.payload_json) else None

    def _defaults(self, name: str) -> dict[str, Any]:
        kind = self._registry.find(name)
        if kind is None:
            # Who has no handler for it does not know its limit; the workers that have one do.
            return {"limit": served_limit(self._sessions(), name)}
        return {
            "timeout_s": kind.timeout_s,
            "max_retries": kind.max_retries,
            "max_reschedules": kind.max_reschedules,
            "limit": kind.limit,
        }


def conflict(identifier: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"{identifier} was submitted under this key with another payload or other options.",
        remedy="Use a key of its own for each different submission.",
    )


def served_limit(sessions: Iterable[Session], kind: str) -> str | None:
    """The limit that workers run a kind under."""
    served = (lane for session in sessions for lane in session.kinds if kind_of(lane) == kind)
    return next(filter(None, map(limit_of, served)), None)


def _checked(options: Options) -> dict[str, Any]:
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        known = ", ".join(sorted(Options.__annotations__))
        raise BadInput(f"There is no option {shown(min(unknown))}.", remedy=f"Options are: {known}.")
    fields: dict[str, Any] = dict(options)
    if "start_at" in fields:
        if "delay_s" in fields:
            raise BadInput("Both delay_s and start_at are given.", remedy="Give one of them.")
        fields["available_at"] = instant("start_at", fields.pop("start_at"))
    if fields.get("deadline_at") is not None:
        fields["deadline_at"] = instant("deadline_at", fields["deadline_at"])
    if "tags" in fields:
        fields["tags"] = (fields["tags"],) if isinstance(fields["tags"], str) else tuple(fields["tags"])
    return fields
