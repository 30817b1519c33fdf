"""Every error a user can meet: what went wrong, where, and what to do next.

ForebayError
├── BadInput              a value we refuse before anything is stored
│   ├── NeverFits         a call that takes more than its limit can ever give
│   ├── BadName           a name, id or address outside its alphabet
│   ├── BadPayload        not JSON, too deep, NUL, lone surrogates
│   ├── TooLarge          over a size bound
│   └── Ambiguous         the beginning of more than one id
├── BadDocument           a file that is refused by what it holds, before anything is spent on it
├── NotFound              no such task, job, session, blob or file
│   ├── ChunkNotFound
│   └── BlobMissing       bytes that were stored are gone
├── Conflict              the request does not fit the present state
│   ├── AlreadyHeld       a slot inside a slot of the same limit, which could wait for itself
│   ├── PlaceHeld         another delivery of the same work holds the slot of this kept place
│   ├── IdempotencyConflict
│   ├── RetryLimitExceeded
│   └── NotRetryable
├── NotCompleted          the result of something that failed or was canceled
├── WaitTimeout           it has not ended within the time that was given
├── Busy                  a limit had no slot within the time that was given; never a provider's 429
├── MissingExtra          an optional dependency is not installed
├── BadChunks             a merge was given pages that do not make up the document
│   ├── MissingPages
│   ├── DuplicatedPages
│   ├── ForeignPages      of another document, or beyond the last page of this one
│   └── BadTags           what should be tagged pages is not
├── ParserUnavailable     what reads documents cannot do so for the moment
├── SandboxFailed         the system offers a sandbox for parsers and then refuses it
├── ResultCorrupt         stored bytes do not have the sha256 they are known by
└── StoreError            the store did not do it, or may not have
    ├── StoreUnreachable
    │   └── StoreMissing  there is no ledger yet at that address
    ├── StoreBusy         another process holds the lock for too long
    ├── StoreFull
    ├── StoreReadOnly
    ├── StoreForbidden    the store's user lacks a right
    ├── StoreCorrupt      no database, or a damaged one
    ├── SchemaTooNew      the ledger was migrated by a newer version
    ├── SchemaTooOld      the ledger has to be migrated first
    ├── WrongEnvironment  the ledger belongs to another environment
    ├── StoreClosed
    └── MaybeApplied      no answer: repeat the call by its id
"""

from __future__ import annotations

from typing import Any, ClassVar


class ForebayError(Exception):
    """Base of all: `code` is stable, `remedy` says what to do, the statuses are what faces answer.

    With a `public`, `what` names addresses and folders: it is for operators, and everybody else gets `public`.
    """

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    public: ClassVar[str | None] = None

    def __init__(self, what: str, *, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}" if self.remedy else self.what

    def __reduce__(self) -> tuple[object, ...]:
        # The default rebuilds with args only and would lose the remedy between processes.
        return (_rebuild, (type(self), self.what, self.remedy))


def _rebuild(kind: type[ForebayError], what: str, remedy: str) -> ForebayError:
    return kind(what, remedy=remedy)


class BadInput(ForebayError):
    code = "bad_input"
    http_status = 422
    exit_code = 2


class BadName(BadInput):
    code = "bad_name"


class BadPayload(BadInput):
    code = "bad_payload"


class TooLarge(BadInput):
    code = "too_large"
    http_status = 413


class Ambiguous(BadInput):
    code = "ambiguous"


class NeverFits(BadInput):
    """`uncounted`: a unit that the limit does not count; `unnamed`: one that it counts and the call left out."""

    code = "never_fits"

    def __init__(self, what: str, *, remedy: str = "", uncounted: str = "", unnamed: str = "") -> None:
        super().__init__(what, remedy=remedy)
        self.uncounted = uncounted
        self.unnamed = unnamed


class BadDocument(ForebayError):
    """`error_class` is the one of the vocabulary that a task would have failed with."""

    code = "bad_document"
    http_status = 422
    exit_code = 7

    def __init__(self, what: str, *, remedy: str = "", error_class: str = "unsupported_format") -> None:
        super().__init__(what, remedy=remedy)
        self.error_class = error_class

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_document, (self.what, self.remedy, self.error_class))


def _rebuild_document(what: str, remedy: str, error_class: str) -> BadDocument:
    return BadDocument(what, remedy=remedy, error_class=error_class)


class NotFound(ForebayError):
    code = "not_found"
    http_status = 404
    exit_code = 4


class ChunkNotFound(NotFound):
    code = "chunk_not_found"


class BlobMissing(NotFound):
    code = "blob_missing"
    public = "The stored bytes are gone."


class Conflict(ForebayError):
    code = "conflict"
    http_status = 409


class AlreadyHeld(Conflict):
    """The caller holds a slot of the limit that it asks for another one of."""

    code = "already_held"


class PlaceHeld(Conflict):
    """Somebody else asked for this kept place and holds its slot."""

    code = "place_held"


class IdempotencyConflict(Conflict):
    code = "idempotency_conflict"
    http_status = 422


class RetryLimitExceeded(Conflict):
    code = "RETRY_LIMIT_EXCEEDED"


class NotRetryable(Conflict):
    code = "not_retryable"


class NotCompleted(ForebayError):
    code = "not_completed"
    http_status = 409


class WaitTimeout(ForebayError):
    code = "wait_timeout"
    http_status = 504
    exit_code = 6


class Busy(ForebayError):
    """Who waits for what: `position` counts those ahead, `eta_s` is None where nobody can tell."""

    code = "busy"
    http_status = 503
    exit_code = 6

    def __init__(
        self,
        what: str,
        *,
        remedy: str = "",
        limit: str = "",
        retry_in_s: float = 0.0,
        eta_s: float | None = None,
        position: int = 0,
        blocked_by: tuple[str, ...] = (),
    ) -> None:
        super().__init__(what, remedy=remedy)
        self.limit = limit
        self.retry_in_s = retry_in_s
        self.eta_s = eta_s
        self.position = position
        self.blocked_by = blocked_by

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_busy, (self.what, {name: value for name, value in vars(self).items() if name != "what"}))


def _rebuild_busy(what: str, fields: dict[str, Any]) -> Busy:
    return Busy(what, **fields)


class MissingExtra(ForebayError):
    code = "missing_extra"
    exit_code = 2


class BadChunks(ForebayError):
    code = "bad_chunks"


class MissingPages(BadChunks):
    code = "missing_pages"


class DuplicatedPages(BadChunks):
    code = "duplicated_pages"


class ForeignPages(BadChunks):
    code = "foreign_pages"


class BadTags(BadChunks):
    code = "bad_tags"


class ParserUnavailable(ForebayError):
    code = "service_unavailable"
    http_status = 503


class SandboxFailed(ForebayError):
    code = "sandbox_failed"
    http_status = 503


class ResultCorrupt(ForebayError):
    """`computed` is the sha256 that the stored bytes have instead, where it was computed."""

    code = "result_corrupt"
    public = "The stored bytes are damaged."

    def __init__(self, what: str, *, remedy: str = "", computed: str | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.computed = computed


class StoreError(ForebayError):
    code = "store_error"
    http_status = 503
    exit_code = 5
    public = "A store is in trouble."


class StoreUnreachable(StoreError):
    code = "store_unreachable"
    public = "A store does not answer."


class StoreMissing(StoreUnreachable):
    code = "store_missing"


class StoreBusy(StoreError):
    code = "store_busy"
    public = "A store is too busy."


class StoreFull(StoreError):
    code = "store_full"
    http_status = 507
    public = "A store has no room left."


class StoreReadOnly(StoreError):
    code = "store_read_only"


class StoreForbidden(StoreError):
    code = "store_forbidden"


class StoreCorrupt(StoreError):
    code = "store_corrupt"


class SchemaTooNew(StoreError):
    code = "schema_too_new"
    public = "A newer version of Forebay has migrated a store."


class SchemaTooOld(StoreError):
    code = "schema_too_old"
    public = "A store has to be migrated first."


class WrongEnvironment(StoreError):
    code = "wrong_environment"
    public = "A store belongs to another environment."


class StoreClosed(StoreError):
    code = "store_closed"


class MaybeApplied(StoreError):
    code = "maybe_applied"
    public = "A store has not answered in time; what was asked for may have been done."
