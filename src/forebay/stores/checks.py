"""Checks what is handed to a ledger's verbs, alike for all stores, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forebay import ids
from forebay.errors import BadInput, Conflict
from forebay.model.bulk import Bulk
from forebay.model.exchange import Action, Audit, Release, Settle, Want
from forebay.model.job import NewJob
from forebay.model.key import ApiKey
from forebay.model.names import check_count, check_duration, check_instant, check_label, check_lane, check_name
from forebay.model.task import NewTask, Role, Status

_MOST_EXCHANGES = 2**53


def check_batch(batch: object) -> Sequence[NewTask | NewJob]:
    if isinstance(batch, Bulk):
        return batch
    new: list[NewTask | NewJob] = _listed("batch", batch, (NewTask, NewJob))
    for one in new:
        if isinstance(one, NewTask) and one.role is not Role.LONE:
            raise BadInput(f"A {one.role} task is submitted with its job.", remedy="Submit a NewJob.")
    return new


def check_exchange(
    session_id: object, n: object, settles: object, releases: object, wants: object
) -> tuple[list[Settle], list[Release], list[Want]]:
    if not isinstance(session_id, str):
        raise BadInput(f"{ids.shown(session_id)} is not a session.", remedy="Give the id of an open session.")
    check_count("n", n, least=1, most=_MOST_EXCHANGES)
    return (
        _listed("settles", settles, (Settle,)),
        _listed("releases", releases, (Release,)),
        _listed("wants", wants, (Want,)),
    )


def check_targets(targets: object, action: object) -> list[str]:
    _check_action(action)
    return [ids.check_id(target) for target in _listed("ids", targets, (object,))]


def check_pause(lane: object, action: object, until: object = None) -> None:
    _check_action(action)
    check_lane(lane)
    if until is not None:
        check_instant("until", until)


def check_drain(session_id: str, action: object) -> None:
    _check_action(action)
    ids.check_id(session_id)


def check_key(key: object, action: object) -> ApiKey:
    _check_action(action)
    if not isinstance(key, ApiKey):
        raise BadInput(f"{ids.shown(key)} is not an API key.", remedy="Give ApiKey(name=…, sha256=…, scopes=…).")
    return key


def check_record(verb: object, targets: Sequence[str], action: object) -> None:
    _check_action(action)
    check_name("verb", verb)
    for target in targets:
        check_name("target", target)


def check_request(tenant: object, key: object, token: str, for_s: object = 0) -> None:
    check_name("tenant", tenant)
    check_label("idempotency key", key)
    ids.check_id(token)
    check_duration("for_s", for_s)


def _check_action(action: object) -> None:
    if not isinstance(action, Action):
        raise BadInput(f"{ids.shown(action)} is not an action.", remedy="Give Action(who=…).")


def check_repeat(before: Audit, verb: str, targets: Sequence[str]) -> None:
    """An action's id may come back only with the same request: another one would be answered but not done."""
    if (before.verb, before.target_count, before.targets) != (
        verb,
        len(targets),
        tuple(targets[: len(before.targets)]),
    ):
        raise Conflict(
            f"Action {before.id} was used before, to {before.verb} something else.",
            remedy="Make a new Action for each request; only a repeat of a request keeps its own.",
        )


def check_ages(older_than_s: object, most: object) -> None:
    if not isinstance(older_than_s, Mapping):
        raise BadInput(f"{ids.shown(older_than_s)} is not a retention.", remedy="Give seconds by status.")
    for status, age_s in older_than_s.items():
        if status not in list(Status):
            raise BadInput(f"{ids.shown(status)} is not a status.", remedy=f"Use one of: {', '.join(Status)}.")
        check_duration("retention", age_s)
    check_count("most", most, least=1)


def check_older(older_than_s: object, most: object) -> None:
    check_duration("older_than_s", older_than_s)
    check_count("most", most, least=1)


def _listed(what: str, values: object, kinds: tuple[type, ...]) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise BadInput(f"{what} is {ids.shown(values)}.", remedy="Give a list.")
    listed = list(values)
    for value in listed:
        if not isinstance(value, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise BadInput(f"{what} holds {ids.shown(value)}.", remedy=f"Give a list of {names}.")
    return listed
