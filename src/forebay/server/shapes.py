"""What requests and answers look like, for the description of the API: names, types and examples."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from forebay.model.lane import Certainty
from forebay.model.task import Status, WaitReason

ID = "kq3vb7x2m5ynd4cw6tgeahz2rl"
_AT = "2026-01-27T12:05:00.000Z"
_LINE = {"status": 503, "title": "Service Unavailable"}


class Shape(BaseModel):
    """More fields may come with later versions: read those you know."""

    model_config = ConfigDict(extra="allow")


class Problem(Shape):
    """RFC 9457; `code` is stable, `remedy` says what to do."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:forebay:problem:store_unreachable",
                    "title": "Service Unavailable",
                    "status": 503,
                    "detail": "The ledger does not answer.",
                    "code": "store_unreachable",
                    "remedy": "Ask again in a moment.",
                    "request_id": ID,
                    "retry_after": 2,
                }
            ]
        },
    )

    type: str
    title: str
    status: int
    detail: str
    code: str
    remedy: str
    request_id: str
    retry_after: int | None = Field(None, description="Seconds, also in the header Retry-After.")
    errors: list[dict[str, str]] | None = Field(None, description="Each field that is not valid, and why.")


class Healthy(Shape):
    status: str = Field(examples=["ok"], description="`ok`, or of /readyz `degraded` if there are warnings.")
    warnings: dict[str, str] | None = Field(None, description="What does not run here, and why.")


class Links(Shape):
    self: str = Field(examples=[f"/v1/jobs/{ID}"])


class JobShape(Shape):
    """One run of a pipeline over a document; counters are of chunks."""

    id: str = Field(examples=[ID])
    pipeline: str = Field(examples=["ocr"])
    tenant: str = Field(examples=["default"])
    status: Status
    label: str | None = Field(None, description="The document's name, cleaned.", examples=["scan.pdf"])
    document: str | None = Field(None, description="The sha256 of its bytes.")
    created_at: str = Field(examples=[_AT])
    finished_at: str | None = None
    progress: float = Field(examples=[0.25])
    chunk_count: int = Field(examples=[4])
    pending_count: int
    running_count: int
    completed_count: int
    failed_count: int
    canceled_count: int
    error_class: str | None = None
    error_text: str | None = None
    links: Links | None = None


class TaskShape(Shape):
    id: str = Field(examples=[ID])
    kind: str = Field(examples=["call_api"])
    tenant: str = Field(examples=["default"])
    status: Status
    created_at: str = Field(examples=[_AT])
    retry_count: int
    max_retries: int
    requested_retry_count: int = Field(description="Retries that people asked for since the last forced one.")
    max_requested_retries: int
    progress: float | None = Field(
        None,
        description="What the running attempt reported last, from 0 to 1; only of a task that is read alone.",
        examples=[0.25],
    )
    progress_note: str | None = Field(None, examples=["page 5 of 20"])
    chunk_index: int | None = None
    page_start: int | None = Field(None, description="The first page of a chunk of pages, counted from 1.")
    page_end: int | None = None
    error_class: str | None = None
    error_text: str | None = None


class JobPage(Shape):
    items: list[JobShape]
    next: str | None = Field(None, description="The `cursor` of the next page; none after the last.")


class TaskPage(Shape):
    items: list[TaskShape]
    next: str | None = Field(None, description="The `cursor` of the next page; none after the last.")


class ReasonShape(Shape):
    code: str = Field(examples=["cooldown"])
    text: str
    until: str | None = None
    paused_by: str = Field(
        "", description="Who paused the limit; empty for a key of a tenant or without the scope `operate`."
    )
    note: str = Field("", description="What the operator noted with the pause; empty for the same keys.")


class WhyShape(Shape):
    """Why it does not run now, the first reason first, and when it probably will."""

    reasons: list[ReasonShape]
    wait_reason: WaitReason | None = None
    position: int | None = Field(None, description="Its place among the ready tasks of its lane; 1 is next.")
    position_is: Certainty | None = Field(
        None, description="`exact`; `about` if it was estimated; `at_least` if even more tasks are ahead."
    )
    eta_s: float | None = None
    end_eta_s: float | None = None
    more_workers_help: bool | None = None


class ActedShape(Shape):
    id: str = Field(examples=[ID])
    outcome: str = Field(examples=["done"])


class SubmittedShape(Shape):
    id: str = Field(examples=[ID])
    links: Links
    warnings: list[str] | None = Field(None, description="Of a task whose kind no worker runs that is alive.")


class Items(Shape):
    items: list[dict[str, Any]]


class TaskOrder(BaseModel):
    """A task to be run by a worker that knows its kind."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"kind": "call_api", "payload": {"url": "https://example.org"}}]},
    )

    kind: str = Field(pattern=r"^[a-z0-9_.-]{1,64}$")
    payload: Any = None
    priority: int | None = Field(None, ge=-100, le=100)
    delay_s: float | None = Field(None, ge=0, le=366 * 86_400)
    timeout_s: float | None = Field(None, ge=0, le=366 * 86_400)
    max_retries: int | None = Field(None, ge=0, le=1_000_000)
    max_reschedules: int | None = Field(None, ge=0, le=1_000_000, description="Without it there is no bound.")
    start_at: AwareDatetime | None = Field(
        None, strict=False, description="When it may start; not together with delay_s."
    )
    deadline_at: AwareDatetime | None = Field(
        None, strict=False, description="When it is too late: it fails as `deadline`."
    )
    fairness_key: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Tasks of different keys take turns; those of a tenant share its turn.",
    )
    tags: list[str] | None = Field(None, max_length=32)


class RetryOrder(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"force": False}]})

    force: bool = Field(default=False, description="Run again also what is out of requested retries, or not retryable.")
    note: str = Field("", max_length=1000, description="Why, for the audit trail.")


class NoteOrder(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"note": "sent twice"}]})

    note: str = Field("", max_length=1000, description="Why, for the audit trail.")


class WindowShape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    n: int = Field(ge=0, le=1_000_000_000, strict=True)
    per_s: float = Field(ge=0.001, le=400 * 86_400)
    unit: str = Field("calls", pattern=r"^[a-z0-9_.-]{1,64}$")


Bounded: TypeAlias = Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)]


class LimitOrder(BaseModel):
    """Some fields of a limit; with `for_s` they hold for that long, else until they are changed again."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"in_flight": 5, "windows": [{"n": 190, "per_s": 60}], "note": "new contract"}]
        },
    )

    in_flight: Bounded | dict[str, Bounded] | None = Field(
        None,
        description='Calls at once; 0 pauses the limit. Also bounds of other units: {"calls": 400, "pages": 5000}.',
    )
    windows: list[WindowShape] | None = Field(None, max_length=8)
    call_timeout_s: float | None = Field(None, gt=0, le=86_400)
    start_within_s: float | None = Field(
        None, ge=0.001, le=60, description="Seconds within which a call starts after its slot was granted."
    )
    for_s: float | None = Field(None, ge=0.001, le=366 * 86_400)
    note: str = Field("", max_length=200)


class PauseOrder(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"for_s": 600, "note": "maintenance"}]}
    )

    for_s: float | None = Field(None, ge=0.001, le=366 * 86_400, description="Until it is resumed, if none is given.")
    note: str = Field("", max_length=200)


class ResetOrder(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"everything": False}]})

    everything: bool = Field(default=False, description="Also running calls, the usage of windows and a cool-down.")


class LimitShape(Shape):
    name: str = Field(examples=["adobe"])
    in_flight: int = Field(description="Calls in progress.")
    cut_off: int = Field(description="How many of them nobody waits for, while their provider may still work on them.")
    free: int | None
    waiting: int
    blocked_by: list[str]
    eta_s: float | None
    paused: bool
    cooldown_for_s: float


class LimitList(Shape):
    items: list[LimitShape]


class ForgottenShape(Shape):
    limit: str
    forgotten_count: int


class EndpointShape(Shape):
    """A URL that callbacks go to."""

    id: str = Field(examples=[ID])
    tenant: str
    url: str = Field(examples=["https://example.com/hooks/forebay"])
    created_at: str = Field(examples=[_AT])
    disabled_at: str | None = None
    deliveries: list[TaskShape]


class SecretShape(Shape):
    """What a receiver verifies with, as Standard Webhooks has it."""

    id: str = Field(examples=[ID])
    url: str
    secret: str = Field(examples=["whsec_…"])


class SlotOrder(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"units": {"pages": 15}, "wait_s": 10, "label": "invoice 7"}]},
    )

    units: dict[str, int] = Field(default_factory=dict, max_length=16, description="What the call takes beside 1 call.")
    wait_s: float = Field(0, ge=0, le=60, description="How long to stand in line.")
    label: str = Field("", max_length=100, description="Shown to those who look at the limit.")
    place: str = Field(
        "",
        max_length=200,
        description="What you call your place in line: it is kept until you ask again, with the same name and units.",
    )
    keep_s: float = Field(120, ge=10, le=3600, description="How long the place is kept after you asked last.")
    holder: str = Field(
        "",
        max_length=200,
        description="Your own token that nobody can guess: lets you ask again for a slot whose answer was lost.",
    )


class SlotShape(Shape):
    """Leave to make one call: start it at once, renew the slot before `lease_s` is over, give it back at its end."""

    id: str = Field(examples=[ID])
    limit: str = Field(examples=["adobe"])
    lease_s: float = Field(examples=[15.0])
    call_timeout_s: float = Field(examples=[60.0])
    start_within_s: float = Field(examples=[0.25], description="Seconds from the grant within which the call starts.")
    start_by_s: float = Field(
        examples=[0.249], description='What is left of them; after that send PATCH with {"start": true} first.'
    )
    granted_at: str = Field(examples=[_AT], description="When it was granted, or last said to start.")


class SlotRenewal(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"start": False}]})

    start: bool = Field(default=False, description="The call starts only now: let it count from now on.")


class SlotEnd(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"outcome": "ok"}]})

    outcome: Literal["ok", "failed", "unsent", "throttled"] = "ok"
    retry_after_s: float | None = Field(None, ge=0, le=86_400, description="What the provider said with its 429.")
    units: dict[str, int] = Field(default_factory=dict, max_length=16, description="What the call really took.")


Responses = dict[int | str, dict[str, Any]]


def answers(good: Mapping[int | str, Any], *bad: int) -> Responses:
    """The good ones by their shape, or as OpenAPI has them; each bad one is a problem document."""
    made: Responses = {
        status: shape if isinstance(shape, dict) else _described(int(status), shape) for status, shape in good.items()
    }
    # Any request may be too long, and any key may ask too often.
    more = {414, *({429} if HTTPStatus.UNAUTHORIZED in bad else ())}
    for status in sorted({*bad, *more}):
        made[status] = {
            "description": HTTPStatus(status).phrase,
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return made


def _described(status: int, shape: type[BaseModel] | None) -> dict[str, Any]:
    named: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    return named if shape is None else {**named, "model": shape}
