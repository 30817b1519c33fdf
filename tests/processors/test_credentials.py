from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from forebay import Retry
from forebay.errors import BadInput
from forebay.observe.redact import mask_text
from forebay.processors.credentials import Key
from forebay.processors.google_auth import GoogleAccount, google
from tests.processors.provider import Provider, http

URL = "https://api.example/v1"


def test_a_key_is_put_into_its_header_and_hidden() -> None:
    key = Key(URL, "authorization", value="canary-key-1", form="Bearer {}")
    assert asyncio.run(key.headers()) == {"authorization": "Bearer canary-key-1"}
    assert key.origin == "https://api.example:443"
    assert "canary-key-1" not in mask_text("it said canary-key-1")


def test_a_key_that_is_refused_is_read_from_its_file_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("canary-old\n")
    key = Key(URL, "api-key", file=file)

    async def scenario() -> list[object]:
        before = await key.headers()
        same = await key.renewed(before)
        file.write_text("canary-new\n")
        return [before, same, await key.renewed(before), await key.headers()]

    assert asyncio.run(scenario()) == [{"api-key": "canary-old"}, False, True, {"api-key": "canary-new"}]
    assert "canary-new" not in mask_text("canary-new")


def test_a_file_that_is_gone_is_bad_input_before_the_work_and_a_matter_of_credentials_in_it(tmp_path: Path) -> None:
    key = Key(URL, "api-key", file=tmp_path / "none")
    with pytest.raises(BadInput, match="cannot be read"):
        key.check()
    with pytest.raises(Retry) as caught:
        asyncio.run(key.headers())
    assert caught.value.error_class == "auth"


@pytest.mark.parametrize("value", ["", "two words", "line\nbreak", "nül"])
def test_what_cannot_be_a_header_is_no_key_and_is_not_shown(value: str) -> None:
    with pytest.raises(BadInput) as caught:
        Key(URL, "api-key", value=value)
    assert not value or value not in str(caught.value)


def test_a_key_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        Key(URL, "api-key")
    with pytest.raises(BadInput):
        Key(URL, "api-key", value="a", file=tmp_path)


def account(url: str) -> dict[str, str]:
    """The key of a service account whose tokens come from the test's own server."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return {
        "type": "service_account",
        "client_email": "robot@project.iam.example",
        "private_key_id": "1",
        "private_key": pem,
        "token_uri": f"{url}/token",
    }


def token(number: int) -> bytes:
    return http(200, {"access_token": f"ya29.canary-{number}", "expires_in": 3600, "token_type": "Bearer"})


def serving(provider: Provider, scenario: Any) -> Any:  # noqa: ANN401 - whatever it answers
    async def main() -> object:
        async with provider, asyncio.timeout(20):
            return await scenario(provider.url)

    return asyncio.run(main())


def test_a_service_account_gets_one_token_for_all_and_another_when_that_is_refused(tmp_path: Path) -> None:
    provider = Provider([token(1), token(2), token(3)])

    async def scenario(url: str) -> list[object]:
        file = tmp_path / "account.json"
        file.write_text(json.dumps(account(url)))
        credentials = google("https://documentai.example", file)
        first = await asyncio.gather(*(credentials.headers() for _ in range(5)))
        assert all(each == first[0] for each in first)
        renewed = await asyncio.gather(*(credentials.renewed(first[0]) for _ in range(5)))
        return [first[0], renewed, await credentials.headers()]

    first, renewed, second = serving(provider, scenario)
    assert (first, second) == ({"authorization": "Bearer ya29.canary-1"}, {"authorization": "Bearer ya29.canary-2"})
    assert renewed == [True] * 5
    assert [seen.target for seen in provider.seen] == ["/token"] * 2
    assert parse_qs(provider.seen[0].body.decode())["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert "ya29.canary-2" not in mask_text("ya29.canary-2")


@pytest.mark.parametrize(
    ("answer", "error_class"),
    [
        (http(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}), "auth"),
        (None, "service_unavailable"),
    ],
)
def test_a_token_that_cannot_be_had_is_refused_or_late(answer: bytes | None, error_class: str) -> None:
    async def scenario(url: str) -> str:
        credentials = GoogleAccount("https://documentai.example", account(url))
        with pytest.raises(Retry) as caught:
            await credentials.headers()
        return caught.value.error_class

    assert serving(Provider([answer]), scenario) == error_class


def test_a_file_with_nothing_but_a_token_is_that_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("ya29.canary-plain\n")
    headers = asyncio.run(google("https://documentai.example", file).headers())
    assert headers == {"authorization": "Bearer ya29.canary-plain"}


@pytest.mark.parametrize("text", ["{", '{"type": "external_account"}', '{"type": "service_account"}'])
def test_a_file_that_is_no_account_is_refused_before_the_work(tmp_path: Path, text: str) -> None:
    file = tmp_path / "account.json"
    file.write_text(text)
    with pytest.raises(BadInput):
        google("https://documentai.example", file)
