"""The commands that change tasks and jobs: retry, cancel, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from forebay.cli import output
from forebay.cli.opening import opened, who
from forebay.cli.options import Force, Ids, Reading, Wait, WaitTimeout, Yes
from forebay.errors import BadInput
from forebay.ids import printable

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.model.exchange import Acted

_USUAL = Reading()


def retry(*ids: Ids, force: Force = False, common: Reading = _USUAL) -> int:
    with opened(common) as app:
        return answer(app.retry(*resolved(app, ids), force=force, who=who()), "to be run again", common)


def cancel(*ids: Ids, wait: Wait = False, wait_timeout: WaitTimeout = None, common: Reading = _USUAL) -> int:
    """What waits is canceled at once; what runs is asked to stop."""
    from forebay.cli.waiting import check_wait, wait_all

    check_wait(wait_timeout, wait=wait)
    with opened(common) as app:

        def became(identifier: str) -> str:
            status = app.get(identifier).status
            return str(status) if status.terminal else "asked to stop"

        acted = app.cancel(*resolved(app, ids), who=who())
        if wait:
            wait_all(app, [each.id for each in acted if each.done], wait_timeout)
        return answer(acted, became, common)


def delete(*ids: Ids, yes: Yes = False, common: Reading = _USUAL) -> int:
    """What is running has to be canceled first; a task of a job goes with its job."""
    with opened(common) as app:
        targets = resolved(app, ids)
        if not confirmed(f"Delete {len(targets)} with history and events?", yes=yes):
            return 1
        return answer(app.delete(*targets, who=who()), "deleted", common)


def resolved(app: Forebay, ids: Sequence[str]) -> list[str]:
    """Every id is known before anything is done to one of them."""
    if not ids:
        raise BadInput("No id is given.", remedy="Give one or more, or their beginnings.")
    return list(dict.fromkeys(app.resolve(each) for each in ids))


def answer(acted: Sequence[Acted], done: str | Callable[[str], str], common: Reading) -> int:
    """`done` says what became of each, or finds it out by its id."""
    if common.output != "table":
        output.write(acted, common.output)
    for each in acted:
        if not each.done:
            forced = " Give --force." if each.needs_force else ""
            output.note(f"forebay: {printable(each.text or f'{each.id}: {each.outcome}')}{forced}")
        elif common.output == "table":
            output.line(f"{each.id} {done if isinstance(done, str) else done(each.id)}")
    return 0 if all(each.done for each in acted) else 1


def confirmed(question: str, *, yes: bool) -> bool:
    """A person is asked; a script has to say so itself."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadInput("This cannot be undone, and nobody is there to ask.", remedy="Give --yes.")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    agreed = sys.stdin.readline().strip().lower() in {"y", "yes"}
    if not agreed:
        output.note("Nothing was changed.")
    return agreed
