"""What may be said of a document that is handed in: in the form that it comes in, or in the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from forebay.errors import ForebayError
from forebay.model.payload import parse

NAME = r"^[a-z0-9_.-]{1,64}$"


class JobOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")

    pipeline: str | None = Field(
        None,
        pattern=NAME,
        description="What is made of it: ocr, segment or autotag; ocr unless one is named.",
    )
    processor: str | None = Field(None, pattern=NAME, description="Who works on it; each pipeline has a usual one.")
    options: dict[str, Any] = Field(default_factory=dict, description="The processor's own options, as JSON text.")
    name: str | None = Field(
        None, max_length=5000, description="The document's name, if its part of the form has none."
    )
    priority: int = Field(0, ge=-100, le=100, description="Higher goes first.")
    timeout_s: float | None = Field(
        None, gt=0, le=366 * 86_400, description="Seconds that an attempt at a chunk may take."
    )
    max_retries: int | None = Field(None, ge=0, le=1_000_000, description="Retries of each chunk after failures.")
    max_reschedules: int | None = Field(None, ge=0, le=1_000_000, description="Reschedules of each chunk.")
    tags: list[str] = Field(default_factory=list, max_length=32, description="For lists, separated by commas.")
    allow_holes: bool = Field(default=False, description="Merge what was read, even if pages are missing.")
    callback: str | None = Field(
        None, max_length=2000, description="A URL that gets a callback when the job has ended."
    )
    callback_each: bool = Field(default=False, description="Tell it of each chunk as well.")
    callback_results: bool = Field(default=False, description="Put the result into each callback, if it is small.")
    reuse: bool = Field(default=True, description="Use what is stored of the same document and options again.")

    @field_validator("options", mode="before")
    @classmethod
    def _parsed(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return parse(value, what="options")
        except ForebayError as error:
            raise ValueError(error.what) from None

    @field_validator("tags", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value


def merged(query: Mapping[str, str], fields: Mapping[str, str]) -> dict[str, str]:
    """What the query and the fields of a form say together; what both say is a 422."""
    twice = [name for name in fields if name in query]
    if twice:
        raise RequestValidationError(
            [{"loc": ("form", name), "msg": "is given in the query as well"} for name in twice]
        )
    return {**query, **fields}


def order_of(said: dict[str, str], where: str) -> JobOrder:
    try:
        return JobOrder.model_validate(said)
    except ValidationError as error:
        raise RequestValidationError([{**each, "loc": (where, *each["loc"])} for each in error.errors()]) from None


_FIELDS = {
    name: field for name, field in JobOrder.model_json_schema()["properties"].items() if name not in {"options", "tags"}
} | {name: {"type": "string", "description": JobOrder.model_fields[name].description} for name in ("options", "tags")}
PARAMETERS = [
    {
        "name": name,
        "in": "query",
        "required": False,
        "schema": {key: value for key, value in field.items() if key not in {"title", "description"}},
        "description": field.get("description", ""),
    }
    for name, field in _FIELDS.items()
]
BODY = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["file"],
                "properties": {"file": {"type": "string", "format": "binary"}, **_FIELDS},
            }
        },
        "application/pdf": {"schema": {"type": "string", "format": "binary"}},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    },
}
