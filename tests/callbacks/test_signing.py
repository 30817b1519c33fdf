"""What we sign, the official package verifies."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from forebay.callbacks import signing

KEY = b"the operator's own key, long and random"
ENDPOINT = "a" * 26
BODY = '{"type":"job.completed","data":{"label":"Größe"}}'.encode()


def _headers(*generations: int, now: float | None = None) -> dict[str, str]:
    secrets = [signing.secret_of(KEY, ENDPOINT, each) for each in generations]
    return signing.headers(secrets, "msg7", BODY, now=datetime.now(UTC).timestamp() if now is None else now)


def test_the_official_package_verifies_a_signature() -> None:
    webhook = Webhook(signing.secret_of(KEY, ENDPOINT, 1))
    assert webhook.verify(BODY, _headers(1)) == {"type": "job.completed", "data": {"label": "Größe"}}


def test_a_signature_is_the_one_that_the_official_package_makes() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    made = Webhook(signing.secret_of(KEY, ENDPOINT, 1)).sign("msg7", at, BODY.decode())
    assert _headers(1, now=at.timestamp())["webhook-signature"] == made


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_whatever_is_changed_is_found_out(name: str) -> None:
    headers = _headers(1)
    last = headers[name][-1]
    headers[name] = headers[name][:-1] + ("1" if last != "1" else "2")
    if name == "webhook-signature":
        headers[name] = "v1," + base64.b64encode(b"x" * 32).decode()
    with pytest.raises(WebhookVerificationError):
        Webhook(signing.secret_of(KEY, ENDPOINT, 1)).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(signing.secret_of(KEY, ENDPOINT, 1)).verify(BODY + b" ", _headers(1))


def test_while_secrets_change_both_of_them_verify() -> None:
    headers = _headers(*signing.in_force(3, 1000.0, 1000.0 + signing.OVERLAP_S - 1))
    assert headers["webhook-signature"].count("v1,") == 2
    for generation in (2, 3):
        Webhook(signing.secret_of(KEY, ENDPOINT, generation)).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(signing.secret_of(KEY, ENDPOINT, 1)).verify(BODY, headers)


def test_the_old_secret_signs_for_a_day_and_the_first_has_none_before_it() -> None:
    assert signing.in_force(1, None, 5.0) == (1,)
    assert signing.in_force(2, 1000.0, 1000.0) == (2, 1)
    assert signing.in_force(2, 1000.0, 1000.0 + signing.OVERLAP_S) == (2,)


def test_secrets_differ_by_key_endpoint_and_generation_and_are_of_the_right_form() -> None:
    made = {
        signing.secret_of(key, endpoint, generation)
        for key in (KEY, b"another key of an operator")
        for endpoint in (ENDPOINT, "b" * 26)
        for generation in (1, 2, 12)
    }
    assert len(made) == 12
    for secret in made:
        assert secret.startswith("whsec_")
        assert 24 <= len(base64.b64decode(secret.removeprefix("whsec_"))) <= 64
