"""The command that hands in work: submit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.opening import opened
from forebay.cli.options import Reading, Wait, WaitTimeout
from forebay.errors import BadInput, ForebayError, MaybeApplied, StoreError
from forebay.model.access import Access

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.model.exchange import Submitted
    from forebay.model.payload import Json

_USUAL = Reading()
_BATCH_LINES = 500
_BATCH_SIZE = 2 * 1024 * 1024  # of payloads


def submit(
    *,
    kind: Annotated[str, Parameter(name=["--kind", "-t"], help="The kind of task, which names its handler.")],
    given: Annotated[
        str | None,
        Parameter(name=["--input", "-i"], allow_leading_hyphen=True, help="The payload: JSON, @FILE, or - for stdin."),
    ] = None,
    bulk: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="A file, or - for stdin, with one payload a line.")
    ] = None,
    priority: Annotated[int, Parameter(help="-100 to 100; higher goes first.")] = 0,
    delay: Annotated[float | None, Parameter(help="Seconds until it may start.")] = None,
    start_at: Annotated[str | None, Parameter(help="When it may start: an ISO instant, or +SECONDS.")] = None,
    deadline: Annotated[str | None, Parameter(help="When it is too late: an ISO instant, or +SECONDS.")] = None,
    idempotency_key: Annotated[
        str | None, Parameter(help="The same key again finds the first task; in bulk, line N gets KEY-N.")
    ] = None,
    max_retries: Annotated[int | None, Parameter(help="Retries after failures (default: 3).")] = None,
    max_reschedules: Annotated[int | None, Parameter(help="Reschedules (default: no bound).")] = None,
    timeout: Annotated[float | None, Parameter(help="Seconds that an attempt may take (default: 60).")] = None,
    tenant: Annotated[str | None, Parameter(help="Whose it is.")] = None,
    fairness_key: Annotated[str | None, Parameter(help="Take turns by this key instead of by the tenant.")] = None,
    tag: Annotated[list[str] | None, Parameter(negative="", help="A tag; may be given again.")] = None,
    wait: Wait = False,
    wait_timeout: WaitTimeout = None,
    common: Reading = _USUAL,
) -> int:
    from forebay.cli import reading
    from forebay.cli.waiting import check_wait

    check_wait(wait_timeout, wait=wait)
    if given is not None and bulk is not None:
        raise BadInput("Both --input and --bulk are given.", remedy="Give one of them.")
    options: dict[str, Any] = {
        "priority": priority,
        "delay_s": delay,
        "start_at": start_at and reading.instant("--start-at", start_at),
        "deadline_at": deadline and reading.instant("--deadline", deadline),
        "max_retries": max_retries,
        "max_reschedules": max_reschedules,
        "timeout_s": timeout,
        "tenant": tenant,
        "fairness_key": fairness_key,
        "tags": tag and tuple(tag),
    }
    options = {name: value for name, value in options.items() if value is not None}
    with opened(common, Access.USE) as app:
        if bulk is None:
            payload = None if given is None else reading.payload(given)
            answers = [app.submit(kind, payload, idempotency_key=idempotency_key, **options)]
        else:
            lines = Lines(kind, reading.payloads(bulk), idempotency_key, options)
            answers = _submit_lines(app, lines, common, shown=common.output == "table" or not wait)
        return _answer(app, answers, common, one=bulk is None, wait=wait, wait_timeout=wait_timeout)


@dataclass(frozen=True)
class Lines:
    """The lines of a bulk by their numbers, and what their tasks have in common."""

    kind: str
    payloads: dict[int, Json]
    idempotency_key: str | None
    options: dict[str, Any]

    def batches(self) -> Iterator[list[tuple[int, Json]]]:
        """Parts that are stored whole or not at all: each fits into one transaction of any store."""
        batch: list[tuple[int, Json]] = []
        size = 0
        for number, payload in self.payloads.items():
            length = len(json.dumps(payload))
            if batch and (len(batch) >= _BATCH_LINES or size + length > _BATCH_SIZE):
                yield batch
                batch, size = [], 0
            batch.append((number, payload))
            size += length
        if batch:
            yield batch

    def submit(self, app: Forebay, batch: list[tuple[int, Json]], *, before: int) -> list[Submitted]:
        first, last = before + 1, before + len(batch)
        keys = self.idempotency_key and [f"{self.idempotency_key}-{count}" for count in range(first, last + 1)]
        payloads = [payload for _, payload in batch]
        return app.submit_many(self.kind, payloads, idempotency_keys=keys or None, **self.options)

    def broken_off(self, error: ForebayError, batch: list[tuple[int, Json]], *, stored: int) -> ForebayError:
        """The error of a batch, with what is stored and how to store the rest."""
        first, last = batch[0][0], batch[-1][0]
        sure = isinstance(error, BadInput | StoreError) and not isinstance(error, MaybeApplied)
        if not stored and sure:
            return error
        doubt = "" if sure else f" Lines {first} to {last} may be stored as well."
        if self.idempotency_key:
            repeat = "Then repeat the command with the same --idempotency-key: lines that are stored are found again."
        elif sure:
            repeat = f"Then submit the rest, from line {first} on (tail -n +{first} FILE)."
        else:
            repeat = f"Look which of lines {first} to {last} are stored, then submit the rest, from line {last + 1} on."
        cause = error.remedy.removeprefix("Nothing was changed. ")
        return type(error)(
            f"{stored} of {len(self.payloads)} are stored; their ids are printed.{doubt} {error.what}",
            remedy=f"{cause} {repeat}".strip(),
        )


def _submit_lines(app: Forebay, lines: Lines, common: Reading, *, shown: bool) -> list[Submitted]:
    """Print the ids of what is stored as each batch is, but for JSON, which is one list."""
    answers: list[Submitted] = []
    unwritable: OSError | None = None
    for batch in lines.batches():
        try:
            stored = lines.submit(app, batch, before=len(answers))
        except ForebayError as error:
            if common.output == "json" or not shown:
                output.write(answers, common.output)
            raise lines.broken_off(error, batch, stored=len(answers)) from error
        answers += stored
        if shown and common.output != "json" and unwritable is None:
            try:
                _show(stored, common)
            except OSError as error:  # also store lines whose ids nobody can read
                unwritable = error
    if unwritable is not None:
        raise unwritable
    return answers


def _show(answers: list[Submitted], common: Reading) -> None:
    if common.output == "table":
        for answer in answers:
            output.line(answer.id)
    else:
        output.write(answers, common.output)
    sys.stdout.flush()


def _answer(
    app: Forebay, answers: list[Submitted], common: Reading, *, one: bool, wait: bool, wait_timeout: float | None
) -> int:
    if common.output == "table":
        if one:
            _show(answers, common)
        known = sum(answer.outcome == "existing" for answer in answers)
        if known:
            output.note(f"{known} of {len(answers)} submitted before, and found again.")
    elif not wait and (one or common.output == "json"):
        output.write(answers, common.output, one=one)
    if not wait:
        return 0
    from forebay.app.plain import whole
    from forebay.cli.waiting import tell, wait_all

    ended = wait_all(app, [answer.id for answer in answers], wait_timeout)
    if common.output == "table":
        return tell(ended)
    output.write([whole(finished.record) for finished in ended], common.output, one=one)
    return tell(ended, quiet=True)
