"""The chain that finds a language: whoever is first to know it answers, and the record says who that was."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import pytest

from forebay import Limit
from forebay.errors import Busy
from forebay.model.payload import Json
from forebay.processors.answers import Answers
from forebay.processors.credentials import Key
from forebay.processors.language import Chain, Detector, Found, Google, Link, Model, Text, code
from forebay.processors.llm import Llm
from forebay.processors.llm import Model as LlmModel
from forebay.processors.parser_child import Bounds
from forebay.processors.parsers import Parsers
from forebay.processors.pdf.verbs import VERBS
from forebay.processors.translate import Translate, judged
from forebay.stores.base import Ledger
from forebay.stores.memory.ledger import MemoryLedger
from tests.processors.provider import Caller, Provider, Seen, against, http
from tests.processors.test_provider_errors import of_json

GERMAN = "Das Wehr ist aus Stein gebaut, und das Wasser steht davor sehr still."
NO_LANGUAGE = "4711 0815 12.34"
FAST_S = 2.0  # a loaded machine may take a while for an answer that comes at once


def google_says(language: str | None) -> bytes:
    found = [] if language is None else [{"language": language, "confidence": 0.9, "isReliable": True}]
    return http(200, {"data": {"detections": [found]}})


def llm_says(language: str) -> bytes:
    message = {"role": "assistant", "content": json.dumps({"language": language}), "refusal": None}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return http(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})


async def _late() -> bytes:
    await asyncio.sleep(FAST_S + 0.5)
    return http(200, {})


Reaction = bytes | None | str
WAYS: dict[str, tuple[Reaction, str]] = {
    "timeout": ("late", "timeout"),
    "server error": (http(500, {"error": {"code": 500, "message": "oh"}}), "internal_error"),
    "broken connection": (None, "network_error"),
    "throttled": (http(429, {"error": {"code": 429, "message": "slow down"}}), "rate_limited"),
    "no JSON": (http(200, b"<html>"), "bad_response"),
    "key refused": (http(401, {"error": {"code": 401, "message": "who?"}}), "auth"),
}


class Here:
    """The real verb of a parser, without a child of its own."""

    async def call(
        self,
        verb: str,
        arguments: Mapping[str, Json],
        *,
        files: Sequence[int] = (),
        cpu_s: float | None = None,
        timeout_s: float | None = None,
    ) -> Json:
        return VERBS[verb](dict(arguments), list(files))


def found(
    google: Reaction,
    llm: Reaction,
    text: str = GERMAN,
    *,
    ledger: Ledger | None = None,
    limits: tuple[str, ...] = ("translate", "llm"),
    reuse: bool = True,
) -> tuple[Found, list[str]]:
    """What the chain says, and who was asked over the wire."""

    def answer(seen: Seen) -> bytes | Awaitable[bytes] | None:
        said = google if "translate" in seen.target else llm
        return _late() if isinstance(said, str) else said

    provider = Provider([answer])

    async def scenario(caller: Caller, url: str) -> Found:
        for name in limits:
            caller.limiter.define(Limit(name, in_flight=2))
        key = Key(url, "x-goog-api-key", value="canary-key")
        translate = Translate(url, transport=lambda: caller.transport, credentials=key, timeout_s=FAST_S)
        model = Llm(LlmModel(name="m", url=url), transport=lambda: caller.transport, credentials=None)
        links: list[Link] = [Google(translate), Model(lambda: model, "m", timeout_s=FAST_S), Detector(Here)]
        known = ledger or MemoryLedger()
        chain = Chain(links, Answers(lambda: known))
        with tempfile.TemporaryFile() as file:
            file.write(text.encode())
            file.flush()
            return await chain.find(caller.context(), Text(text, file, "a" * 64, reuse), "en")

    said = against(provider, scenario)
    return said, ["google" if "translate" in each.target else "llm" for each in provider.seen]


def test_google_answers_first_and_nobody_else_is_asked() -> None:
    assert found(google_says("de"), llm_says("fr")) == (Found("de", "google", []), ["google"])


@pytest.mark.parametrize("way", WAYS)
def test_what_goes_wrong_with_google_falls_through_to_the_model(way: str) -> None:
    reaction, why = WAYS[way]
    said, asked = found(reaction, llm_says("fr"))
    assert (said.language, said.by) == ("fr", "llm")
    assert [(each["by"], each["why"]) for each in said.tried] == [("google", why)]
    assert asked == ["google", "llm"]


@pytest.mark.parametrize("answer", [None, "", "und", "zxx", "not a language"])
def test_an_answer_of_googles_that_says_nothing_falls_through_to_the_model(answer: str | None) -> None:
    said, asked = found(google_says(answer), llm_says("fr"))
    assert said == Found("fr", "llm", [{"by": "google", "why": "unknown"}])
    assert asked == ["google", "llm"]


@pytest.mark.parametrize("way", WAYS)
def test_what_goes_wrong_with_the_model_falls_through_to_the_detector(way: str) -> None:
    reaction, why = WAYS[way]
    said, _ = found(google_says("und"), reaction)
    assert (said.language, said.by) == ("de", "local")
    assert [(each["by"], each["why"]) for each in said.tried] == [("google", "unknown"), ("llm", why)]


@pytest.mark.parametrize("answer", ["", "und", "English"])
def test_an_answer_of_the_models_that_says_nothing_falls_through_to_the_detector(answer: str) -> None:
    said, _ = found(google_says(None), llm_says(answer))
    assert (said.language, said.by) == ("de", "local")


def test_a_detector_that_is_not_sure_leaves_it_to_the_default() -> None:
    said, _ = found(google_says("und"), llm_says("und"), NO_LANGUAGE)
    assert (said.language, said.by) == ("en", "default")
    assert [each["by"] for each in said.tried] == ["google", "llm", "local"]


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        pytest.param("STUCK", "parser_timeout", marks=pytest.mark.slow),
        ("BROKEN", "bug"),
        ("DEAD", "parser_crashed"),
    ],
)
def test_what_goes_wrong_with_the_detector_leaves_it_to_the_default(trouble: str, why: str) -> None:
    async def scenario(caller: Caller, _: str) -> Found:
        parsers = Parsers(1, Bounds(cpu_s=FAST_S), verbs=f"tests.segment.verbs:{trouble}_LANGUAGE")
        try:
            with tempfile.TemporaryFile() as file:
                chain = Chain([Detector(lambda: parsers)], Answers(MemoryLedger))
                return await chain.find(caller.context(), Text(GERMAN, file, "a" * 64, reuse=True), "fr")
        finally:
            await parsers.aclose()

    said = against(Provider([]), scenario)
    assert (said.language, said.by) == ("fr", "default")
    assert [(each["by"], each["why"]) for each in said.tried] == [("local", why)]


def test_a_limit_that_nobody_has_defined_is_told_in_the_record() -> None:
    said, asked = found(google_says("de"), llm_says("fr"), limits=("llm",))
    assert (said.by, asked) == ("llm", ["llm"])
    assert said.tried[0]["why"] == "not_found"
    assert "translate" in str(said.tried[0]["text"])


def test_no_room_in_a_limit_is_no_answer() -> None:
    """It passes, so that the task comes back; nobody takes the detector's word only because others were busy."""

    async def scenario(caller: Caller, url: str) -> None:
        caller.limiter.define(Limit("translate", in_flight=1))
        caller.limiter.pause("translate")
        translate = Translate(
            url, transport=lambda: caller.transport, credentials=Key(url, "x", value="canary-key"), timeout_s=FAST_S
        )
        ctx = caller.context()
        slot = ctx.slot

        def impatient(limit: str | None = None, **terms: Any) -> Any:  # noqa: ANN401 - of ctx.slot
            return slot(limit, **(terms | {"timeout_s": 0.1}))

        ctx.slot = impatient  # type: ignore[method-assign]
        chain = Chain([Google(translate), Detector(Here)], Answers(MemoryLedger))
        with tempfile.TemporaryFile() as file, pytest.raises(Busy):
            await chain.find(ctx, Text(GERMAN, file, "a" * 64, reuse=True), "en")

    against(Provider([google_says("de")]), scenario)


def test_a_paid_answer_is_remembered_by_itself_even_if_it_says_nothing() -> None:
    ledger = MemoryLedger()
    assert found(google_says("und"), llm_says("de"), ledger=ledger)[1] == ["google", "llm"]
    said, asked = found(google_says("fr"), llm_says("fr"), ledger=ledger)
    assert (said.language, said.by, asked) == ("de", "llm", [])


def test_an_error_is_not_remembered() -> None:
    ledger = MemoryLedger()
    found(None, llm_says("de"), ledger=ledger)
    assert found(google_says("fr"), llm_says("de"), ledger=ledger) == (Found("fr", "google", []), ["google"])


def test_without_reuse_the_answers_of_others_are_not_looked_for() -> None:
    ledger = MemoryLedger()
    found(google_says("de"), llm_says("de"), ledger=ledger)
    assert found(google_says("fr"), llm_says("fr"), ledger=ledger, reuse=False)[1] == ["google"]


def test_only_the_beginning_of_a_long_text_is_paid_for() -> None:
    sent: list[Seen] = []

    def answer(seen: Seen) -> bytes:
        sent.append(seen)
        return google_says("de")

    async def scenario(caller: Caller, url: str) -> None:
        caller.limiter.define(Limit("translate", in_flight=1))
        key = Key(url, "x-goog-api-key", value="canary-key")
        translate = Translate(url, transport=lambda: caller.transport, credentials=key, timeout_s=5)
        with tempfile.TemporaryFile() as file:
            chain = Chain([Google(translate)], Answers(MemoryLedger))
            await chain.find(caller.context(), Text("ä" * 9000, file, "a" * 64, reuse=True), "en")
        assert [(each.unit, each.amount) for each in caller.usage] == [("calls", 1), ("characters", 2000)]

    against(Provider([answer]), scenario)
    (only,) = sent
    assert (only.target, only.headers["x-goog-api-key"]) == ("/language/translate/v2/detect", "canary-key")
    assert [len(each) for each in only.json["q"]] == [2000]


@pytest.mark.parametrize(
    ("given", "meant"),
    [("en", "en"), (" EN ", "en"), ("zh-CN", "zh-CN"), ("pt_BR", "pt-BR"), ("iw", "he"), ("und", None), ("", None),
     ("deutsch", None), ("e", None), (None, None), (7, None), ("en\x1b[2J", None), ("mul", None)],
)  # fmt: skip
def test_a_language_is_written_as_it_is_today(given: object, meant: str | None) -> None:
    assert code(given) == meant


@pytest.mark.parametrize(
    ("reason", "meant"),
    [("dailyLimitExceeded", "quota_exhausted"), ("userRateLimitExceeded", "rate_limited"), ("forbidden", "auth")],
)
def test_a_403_of_googles_may_be_a_quota(reason: str, meant: str) -> None:
    body = {"error": {"code": 403, "message": "no", "errors": [{"reason": reason, "domain": "usageLimits"}]}}
    refusal = judged(of_json(403, body))
    assert refusal is not None
    assert refusal.error_class == meant
