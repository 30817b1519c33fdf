"""The commands for dead letters: failed tasks, kept with their evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.acting import answer, confirmed, resolved
from forebay.cli.opening import opened, who
from forebay.cli.options import All, Force, Id, Ids, Kind, Limit, Reading, Yes
from forebay.errors import BadInput, Conflict
from forebay.ids import printable

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.model.exchange import Acted
    from forebay.model.task import Task

_USUAL = Reading()
ErrorClass = Annotated[str | None, Parameter(help="Only this error class.")]


def listing(
    *,
    kind: Kind = None,
    error_class: ErrorClass = None,
    limit: Limit = None,
    every: All = False,
    common: Reading = _USUAL,
) -> None:
    from forebay.cli.pages import check_most, write_list
    from forebay.cli.records import TASK_COLUMNS, TaskView

    most = check_most(limit, every=every)
    with opened(common) as app:
        write_list(_dead(app, kind, error_class), common, TASK_COLUMNS, TaskView(app.look()).rows, most=most)


def show(identifier: Annotated[Id, Parameter(name="ID")], /, *, common: Reading = _USUAL) -> None:
    """With its history and the traceback of each attempt."""
    from forebay.app.plain import plain, whole
    from forebay.cli.records import show as show_record
    from forebay.cli.versions import versions, write_versions

    with opened(common) as app:
        found = _checked(app, app.resolve(identifier))
        attempts = app.history(found.id)
        standing = app.look().standing(found)
    if common.output != "table":
        output.write([{**whole(found), "history": [plain(each) for each in attempts]}], common.output, one=True)
        return
    show_record(found, standing, common)
    output.line()
    write_versions(list(versions(found, attempts, "")), tracebacks=True)


def requeue(
    *ids: Ids,
    every: All = False,
    kind: Kind = None,
    error_class: ErrorClass = None,
    force: Force = False,
    common: Reading = _USUAL,
) -> int:
    """By id, by --kind, by --error-class, or --all of them."""
    with opened(common) as app:

        def run(targets: Sequence[str]) -> list[Acted]:
            return app.retry(*targets, force=force, who=who())

        if _named(ids, kind, error_class, every=every):
            return answer(run(_ids(app, ids)), "to be run again", common)
        return _in_bulk(_dead(app, kind, error_class), run, "to be run again", common)


def drop(
    *ids: Ids,
    every: All = False,
    kind: Kind = None,
    error_class: ErrorClass = None,
    yes: Yes = False,
    common: Reading = _USUAL,
) -> int:
    """A chunk or another task of a job cannot be dropped alone: delete its job."""
    with opened(common) as app:

        def run(targets: Sequence[str]) -> list[Acted]:
            return app.delete(*targets, who=who())

        if _named(ids, kind, error_class, every=every):
            targets = _ids(app, ids)
            agreed = confirmed(f"Delete {len(targets)} dead letters with their evidence?", yes=yes)
            return answer(run(targets), "dropped", common) if agreed else 1
        agreed = confirmed("Delete all these dead letters with their evidence?", yes=yes)
        return _in_bulk(_dead(app, kind, error_class), run, "dropped", common) if agreed else 1


def _named(ids: Sequence[str], kind: str | None, error_class: str | None, *, every: bool) -> bool:
    if not ids and not every and kind is None and error_class is None:
        raise BadInput("Say which dead letters are meant.", remedy="Give ids, --kind, --error-class, or --all.")
    if ids and every:
        raise BadInput("Both ids and --all are given.", remedy="Give ids or --all, not both.")
    if ids and (kind or error_class):
        raise BadInput(
            "--kind and --error-class choose among all dead letters, not among ids.",
            remedy="Leave them out, or leave out the ids.",
        )
    return bool(ids)


def _ids(app: Forebay, ids: Sequence[str]) -> list[str]:
    return [_checked(app, each).id for each in resolved(app, ids)]


def _checked(app: Forebay, identifier: str) -> Task:
    from forebay.model.job import Job
    from forebay.model.task import Status

    found = app.get(identifier)
    if isinstance(found, Job):
        raise BadInput(
            f"{identifier} is a job, not a dead letter.",
            remedy=f"`forebay retry {identifier}` and `forebay delete {identifier}` are for jobs.",
        )
    if found.status is not Status.FAILED:
        raise Conflict(f"{identifier} is {found.status}, not a dead letter.", remedy="`forebay dead list` shows those.")
    return found


def _dead(app: Forebay, kind: str | None, error_class: str | None) -> Iterator[tuple[Any, ...]]:
    from forebay.cli.pages import pages
    from forebay.model.task import Status
    from forebay.rules import verdict

    wanted = None if error_class is None else verdict.parse(error_class)
    for page in pages(app, {"status": Status.FAILED, "kind": kind}):
        if chosen := tuple(task for task in page if wanted in {None, task.error_class}):
            yield chosen


def _in_bulk(
    found: Iterator[tuple[Any, ...]], run: Callable[[Sequence[str]], list[Acted]], done: str, common: Reading
) -> int:
    """Page by page, until there is no more; what is refused stays and is passed over."""
    counts: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for page in found:
        for each in run([task.id for task in page]):
            counts[each.outcome] += 1
            texts.setdefault(each.outcome, each.text)
    refused = counts.total() - counts["done"]
    if common.output == "table":
        output.line(f"{counts['done']} {done}, {refused} refused")
    else:
        output.write([{"done_count": counts["done"], "refused_count": refused}], common.output, one=True)
    for outcome, text in texts.items():
        if outcome != "done":
            output.note(f"forebay: {counts[outcome]} refused, such as: {printable(text)}")
    return 1 if refused else 0
