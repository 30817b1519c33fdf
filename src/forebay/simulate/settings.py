"""What can be set of the simulator, and how it is checked: from a file, from flags, and while it runs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from forebay.errors import BadInput, NotFound
from forebay.ids import shown
from forebay.simulate.fault import Fault
from forebay.simulate.routes import matching

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
M = TypeVar("M", bound=BaseModel)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Window(Strict):
    """At most `n` units in `per_s` seconds: in any of them, or in each calendar slice."""

    n: Count
    per_s: Positive
    unit: str = "calls"
    edge: Literal["sliding", "fixed"] = "sliding"


class Month(Strict):
    """What may be used before the month turns, which it does only on reset."""

    n: Count
    unit: str = "calls"


class Quota(Strict):
    """Bounds of an API (its counted routes together) or of one route."""

    in_flight: Count | None = None
    windows: tuple[Window, ...] = ()
    month: Month | None = None
    count_refused: bool = False
    """Whether calls that are refused use up the windows too."""


class Latency(Strict):
    """How long an answer takes: always `s`; between `s` and `most_s`; or lognormal with median `s`."""

    kind: Literal["fixed", "uniform", "lognormal"] = "fixed"
    s: Seconds = 0.0
    most_s: Seconds | None = None
    sigma: Seconds = 0.5


class FaultRule(Strict):
    """Which calls of a route get a fault: those with these numbers (from 1, since it was set), or a share of all."""

    route: str = "*"
    fault: str
    calls: tuple[Annotated[int, Field(ge=1)], ...] | None = None
    share: Share = 1.0
    times: Count | None = None
    for_s: Seconds | None = None
    """How long it lasts, from when it was set."""

    @field_validator("route")
    @classmethod
    def _known(cls, value: str) -> str:
        return _routes(value)

    @field_validator("fault")
    @classmethod
    def _readable(cls, value: str) -> str:
        return str(Fault.read(value))


class DocumentAi(Strict):
    max_pages: Count = 15
    max_pages_imageless: Count = 30
    max_bytes: Count = 40 * 1024 * 1024


class Adobe(Strict):
    max_pages: Count = 200
    max_bytes: Count = 100 * 1024 * 1024
    asset_ttl_s: Positive = 86_400.0
    token_ttl_s: Positive = 86_399.0
    retry_after_s: Positive = 1.0
    """What a job that is in progress says in `retry-after`."""


class Settings(Strict):
    quotas: dict[str, Quota] = Field(default_factory=dict)
    latency: dict[str, Latency] = Field(default_factory=dict)
    scale: Positive = 1.0
    """Every latency is multiplied by it."""
    faults: tuple[FaultRule, ...] = ()
    retry: dict[str, str] = Field(default_factory=dict)
    """How an API's own 429 says when to come again: `seconds`, `date`, `ms`, `info` or `none`."""
    prices: dict[str, dict[str, Annotated[float, Field(ge=0)]]] = Field(default_factory=dict)
    sticky: bool = False
    """Go on working for a client that has gone, as providers do."""
    auth: bool = True
    """Refuse calls without credentials; any are good, except Adobe's, which must come from `/token`."""
    random: int = 1
    """Where the random numbers begin."""
    docai: DocumentAi = DocumentAi()
    adobe: Adobe = Adobe()

    @field_validator("quotas", "latency", "retry", "prices")
    @classmethod
    def _named(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {_routes(name): each for name, each in value.items()}

    @model_validator(mode="after")
    def _forms(self) -> Settings:
        for form in self.retry.values():
            Fault.read(f"429 form={form}")
        return self


def _routes(name: str) -> str:
    if not matching(name):
        raise ValueError(f"{shown(name)} is neither an API nor a route")
    return name


def made(fields: Mapping[str, Any], kind: type[M], *, where: str) -> M:
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(each) for each in first["loc"])
        said = str(first["msg"]).removeprefix("Value error, ")
        raise BadInput(f"{where}: {f'{place}: ' if place else ''}{said}.") from None


def changed(settings: Settings, fields: Mapping[str, Any], *, where: str) -> Settings:
    """The settings with these fields over them: tables are merged, and null takes an entry out."""
    return made(_merged(settings.model_dump(), fields), Settings, where=where)


def read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(
            f"{path}: {error.strerror}.", remedy="Give the TOML file with the simulator's settings."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not TOML: {error}.") from None


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(old)
    for name, value in new.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(found.get(name), Mapping):
            found[name] = _merged(found[name], value)
        else:
            found[name] = value
    return found
