from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.observe import redact
from forebay.observe.redact import hide, mask, mask_address, mask_text, smells


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words for it")


@pytest.fixture(autouse=True)
def _nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_hidden", ())


@pytest.mark.parametrize(
    "key",
    [
        *(
            "password",
            "db_password",
            "PGPASSWORD",
            "passwd",
            "sslpassword",
            "pwd",
            "passphrase",
            "token",
            "accessToken",
        ),
        *("secret", "client-secret", "api_key", "apikey", "X-Amz-Signature", "AWSAccessKeyId", "sig", "credentials"),
        *("Authorization", "cookie", "X-Api-Key", "SharedAccessSignature"),
    ],
)
def test_keys_that_smell_of_secrets(key: str) -> None:
    assert smells(key)


@pytest.mark.parametrize(
    "key", ["max_tokens", "kind", "task_id", "author", "keyboard", "session_id", "design", "", "é"]
)
def test_keys_that_do_not(key: str) -> None:
    assert not smells(key)


def test_the_lease_token_is_no_secret_but_a_text_under_its_name_is() -> None:
    assert mask({"token": 3}) == {"token": 3}
    assert mask({"token": "3"}) == {"token": "***"}
    assert mask({"password": 3}) == {"password": "***"}


def test_values_become_plain_and_masked_at_any_depth() -> None:
    value = {
        "a": [1, {"password": "x"}, ("http://u:p@h",)],
        5: Path("/x"),
        "n": float("nan"),
        "e": ValueError("http://u:p@h"),
        "o": Unspeakable(),
        "b": True,
        "z": None,
    }
    assert mask(value) == {
        "a": [1, {"password": "***"}, ["http://***@h"]],
        "5": "/x",
        "n": "nan",
        "e": "http://***@h",
        "o": "<Unspeakable>",
        "b": True,
        "z": None,
    }


def test_a_value_that_holds_itself_comes_to_an_end() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert "[...]" in str(mask(loop))


def test_urls_inside_of_text_lose_their_userinfo() -> None:
    text = "from http://u:p@a/x to redis://:p/w@b:1/0, see https://c/d"
    assert mask_text(text) == "from http://***@a/x to redis://***@b:1/0, see https://c/d"
    assert mask_text("ada@example.org wrote") == "ada@example.org wrote"


def test_pairs_inside_of_text_lose_secret_values() -> None:
    assert mask_text("host=h password=x y") == "host=h password=*** y"
    assert mask_text("/a?b=1&token=x&c=2#access_token=y") == "/a?b=1&token=***&c=2#access_token=***"


def test_an_address_is_masked_even_with_blanks_in_its_password() -> None:
    assert mask_address("redis://u:a b@h/0") == "redis://***@h/0"


def test_hidden_values_vanish_in_every_form() -> None:
    hide('a"b\n/ü')
    hide("")
    for form in ('a"b\n/ü', "a%22b%0A%2F%C3%BC", repr('a"b\n/ü'), '"a\\"b\\n/\\u00fc"'):
        assert "***" in mask_text(f"x {form} y")
    assert mask_text("x") == "x"


def test_of_two_hidden_values_the_longer_goes_first() -> None:
    hide("abc")
    hide("abcdef")
    assert mask_text("abcdef abc") == "*** ***"


@given(st.text(), st.text("abc:/@?=&", max_size=40))
def test_masking_twice_is_masking_once(text: str, url: str) -> None:
    for each in (text, f"s3://{url}"):
        once = mask_text(each)
        assert mask_text(once) == once


@pytest.mark.parametrize("text", ["://" * 50_000 + " @", "a=" * 50_000, "=" * 100_000, "@" * 100_000 + "://"])
def test_long_texts_take_no_longer_than_their_length(text: str) -> None:
    began = time.process_time()
    mask_text(text)
    assert time.process_time() - began < 2


def test_what_is_hidden_is_masked_and_nothing_else_is() -> None:
    redact.hide("canary-mask-1")
    assert redact.mask_hidden("token=x canary-mask-1 a://b:c@d") == "token=x *** a://b:c@d"


def test_a_secret_that_is_part_of_ordinary_words_is_not_hidden() -> None:
    redact.hide_given("any")
    redact.hide_given("canary-mask-2")
    assert redact.mask_hidden("a company of canary-mask-2") == "a company of ***"
