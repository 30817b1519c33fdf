"""The options that commands share, each written once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

Format: TypeAlias = Literal["table", "json", "ndjson"]
States: TypeAlias = Literal["pending", "running", "completed", "failed", "canceled"]

Id = Annotated[str, Parameter(help="The id of a task or a job, or the beginning of it.")]
Ids = Annotated[str, Parameter(name="ID", help="Ids of tasks or jobs, or the beginnings of them.")]
Kind = Annotated[str | None, Parameter(help="Only this kind; of jobs, this pipeline.")]
Limit = Annotated[int | None, Parameter(help="How many at most (default: 50).")]
All = Annotated[bool, Parameter(name="--all", negative="", help="All of them.")]
Yes = Annotated[bool, Parameter(negative="", help="Do not ask.")]
Force = Annotated[
    bool,
    Parameter(negative="", help="Even if the retries are used up or a retry cannot help; they count from 0 again."),
]
Wait = Annotated[bool, Parameter(negative="", help="Wait until it has ended.")]
WaitTimeout = Annotated[float | None, Parameter(help="Seconds to wait at most; then the exit code is 6.")]
Duration = Annotated[str | None, Parameter(name="--for", help="How long it lasts: 90, 90s, 30m, 2h, 1d.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """What every command takes."""

    ledger: Annotated[str | None, Parameter(help="The ledger to use, such as sqlite:///forebay.db.")] = None
    config: Annotated[str | None, Parameter(help="The settings file to read.")] = None
    verbose: Annotated[bool, Parameter(negative="", help="More detail: tracebacks and log lines.")] = False


@Parameter(name="*")
@dataclass(frozen=True)
class Reading(Common):
    """What every command takes that answers with data."""

    output: Annotated[Format, Parameter(name=["--output", "-o"], help="How the answer is written.")] = "table"


@Parameter(name="*")
@dataclass(frozen=True)
class LimitReading(Reading):
    """What every command takes that looks at limits."""

    limits: Annotated[str | None, Parameter(help="The limit store to use, such as redis://localhost:6379/0.")] = None
