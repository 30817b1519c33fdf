from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import http.client
import json
import socket
import ssl
import subprocess
import urllib.error
from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import errors
from forebay.rules import verdict
from forebay.rules.verdict import ErrorClass, Verdict

INPUT = {
    ErrorClass.INVALID_PDF,
    ErrorClass.CORRUPTED_CONTENT,
    ErrorClass.UNSUPPORTED_FORMAT,
    ErrorClass.ENCRYPTED,
    ErrorClass.TOO_MANY_PAGES,
    ErrorClass.PAGE_TOO_LARGE,
    ErrorClass.DECOMPRESSION_LIMIT,
}
PARSER = {ErrorClass.PARSER_CRASHED, ErrorClass.PARSER_TIMEOUT, ErrorClass.PARSER_MEMORY}
HANDLER = {ErrorClass.HANDLER_CRASHED, ErrorClass.HANDLER_MEMORY}


def where(field: str, value: object) -> set[ErrorClass]:
    return {each for each in ErrorClass if getattr(verdict.of(each), field) == value}


def test_every_class_has_a_consequence_that_nobody_can_change() -> None:
    assert list(verdict.TABLE) == list(ErrorClass)
    with pytest.raises(TypeError):
        verdict.TABLE[ErrorClass.BUG] = verdict.of(ErrorClass.TIMEOUT)  # type: ignore[index]


def test_every_class_has_the_verdict_of_the_vocabulary() -> None:
    assert where("verdict", Verdict.RETRY) == PARSER | HANDLER | {
        ErrorClass.TIMEOUT,
        ErrorClass.NETWORK_ERROR,
        ErrorClass.SERVICE_UNAVAILABLE,
        ErrorClass.INTERNAL_ERROR,
        ErrorClass.BAD_RESPONSE,
    }
    assert where("verdict", Verdict.RESCHEDULE) == {ErrorClass.RATE_LIMITED}
    assert where("verdict", Verdict.STOP_LANE) == {ErrorClass.QUOTA_EXHAUSTED, ErrorClass.AUTH}
    assert where("verdict", Verdict.REPLAN) == {ErrorClass.REPLAN}
    assert where("verdict", Verdict.CANCEL) == {ErrorClass.CANCELED}
    assert where("verdict", Verdict.FAIL) == INPUT | {
        ErrorClass.REFUSED,
        ErrorClass.RESCHEDULES_EXCEEDED,
        ErrorClass.DEADLINE,
        ErrorClass.POISON,
        ErrorClass.BUG,
    }


def test_only_what_can_succeed_with_the_same_input_is_retryable() -> None:
    assert where("retryable", value=True) == PARSER | HANDLER | {
        ErrorClass.TIMEOUT,
        ErrorClass.NETWORK_ERROR,
        ErrorClass.SERVICE_UNAVAILABLE,
        ErrorClass.INTERNAL_ERROR,
        ErrorClass.BAD_RESPONSE,
        ErrorClass.RATE_LIMITED,
        ErrorClass.QUOTA_EXHAUSTED,
        ErrorClass.AUTH,
    }


def test_a_person_may_retry_what_is_retryable_and_what_only_waited_too_long() -> None:
    asked = {each for each in ErrorClass if verdict.may_be_requested(each)}
    assert asked == where("retryable", value=True) | {ErrorClass.RESCHEDULES_EXCEEDED}
    assert verdict.may_be_requested(None)
    assert verdict.may_be_requested("of_a_later_version")


def test_no_remedy_of_a_handler_speaks_of_documents() -> None:
    for each in (*HANDLER, ErrorClass.RESCHEDULES_EXCEEDED):
        assert "document" not in verdict.of(each).remedy
        assert verdict.of(each).exit_code == 1


def test_a_document_that_kills_its_parser_is_retried_once_and_a_bad_response_twice() -> None:
    once = PARSER | {ErrorClass.HANDLER_MEMORY}
    assert where("max_retries", 1) == once
    assert where("max_retries", 2) == {ErrorClass.BAD_RESPONSE}
    assert where("max_retries", None) == set(ErrorClass) - once - {ErrorClass.BAD_RESPONSE}


def test_a_class_that_blames_the_document_is_an_unprocessable_input() -> None:
    assert where("exit_code", 7) == INPUT | PARSER
    unsupported = {ErrorClass.UNSUPPORTED_FORMAT}
    assert where("http_status", 422) == INPUT - unsupported | PARSER | {ErrorClass.REFUSED, ErrorClass.REPLAN}
    assert where("http_status", 415) == unsupported


# As docs/reference/errors.md promises them to callers and scripts.
STATUSES = {
    ErrorClass.TIMEOUT: (504, 1),
    ErrorClass.NETWORK_ERROR: (502, 1),
    ErrorClass.SERVICE_UNAVAILABLE: (503, 1),
    ErrorClass.INTERNAL_ERROR: (502, 1),
    ErrorClass.BAD_RESPONSE: (502, 1),
    ErrorClass.RATE_LIMITED: (503, 1),
    ErrorClass.QUOTA_EXHAUSTED: (503, 8),
    ErrorClass.REPLAN: (422, 1),
    ErrorClass.AUTH: (502, 1),
    ErrorClass.INVALID_PDF: (422, 7),
    ErrorClass.CORRUPTED_CONTENT: (422, 7),
    ErrorClass.UNSUPPORTED_FORMAT: (415, 7),
    ErrorClass.ENCRYPTED: (422, 7),
    ErrorClass.TOO_MANY_PAGES: (422, 7),
    ErrorClass.PAGE_TOO_LARGE: (422, 7),
    ErrorClass.DECOMPRESSION_LIMIT: (422, 7),
    ErrorClass.REFUSED: (422, 1),
    ErrorClass.PARSER_CRASHED: (422, 7),
    ErrorClass.PARSER_TIMEOUT: (422, 7),
    ErrorClass.PARSER_MEMORY: (422, 7),
    ErrorClass.HANDLER_CRASHED: (500, 1),
    ErrorClass.HANDLER_MEMORY: (500, 1),
    ErrorClass.RESCHEDULES_EXCEEDED: (504, 1),
    ErrorClass.CANCELED: (409, 1),
    ErrorClass.DEADLINE: (504, 1),
    ErrorClass.POISON: (500, 1),
    ErrorClass.BUG: (500, 1),
}


@pytest.mark.parametrize("error_class", ErrorClass)
def test_every_class_answers_with_the_documented_http_status_and_exit_code(error_class: ErrorClass) -> None:
    found = verdict.of(error_class)
    assert (found.http_status, found.exit_code) == STATUSES[error_class]


@pytest.mark.parametrize("error_class", ErrorClass)
def test_every_remedy_is_one_sentence(error_class: ErrorClass) -> None:
    found = verdict.of(error_class)
    assert found.remedy[0].isupper()
    assert found.remedy.endswith(".")
    assert found.remedy.count(". ") == 0
    assert not found.meaning.endswith(".")
    assert "|" not in found.meaning + found.remedy


@pytest.mark.parametrize("error_class", ErrorClass)
def test_a_class_is_found_by_its_name(error_class: ErrorClass) -> None:
    assert verdict.parse(str(error_class)) is error_class


@pytest.mark.parametrize("name", ["", "Timeout", "timeout ", "no_such", "x" * 10_000, "\0", None, 7, ["timeout"]])
def test_an_unknown_name_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(errors.BadName, match="timeout, network_error") as caught:
        verdict.parse(name)
    assert len(caught.value.what) < 100


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, None),
        (204, None),
        (299, None),
        (400, ErrorClass.REFUSED),
        (401, ErrorClass.AUTH),
        (403, ErrorClass.AUTH),
        (404, ErrorClass.REFUSED),
        (408, ErrorClass.TIMEOUT),
        (413, ErrorClass.REPLAN),
        (422, ErrorClass.REFUSED),
        (429, ErrorClass.RATE_LIMITED),
        (499, ErrorClass.REFUSED),
        (500, ErrorClass.INTERNAL_ERROR),
        (501, ErrorClass.INTERNAL_ERROR),
        (502, ErrorClass.SERVICE_UNAVAILABLE),
        (503, ErrorClass.SERVICE_UNAVAILABLE),
        (504, ErrorClass.TIMEOUT),
        (529, ErrorClass.INTERNAL_ERROR),
        (101, ErrorClass.BAD_RESPONSE),
        (302, ErrorClass.BAD_RESPONSE),
        (0, ErrorClass.BAD_RESPONSE),
        (-1, ErrorClass.BAD_RESPONSE),
        (600, ErrorClass.BAD_RESPONSE),
    ],
)
def test_a_status_has_a_class(status: int, expected: ErrorClass | None) -> None:
    assert verdict.classify_http(status, has_retry_after=False) is expected


def test_an_unavailable_service_that_says_when_to_come_back_is_throttling() -> None:
    assert verdict.classify_http(503, has_retry_after=True) is ErrorClass.RATE_LIMITED


@given(st.integers().filter(lambda status: status != 503))
def test_the_hint_to_come_back_changes_no_other_status(status: int) -> None:
    hinted, plain = (verdict.classify_http(status, has_retry_after=hint) for hint in (True, False))
    assert hinted is plain
    assert (plain is None) == (200 <= status < 300)


class OurTimeoutError(TimeoutError):
    """A type of a user's own, which means what its base means."""


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (TimeoutError(), ErrorClass.TIMEOUT),
        (OurTimeoutError(), ErrorClass.TIMEOUT),
        (OSError(errno.ETIMEDOUT, "slow"), ErrorClass.TIMEOUT),
        (concurrent.futures.TimeoutError(), ErrorClass.TIMEOUT),
        (subprocess.TimeoutExpired("tesseract", 5), ErrorClass.TIMEOUT),
        (ConnectionRefusedError(), ErrorClass.NETWORK_ERROR),
        (BrokenPipeError(), ErrorClass.NETWORK_ERROR),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), ErrorClass.NETWORK_ERROR),
        (socket.herror(1, "unknown"), ErrorClass.NETWORK_ERROR),
        (ssl.SSLCertVerificationError(1, "expired"), ErrorClass.NETWORK_ERROR),
        (OSError(errno.ENETUNREACH, "unreachable"), ErrorClass.NETWORK_ERROR),
        (urllib.error.URLError("no host"), ErrorClass.NETWORK_ERROR),
        (http.client.RemoteDisconnected("closed"), ErrorClass.NETWORK_ERROR),
        (http.client.IncompleteRead(b""), ErrorClass.BAD_RESPONSE),
        (asyncio.IncompleteReadError(b"", 5), ErrorClass.BAD_RESPONSE),
        (json.JSONDecodeError("no JSON", "<html>", 0), ErrorClass.BAD_RESPONSE),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), ErrorClass.BAD_RESPONSE),
        (OSError(errno.ENOSPC, "disk full"), ErrorClass.SERVICE_UNAVAILABLE),
        (OSError(errno.EMFILE, "too many files"), ErrorClass.SERVICE_UNAVAILABLE),
        (errors.StoreUnreachable("gone"), ErrorClass.SERVICE_UNAVAILABLE),
        (MemoryError(), ErrorClass.HANDLER_MEMORY),
        (asyncio.CancelledError(), ErrorClass.CANCELED),
        (concurrent.futures.CancelledError(), ErrorClass.CANCELED),
        (urllib.error.HTTPError("http://localhost", 404, "gone", Message(), None), ErrorClass.BUG),
        (UnicodeEncodeError("ascii", "ü", 0, 1, "invalid"), ErrorClass.BUG),
        (FileNotFoundError(errno.ENOENT, "missing"), ErrorClass.BUG),
        (OSError("no number"), ErrorClass.BUG),
        (errors.BadInput("no"), ErrorClass.BUG),
        (ValueError(), ErrorClass.BUG),
        (SystemExit(3), ErrorClass.BUG),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_an_exception_has_a_class(exc: BaseException, expected: ErrorClass) -> None:
    assert verdict.classify_exception(exc) is expected


def test_a_group_means_what_its_gravest_member_means() -> None:
    slow, cut, broken = TimeoutError(), ConnectionResetError(), ValueError()
    assert verdict.classify_exception(ExceptionGroup("", [slow, cut])) is ErrorClass.TIMEOUT
    assert verdict.classify_exception(ExceptionGroup("", [slow, ExceptionGroup("", [broken])])) is ErrorClass.BUG
