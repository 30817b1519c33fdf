"""Tokens for Google's APIs: from a file with a service account, or from wherever this machine has its identity."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from forebay.engine.signals import Retry
from forebay.errors import BadInput, MissingExtra
from forebay.ids import printable
from forebay.observe.redact import hide_given, mask_text
from forebay.processors.credentials import Credentials, Key, read_text
from forebay.processors.origins import origin
from forebay.rules.verdict import ErrorClass

_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
_TIMEOUT_S = 20.0
_MAX_TEXT = 200


def google(url: str, file: Path | None, *, proxy: str | None = None) -> Credentials:
    """By what is in the file: a service account, a user's own, or nothing but a token; without one, the machine's."""
    if file is None:
        return GoogleAccount(url, None, proxy=proxy)
    text = read_text(file)
    if not text.lstrip().startswith("{"):
        key = Key(url, "authorization", file=file, form="Bearer {}")
        key.check()
        return key
    try:
        account = json.loads(text)
    except ValueError:
        raise BadInput(f"{printable(str(file))} is not JSON.", remedy="Download the account's key again.") from None
    return GoogleAccount(url, account, proxy=proxy)


class GoogleAccount:
    """Fetches its tokens when they are needed, at most one at a time, and never shows them."""

    def __init__(self, url: str, account: Mapping[str, Any] | None, *, proxy: str | None = None) -> None:
        self.origin = origin(url)
        self._proxy = proxy
        self._made: Any = None
        self._lock = threading.Lock()
        if account is not None:
            for name in ("private_key", "client_secret", "refresh_token"):
                hide_given(str(account.get(name) or ""))
            self._made = _made(account)

    async def headers(self) -> Mapping[str, str]:
        return await asyncio.to_thread(self._headers)

    async def renewed(self, refused: Mapping[str, str]) -> bool:
        await asyncio.to_thread(self._headers, refused)
        return True

    def _headers(self, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        with self._lock:
            try:
                if self._made is None:
                    self._made = _of_this_machine()
                if not self._made.valid or (refused is not None and self._said() == refused):
                    with httpx2.Client(timeout=_TIMEOUT_S, trust_env=False, proxy=self._proxy) as client:
                        self._made.refresh(_Fetch(client))
                    hide_given(self._made.token)
            except _google_error() as error:
                raise _signal(error) from None
            return self._said()

    def _said(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self._made.token}"}


class _Answer:
    """As google-auth wants it."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.data = response.content


class _Fetch:
    """How google-auth makes its requests: by our client, without retries that nobody sees."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        **_: object,
    ) -> _Answer:
        from google.auth.exceptions import TransportError  # noqa: PLC0415 - an extra

        try:
            return _Answer(self._client.request(method, url, content=body, headers=headers))
        except httpx2.HTTPError as error:
            raise TransportError(type(error).__name__) from None  # type: ignore[no-untyped-call]


def _made(account: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of google-auth
    _extra()
    from google.oauth2 import credentials, service_account  # noqa: PLC0415 - an extra

    try:
        if account.get("type") == "service_account":
            make = service_account.Credentials.from_service_account_info
            return make(account, scopes=_SCOPES)  # type: ignore[no-untyped-call]
        if account.get("type") == "authorized_user":
            return credentials.Credentials.from_authorized_user_info(account, scopes=_SCOPES)  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise BadInput(
            f"The credentials of Google cannot be used: {_text(error)}", remedy="Download the account's key again."
        ) from None
    raise BadInput(
        "The credentials of Google are neither a service account nor a user's.",
        remedy="Download the key of a service account.",
    )


def _of_this_machine() -> Any:  # noqa: ANN401 - same
    import google.auth  # noqa: PLC0415 - an extra

    return google.auth.default(scopes=_SCOPES)[0]


def _extra() -> None:
    try:
        import google.auth  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise MissingExtra(
            "Google's accounts need google-auth, which is not installed.", remedy="pip install 'forebay[docai]'"
        ) from None


def _google_error() -> type[Exception]:
    _extra()
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - an extra

    return GoogleAuthError


def _signal(error: Exception) -> Retry:
    """A token that cannot be had for the moment is not a refusal."""
    from google.auth.exceptions import TransportError  # noqa: PLC0415 - an extra

    passing = isinstance(error, TransportError) or bool(getattr(error, "retryable", False))
    error_class = ErrorClass.SERVICE_UNAVAILABLE if passing else ErrorClass.AUTH
    return Retry(f"No token from Google: {_text(error)}", error_class=error_class)


def _text(error: Exception) -> str:
    return printable(mask_text(str(error)))[:_MAX_TEXT]
