from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from forebay import Limit, Permanent, Retry, Window
from forebay.errors import BadInput
from forebay.processors.credentials import Key
from forebay.processors.llm import Llm, Model, NoAnswer, estimate
from tests.processors.ground import till
from tests.processors.provider import Caller, Provider, against, http

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["tags"],
    "additionalProperties": False,
}
LIMIT = Limit("llm", in_flight=5, windows=[Window(10_000, per_s=60, unit="tokens"), Window(60, per_s=60)])


def completion(content: object = '{"tags": ["a"]}', *, ended: str = "stop", refusal: str | None = None) -> bytes:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    usage = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
    return http(200, {"choices": [{"index": 0, "message": message, "finish_reason": ended}], "usage": usage})


def asked(
    provider: Provider,
    *,
    backend: Literal["openai", "azure"] = "openai",
    limit: Limit = LIMIT,
    schema: dict[str, Any] = SCHEMA,
) -> tuple[dict[str, Any], int]:
    """The answer, and the tokens that are booked on the limit."""

    async def scenario(caller: Caller, url: str) -> tuple[dict[str, Any], int]:
        header = "api-key" if backend == "azure" else "authorization"
        model = Model(name="gpt/x", url=f"{url}/v1", backend=backend, api_version="2024-10-21")
        key = Key(url, header, value="canary-llm")
        llm = Llm(model, transport=lambda: caller.transport, credentials=key, max_tokens=500)
        answer = await llm.ask(caller.context(), "You tag.", "A text about cats.", schema)
        booked = [each.amount for each in caller.usage if each.unit == "tokens"]
        assert booked == [42]
        used = {each.unit: each.used for each in caller.limiter.usage("llm").windows}
        if "tokens" in used:
            assert used["tokens"] >= 530  # what was held for the longest answer may be given back already
            await till(lambda: caller.limiter.usage("llm").windows[0].used == 530)
            return answer, 530
        return answer, 0

    return against(provider, scenario, limit=limit)


def test_a_question_has_an_answer_of_the_schemas_form_and_takes_the_tokens_that_a_provider_counts() -> None:
    provider = Provider([completion()])
    assert asked(provider) == ({"tags": ["a"]}, 530)
    (seen,) = provider.seen
    assert seen.target == "/v1/chat/completions"
    assert seen.json["model"] == "gpt/x"
    assert [each["content"] for each in seen.json["messages"]] == ["You tag.", "A text about cats."]
    assert seen.json["response_format"]["json_schema"] == {"name": "answer", "strict": True, "schema": SCHEMA}
    assert seen.json["max_tokens"] == 500


def test_bounds_are_sent_in_words_since_strict_output_refuses_their_keywords_and_are_checked_here() -> None:
    tags = {"type": "array", "maxItems": 1, "items": {"type": "string", "minLength": 1, "maxLength": 3}}
    either = {"anyOf": [{"type": "integer", "minimum": 0, "description": "How sure"}, {"type": "null"}]}
    schema = SCHEMA | {"properties": {"tags": tags, "maxItems": either}}
    provider = Provider([completion('{"tags": ["abc"], "maxItems": 0}')])
    assert asked(provider, schema=schema)[0] == {"tags": ["abc"], "maxItems": 0}
    assert provider.seen[0].json["response_format"]["json_schema"]["schema"] == SCHEMA | {
        "properties": {
            "tags": {
                "type": "array",
                "description": "(at most 1 items)",
                "items": {"type": "string", "description": "(at least 1 characters, at most 3 characters)"},
            },
            "maxItems": {"anyOf": [{"type": "integer", "description": "How sure (at least 0)"}, {"type": "null"}]},
        }
    }
    for beyond in ('{"tags": ["a", "b"]}', '{"tags": ["abcd"]}', '{"tags": [], "maxItems": -1}'):
        with pytest.raises(Retry) as caught:
            asked(Provider([completion(beyond)]), schema=schema)
        assert caught.value.error_class == "bad_response"


def test_azure_has_another_address_and_another_header() -> None:
    provider = Provider([completion()])
    asked(provider, backend="azure")
    (seen,) = provider.seen
    assert seen.target == "/v1/openai/deployments/gpt%2Fx/chat/completions?api-version=2024-10-21"
    assert seen.headers["api-key"] == "canary-llm"
    assert "authorization" not in seen.headers


def test_a_limit_that_counts_no_tokens_is_taken_as_it_is() -> None:
    answer, tokens = asked(Provider([completion()]), limit=Limit("llm", in_flight=2))
    assert (answer, tokens) == ({"tags": ["a"]}, 0)


@pytest.mark.parametrize(
    ("answer", "why", "error_class"),
    [
        (completion(None, refusal="I cannot help with that."), "refusal", "refused"),
        (completion('{"tags": ["a', ended="length"), "length", "replan"),
        (completion("", ended="content_filter"), "content_filter", "refused"),
        (http(400, {"error": {"code": "content_filter", "message": "policy"}}), "content_filter", "refused"),
    ],
)
def test_an_answer_that_the_model_withholds_is_an_outcome_of_its_own(answer: bytes, why: str, error_class: str) -> None:
    with pytest.raises(NoAnswer) as caught:
        asked(Provider([answer]))
    assert (caught.value.why, caught.value.error_class) == (why, error_class)


@pytest.mark.parametrize(
    "answer",
    [
        completion("no JSON"),
        completion('["a"]'),
        completion('{"tags": "a"}'),
        completion('{"tags": [], "more": 1}'),
        completion(None),
        completion("[" * 100_000),
        http(200, {"choices": []}),
        http(200, {}),
        http(200, b"<html>"),
        http(200, {"padding": "x" * 5_000_000}),
    ],
)
def test_an_answer_of_another_form_is_a_bad_response(answer: bytes) -> None:
    with pytest.raises(Retry) as caught:
        asked(Provider([answer]))
    assert caught.value.error_class == "bad_response"


def test_a_question_that_is_refused_for_its_form_is_not_taken_for_one_that_the_model_leaves_unanswered() -> None:
    body = {"error": {"code": None, "type": "invalid_request_error", "message": "a content_filter of another kind"}}
    with pytest.raises(Permanent) as caught:
        asked(Provider([http(400, body)]))
    assert not isinstance(caught.value, NoAnswer)
    assert caught.value.error_class == "refused"


def test_a_quota_that_is_used_up_is_no_throttling() -> None:
    body = {
        "error": {
            "message": "You exceeded your current quota",
            "type": "insufficient_quota",
            "code": "insufficient_quota",
        }
    }
    with pytest.raises(Retry) as caught:
        asked(Provider([http(429, body)]))
    assert caught.value.error_class == "quota_exhausted"


def test_a_schema_that_cannot_be_checked_is_refused_before_anything_is_sent() -> None:
    provider = Provider([completion()])
    with pytest.raises(BadInput):
        asked(provider, schema={"type": "object", "patternProperties": {}})
    assert provider.seen == []


@pytest.mark.parametrize(
    "text", ["The quick brown fox jumps over the lazy dog. ", "猫についての文章です。", "Ein Häuschen im Grünen. "]
)
def test_an_estimate_is_on_the_safe_side(text: str) -> None:
    least = {"T": 10, "猫": 9, "E": 8}[text[0]]  # what a tokenizer of these models makes of it
    assert estimate(text * 10) >= least * 10


def test_openais_own_models_get_the_bound_by_its_new_name() -> None:
    assert Model(name="m").bound == "max_completion_tokens"
    assert json.dumps(Model(name="m").address) == '"https://api.openai.com/v1/chat/completions"'
