"""Decides what an error means: its class, what happens to the task, and what a person does next."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from forebay.errors import BadName
from forebay.ids import shown


class Verdict(StrEnum):
    """What happens to the task."""

    RETRY = "retry"
    RESCHEDULE = "reschedule"
    REPLAN = "replan"
    FAIL = "fail"
    STOP_LANE = "stop_lane"
    CANCEL = "cancel"


class ErrorClass(StrEnum):
    """The name that is stored with a task and shown everywhere."""

    TIMEOUT = "timeout"
    NETWORK_ERROR = "network_error"
    SERVICE_UNAVAILABLE = "service_unavailable"
    INTERNAL_ERROR = "internal_error"
    BAD_RESPONSE = "bad_response"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    REPLAN = "replan"
    AUTH = "auth"
    INVALID_PDF = "invalid_pdf"
    CORRUPTED_CONTENT = "corrupted_content"
    UNSUPPORTED_FORMAT = "unsupported_format"
    ENCRYPTED = "encrypted"
    TOO_MANY_PAGES = "too_many_pages"
    PAGE_TOO_LARGE = "page_too_large"
    DECOMPRESSION_LIMIT = "decompression_limit"
    REFUSED = "refused"
    PARSER_CRASHED = "parser_crashed"
    PARSER_TIMEOUT = "parser_timeout"
    PARSER_MEMORY = "parser_memory"
    HANDLER_CRASHED = "handler_crashed"
    HANDLER_MEMORY = "handler_memory"
    RESCHEDULES_EXCEEDED = "reschedules_exceeded"
    CANCELED = "canceled"
    DEADLINE = "deadline"
    POISON = "poison"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Consequence:
    """All that follows from an error class; `max_retries` lowers a task's own bound, never raises it.

    `on_request`: nothing runs it again by itself, but a person may without force.
    """

    verdict: Verdict
    http_status: int
    exit_code: int
    meaning: str
    remedy: str
    max_retries: int | None = None
    on_request: bool = False

    @property
    def retryable(self) -> bool:
        """Whether the same input may be run again without a person deciding so."""
        return self.verdict in _RUNS_AGAIN


_RUNS_AGAIN = frozenset({Verdict.RETRY, Verdict.RESCHEDULE, Verdict.STOP_LANE})

# Exit code 7 is for what we refuse on reading the document; what a provider refuses is a failure, 1.
TABLE: Mapping[ErrorClass, Consequence] = MappingProxyType(
    {
        ErrorClass.TIMEOUT: Consequence(
            Verdict.RETRY, 504, 1,
            "an attempt took longer than its `timeout_s`",
            "Raise `timeout_s` (or `segment_timeout_s`, if the whole job timed out) or make the chunks smaller, "
            "then retry.",
        ),
        ErrorClass.NETWORK_ERROR: Consequence(
            Verdict.RETRY, 502, 1,
            "the connection to the provider failed",
            "Check the worker's network, proxy and DNS, then retry.",
        ),
        ErrorClass.SERVICE_UNAVAILABLE: Consequence(
            Verdict.RETRY, 503, 1,
            "the provider, a store or the worker's machine could not serve for the moment",
            "Look at the provider's status page and at the worker's free disk space, then retry.",
        ),
        ErrorClass.INTERNAL_ERROR: Consequence(
            Verdict.RETRY, 502, 1,
            "the provider failed while it worked on the call",
            "Retry later, and report it to the provider if it is always the same document.",
        ),
        ErrorClass.BAD_RESPONSE: Consequence(
            Verdict.RETRY, 502, 1,
            "the answer was cut off, too large, or not what the API promises",
            "Check the provider's address and that no proxy rewrites its answers, then retry.",
            max_retries=2,
        ),
        ErrorClass.RATE_LIMITED: Consequence(
            Verdict.RESCHEDULE, 503, 1,
            "the provider said that calls come too fast",
            "Wait while the task is pending, since the limit cools down by itself; once it has failed, raise "
            "`max_reschedules` and retry; lower the limit if it happens often.",
        ),
        ErrorClass.QUOTA_EXHAUSTED: Consequence(
            Verdict.STOP_LANE, 503, 8,
            "the provider's quota for the day or month is used up",
            "Wait for the quota's reset, or raise it with the provider; what waits goes on by itself.",
        ),
        ErrorClass.REPLAN: Consequence(
            Verdict.REPLAN, 422, 1,
            "the chunk is more than the provider takes in one call",
            "Nothing, while it can be split smaller; else shrink the page or choose another processor.",
        ),
        ErrorClass.AUTH: Consequence(
            Verdict.STOP_LANE, 502, 1,
            "the provider rejected our credentials, also after a refresh",
            "Correct the provider's credentials, then `forebay limits resume` the limit that was paused for it.",
        ),
        ErrorClass.INVALID_PDF: Consequence(
            Verdict.FAIL, 422, 7,
            "the document is no PDF, or one without pages",
            "Open it in a viewer, export it anew and hand that in.",
        ),
        ErrorClass.CORRUPTED_CONTENT: Consequence(
            Verdict.FAIL, 422, 7,
            "the document is damaged beyond repair",
            "Hand in an undamaged copy.",
        ),
        ErrorClass.UNSUPPORTED_FORMAT: Consequence(
            Verdict.FAIL, 415, 7,
            "the document's bytes are of a format that nothing installed can read",
            "Convert it to PDF, or install the extra that reads its format.",
        ),
        ErrorClass.ENCRYPTED: Consequence(
            Verdict.FAIL, 422, 7,
            "the document opens only with a password",
            "Remove the password and hand it in again.",
        ),
        ErrorClass.TOO_MANY_PAGES: Consequence(
            Verdict.FAIL, 422, 7,
            "the document has more pages than are allowed",
            "Split it and hand in the pieces, or raise the bound on pages.",
        ),
        ErrorClass.PAGE_TOO_LARGE: Consequence(
            Verdict.FAIL, 422, 7,
            "a page is too large to be rendered",
            "Scale that page down and hand the document in again.",
        ),
        ErrorClass.DECOMPRESSION_LIMIT: Consequence(
            Verdict.FAIL, 422, 7,
            "the document unpacks to more bytes than are allowed",
            "Export it anew from its source, and distrust it if it came from a stranger.",
        ),
        ErrorClass.REFUSED: Consequence(
            Verdict.FAIL, 422, 1,
            "the provider refused the request or its content",
            "Read the provider's words in `forebay history`, then change the document or the options.",
        ),
        ErrorClass.PARSER_CRASHED: Consequence(
            Verdict.RETRY, 422, 7,
            "the child that read the document crashed",
            "Export the document anew and hand that in.",
            max_retries=1,
        ),
        ErrorClass.PARSER_TIMEOUT: Consequence(
            Verdict.RETRY, 422, 7,
            "the child that read the document ran out of time",
            "Export the document anew, or split it and hand in the pieces.",
            max_retries=1,
        ),
        ErrorClass.PARSER_MEMORY: Consequence(
            Verdict.RETRY, 422, 7,
            "the child that read the document ran out of memory",
            "Export the document anew, or split it and hand in the pieces.",
            max_retries=1,
        ),
        ErrorClass.HANDLER_CRASHED: Consequence(
            Verdict.RETRY, 500, 1,
            "the process that ran the handler ended in the midst of it",
            "Find what ends the process (a crash in C code, `os._exit`, a kill by the system), then retry.",
        ),
        ErrorClass.HANDLER_MEMORY: Consequence(
            Verdict.RETRY, 500, 1,
            "the handler ran out of memory",
            "Raise `handler_memory_mb`, or hand the work in in smaller pieces, then retry.",
            max_retries=1,
        ),
        ErrorClass.RESCHEDULES_EXCEEDED: Consequence(
            Verdict.FAIL, 504, 1,
            "the handler rescheduled more often than `max_reschedules` allows",
            "Check what the handler waits for, raise `max_reschedules` if it needs longer, then retry.",
            on_request=True,
        ),
        ErrorClass.CANCELED: Consequence(
            Verdict.CANCEL, 409, 1,
            "somebody canceled it",
            "Submit it again if it is still wanted.",
        ),
        ErrorClass.DEADLINE: Consequence(
            Verdict.FAIL, 504, 1,
            "its `deadline_at` passed before it was done",
            "Submit it again with a later `deadline_at`.",
        ),
        ErrorClass.POISON: Consequence(
            Verdict.FAIL, 500, 1,
            "five attempts were lost together with their workers",
            "Find out what ends the workers (memory, a crash in C code), then retry it with force.",
        ),
        ErrorClass.BUG: Consequence(
            Verdict.FAIL, 500, 1,
            "an exception that nothing here expects",
            "Read the traceback in `forebay history`, fix the code that raised it, then retry it with force.",
        ),
    }
)  # fmt: skip

_UNAVAILABLE = 503
_BY_STATUS = {
    401: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    408: ErrorClass.TIMEOUT,
    413: ErrorClass.REPLAN,
    429: ErrorClass.RATE_LIMITED,
    502: ErrorClass.SERVICE_UNAVAILABLE,
    _UNAVAILABLE: ErrorClass.SERVICE_UNAVAILABLE,
    504: ErrorClass.TIMEOUT,
}
_BY_HUNDRED = {2: None, 4: ErrorClass.REFUSED, 5: ErrorClass.INTERNAL_ERROR}

# By name, because importing asyncio, ssl and http.client takes longer than all the rest of this layer.
_BY_TYPE = {
    "builtins.TimeoutError": ErrorClass.TIMEOUT,
    "subprocess.TimeoutExpired": ErrorClass.TIMEOUT,
    "builtins.ConnectionError": ErrorClass.NETWORK_ERROR,
    "socket.gaierror": ErrorClass.NETWORK_ERROR,
    "socket.herror": ErrorClass.NETWORK_ERROR,
    "ssl.SSLError": ErrorClass.NETWORK_ERROR,
    "urllib.error.URLError": ErrorClass.NETWORK_ERROR,
    # The network did its work: what a status means, the code that made the call has to say.
    "urllib.error.HTTPError": ErrorClass.BUG,
    "builtins.EOFError": ErrorClass.BAD_RESPONSE,
    "builtins.UnicodeDecodeError": ErrorClass.BAD_RESPONSE,
    "http.client.HTTPException": ErrorClass.BAD_RESPONSE,
    "json.decoder.JSONDecodeError": ErrorClass.BAD_RESPONSE,
    # Once more with less beside it may do; again and again would starve the others.
    "builtins.MemoryError": ErrorClass.HANDLER_MEMORY,
    "asyncio.exceptions.CancelledError": ErrorClass.CANCELED,
    "concurrent.futures._base.CancelledError": ErrorClass.CANCELED,
    # A provider's answer, looked at: it may do better the next time.
    "forebay.errors.BadTags": ErrorClass.BAD_RESPONSE,
    "forebay.errors.StoreError": ErrorClass.SERVICE_UNAVAILABLE,
    "forebay.errors.SandboxFailed": ErrorClass.SERVICE_UNAVAILABLE,
}
_BY_ERRNO = {
    errno.EHOSTDOWN: ErrorClass.NETWORK_ERROR,
    errno.EHOSTUNREACH: ErrorClass.NETWORK_ERROR,
    errno.ENETDOWN: ErrorClass.NETWORK_ERROR,
    errno.ENETRESET: ErrorClass.NETWORK_ERROR,
    errno.ENETUNREACH: ErrorClass.NETWORK_ERROR,
    # A full disk must not fail a thousand innocent tasks for good.
    errno.EADDRNOTAVAIL: ErrorClass.SERVICE_UNAVAILABLE,
    errno.EDQUOT: ErrorClass.SERVICE_UNAVAILABLE,
    errno.EMFILE: ErrorClass.SERVICE_UNAVAILABLE,
    errno.ENFILE: ErrorClass.SERVICE_UNAVAILABLE,
    errno.ENOBUFS: ErrorClass.SERVICE_UNAVAILABLE,
    errno.ENOSPC: ErrorClass.SERVICE_UNAVAILABLE,
}


_NAMES = frozenset(map(str, ErrorClass))


def of(error_class: ErrorClass) -> Consequence:
    return TABLE[error_class]


def parse(name: str) -> ErrorClass:
    """The class of that name, such as one that a handler gave to `Permanent`."""
    try:
        return ErrorClass(name)
    except ValueError:
        known = ", ".join(ErrorClass)
        raise BadName(f"{shown(name)} is not an error class.", remedy=f"Use one of: {known}.") from None


def may_be_requested(name: str | None) -> bool:
    """Whether a person may have what failed so run again without force; a name of another version may be, too."""
    if name not in _NAMES:
        return True
    found = of(ErrorClass(name))
    return found.retryable or found.on_request


def classify_http(status: int, *, has_retry_after: bool) -> ErrorClass | None:
    """What a provider's answer means by its status alone; None is success."""
    if status == _UNAVAILABLE and has_retry_after:
        return ErrorClass.RATE_LIMITED
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    # Clients here follow no redirects and ask for no upgrade: 1xx and 3xx are no answer.
    return _BY_HUNDRED.get(status // 100, ErrorClass.BAD_RESPONSE)


def gravest(classes: Sequence[ErrorClass]) -> ErrorClass:
    """Return the first class that nothing retries, or else the first."""
    return next((each for each in classes if not of(each).retryable), classes[0])


def classify_exception(exc: BaseException) -> ErrorClass:
    """What an exception means by its type alone; a group means what its gravest member means."""
    if isinstance(exc, BaseExceptionGroup):
        return gravest([classify_exception(member) for member in exc.exceptions])
    for kind in type(exc).__mro__:
        known = _BY_TYPE.get(f"{kind.__module__}.{kind.__qualname__}")
        if known is not None:
            return known
    if isinstance(exc, OSError) and exc.errno is not None:
        return _BY_ERRNO.get(exc.errno, ErrorClass.BUG)
    return ErrorClass.BUG
