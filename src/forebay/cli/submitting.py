"""The command that hands in work: submit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.opening import opened
from forebay.cli.options import Reading, Wait, WaitTimeout
from forebay.errors import BadInput
from forebay.model.access import Access

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.model.exchange import Submitted

_USUAL = Reading()


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
    max_retries: Annotated[int | None, Parameter(help="Retries after failures; 3 unless given.")] = None,
    max_reschedules: Annotated[int | None, Parameter(help="Reschedules; no bound unless given.")] = None,
    timeout: Annotated[float | None, Parameter(help="Seconds that an attempt may take; 60 unless given.")] = None,
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
            payloads = reading.payloads(bulk)
            keys = idempotency_key and [f"{idempotency_key}-{number}" for number in range(1, len(payloads) + 1)]
            answers = app.submit_many(kind, payloads, idempotency_keys=keys or None, **options)
        return _answer(app, answers, common, one=bulk is None, wait=wait, wait_timeout=wait_timeout)


def _answer(
    app: Forebay, answers: list[Submitted], common: Reading, *, one: bool, wait: bool, wait_timeout: float | None
) -> int:
    if common.output == "table":
        for answer in answers:
            output.line(answer.id)
        known = sum(answer.outcome == "existing" for answer in answers)
        if known:
            output.note(f"{known} of {len(answers)} submitted before, and found again.")
    elif not wait:
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
