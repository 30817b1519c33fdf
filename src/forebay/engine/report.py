"""Puts outcomes and errors into messages between a worker and its handler children, and takes them out again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from forebay import errors
from forebay.engine.wire import Message
from forebay.errors import ForebayError, StoreUnreachable
from forebay.model.call_outcome import CallOutcome
from forebay.model.outcome import Canceled, Completed, Failed, Outcome, Rescheduled
from forebay.model.payload import JsonText

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Failed, Rescheduled, Canceled)}


def pack(outcome: Outcome) -> Message:
    if isinstance(outcome, Completed):
        return {"completed": [outcome.result_json, outcome.result_blob]}
    fields = {name: value for name, value in asdict(outcome).items() if value not in (None, ())}
    return {"outcome": type(outcome).__name__, "fields": fields}


def unpack(message: Message) -> Outcome:
    if "completed" in message:
        text, blob = message["completed"]
        return Completed(result_json=None if text is None else JsonText(text), result_blob=blob)
    fields = dict(message["fields"])
    if "call" in fields:
        fields["call"] = CallOutcome(**fields["call"])
    outcome: Outcome = _KINDS[message["outcome"]](**fields)
    return outcome


def pack_error(error: Exception) -> Message:
    if not isinstance(error, ForebayError):
        return {"raise": "", "what": f"{type(error).__name__}: {error}", "fields": {}}
    fields = {name: value for name, value in vars(error).items() if name != "what"}
    return {"raise": type(error).__name__, "what": error.what, "fields": fields}


def unpack_error(message: Message) -> ForebayError:
    kind = getattr(errors, message["raise"], None) or StoreUnreachable
    made: ForebayError = kind(message["what"], **message["fields"])
    return made
