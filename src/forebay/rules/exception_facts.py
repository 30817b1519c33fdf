"""Reads what exceptions of HTTP clients and SDKs carry: status, headers, body, codes, causes. Imports none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

_MAX_LINKS = 16
_LEAST_STATUS = 100
_LEAST_ERROR = 400
_MOST_STATUS = 599
# urllib3 gives up after its own retries without keeping the answer; its text still names the status.
_STATUS = re.compile(r"[0-9]{3}")
_GAVE_UP = re.compile(r"too many ([0-9]{3}) error responses")


class Answer(NamedTuple):
    """What a provider answered, as far as an exception shows it. `codes` are error codes by name."""

    status: int | None
    headers: Mapping[str, str]
    body: object
    codes: tuple[str, ...]
    hint: object


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what caused it, outermost first.

    An exception of Python's own that was raised while another one was handled is an error of its own, unless it was
    raised `from` the other one. Libraries often leave out the `from`.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < _MAX_LINKS:
        seen.add(id(link))
        yield link
        follows = link.__cause__
        if follows is None and not link.__suppress_context__ and type(link).__module__ != "builtins":
            follows = link.__context__
        link = follows if follows is not None else _attached(link)


def _attached(link: BaseException) -> BaseException | None:
    """Return the error that the exception carries, as those of urllib, urllib3 and Google's retries do."""
    for name in ("reason", "cause"):
        found = _get(link, name)
        if isinstance(found, BaseException):
            return found
    return None


def names(link: BaseException) -> list[str]:
    """Return the names of the exception's type and its bases, nearest first."""
    return [kind.__name__ for kind in type(link).__mro__]


def describe(error: BaseException) -> str:
    """Return the exception's type and text, in one line of prose."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a __str__ that fails is no reason to lose the error
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def read_answer(link: BaseException) -> Answer | None:
    """Return the answer that this exception carries, or None if it carries none."""
    response = _get(link, "response")
    if isinstance(response, Mapping):
        return _of_botocore(response)
    status = _status(link, response)
    codes = _codes(link)
    if status is None and not codes:
        return None
    headers = plain_headers(_get(response, "headers")) or plain_headers(_get(link, "headers"))
    return Answer(status, headers, _body(link, response), codes, _hint(link))


def plain_headers(value: object) -> dict[str, str]:
    """Return headers of any library's type as a dict with lower-case names; what is not headers is none."""
    pairs = value if isinstance(value, (list, tuple)) else _call(_get(value, "items"))
    found = {}
    try:
        for name, text in pairs or ():
            found[_text(name).lower()] = _text(text)
    except Exception:  # noqa: BLE001 - of any library, such as a value that cannot be printed
        return {}
    return found


def _of_botocore(response: Mapping[str, Any]) -> Answer | None:
    metadata, error = response.get("ResponseMetadata"), response.get("Error")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    error = error if isinstance(error, Mapping) else {}
    code = error.get("Code")
    codes = (code,) if isinstance(code, str) and code else ()
    status = _as_status(metadata.get("HTTPStatusCode"))
    if status is None and not codes:
        return None
    return Answer(status, plain_headers(metadata.get("HTTPHeaders")), None, codes, None)


def _status(link: BaseException, response: object) -> int | None:
    for holder, name, least in (
        (response, "status_code", _LEAST_STATUS),
        (link, "status_code", _LEAST_STATUS),
        (link, "status", _LEAST_STATUS),
        (response, "status", _LEAST_STATUS),
        (link, "http_status", _LEAST_STATUS),
        (link, "code", _LEAST_ERROR),  # other numbers are codes of something else
    ):
        found = _as_status(_get(holder, name), least)
        if found is not None:
            return found
    if "ResponseError" in names(link) and (gave_up := _GAVE_UP.search(str(link))) is not None:
        return int(gave_up[1])
    return None


def _as_status(value: object, least: int = _LEAST_STATUS) -> int | None:
    if isinstance(value, str) and _STATUS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST_STATUS:
        return None
    return int(value)


def _codes(link: BaseException) -> tuple[str, ...]:
    """Return codes by name: strings of SDKs, and members of gRPC's status enumeration."""
    found = []
    for name in ("code", "type", "status", "grpc_status_code"):
        value = _get(link, name)
        if callable(value) and "RpcError" in names(link):
            value = _call(value)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(named := _get(value, "name"), str):
            found.append(named)
    return tuple(found)


def _body(link: BaseException, response: object) -> object:
    """Return what was received already. A body that was not read stays unread."""
    for holder, name in ((link, "body"), (link, "details"), (response, "_content")):
        value = _get(holder, name)
        if isinstance(value, (Mapping, list, str, bytes)) and value:
            return value
    return None


def _hint(link: BaseException) -> object:
    """Return what an attribute says about waiting, beside headers and body."""
    given = _get(link, "retry_after")
    if isinstance(given, (int, float, str, timedelta)):
        return given
    details = _get(link, "details")
    for detail in details if isinstance(details, (list, tuple)) else ():
        delay = _get(detail, "retry_delay")  # google.rpc.RetryInfo
        seconds, nanos = _get(delay, "seconds"), _get(delay, "nanos")
        if isinstance(seconds, int) and isinstance(nanos, int):
            return seconds + nanos / 1e9
    return None


def _get(holder: object, name: str) -> Any:  # noqa: ANN401 - of any library
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a property of somebody else's that fails tells nothing
        return None


def _call(method: Any) -> Any:  # noqa: ANN401 - of any library
    try:
        return method()
    except Exception:  # noqa: BLE001 - same
        return None


def _text(value: object) -> str:
    return (value.decode("latin-1") if isinstance(value, bytes) else str(value)).strip()
