from __future__ import annotations

import json
from typing import Any

import pytest

from forebay.simulate.openai import duration
from forebay.testing import Simulated
from tests.simulate.ground import CHAT, Clients, chat


def shaped(schema: dict[str, Any], *, strict: bool = False) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "shape", "strict": strict, "schema": schema}}


def answered(clients: Clients, shape: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        clients.chat(chat(response_format=shape)).json()["choices"][0]["message"]["content"]
    )
    return found


@pytest.mark.slow
def test_an_answer_has_the_shape_of_its_schema_and_the_words_of_its_question(clients: Clients) -> None:
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "lang": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "kind": {"enum": ["news", "river"]},
            "words": {"type": "integer", "maximum": 5},
            "inner": {"$ref": "#/$defs/inner"},
            "maybe": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        },
        "$defs": {"inner": {"type": "object", "properties": {"score": {"type": "number", "maximum": 1}}}},
    }
    assert answered(clients, shaped(schema)) == {
        "title": "The old river waits. The river and the basin are old friends.",
        "lang": "en",
        "tags": ["river", "friends"],
        "kind": "river",
        "words": 5,
        "inner": {"score": 1.0},
        "maybe": True,
    }


def test_bounds_that_a_strict_schema_has_in_words_are_kept(clients: Clients) -> None:
    words = {"type": "array", "items": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {
            "few": words | {"description": "Tags (at most 2 items)"},
            "many": words | {"description": "(at least 7 items, at most 8 items)"},
            "title": {"type": "string", "description": "(at most 7 characters)"},
            "words": {"type": "integer", "description": "(at most 5)"},
        },
    }
    found = answered(clients, shaped(schema, strict=True))
    assert (found["few"], len(found["many"]), found["title"], found["words"]) == (
        ["river", "friends"], 7, "The old", 5
    )  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "context", "keyword"),
    [
        ({"type": "string", "maxLength": 9}, "('properties', 'x')", "maxLength"),
        (
            {"type": "array", "items": {"anyOf": [{"type": "integer", "minimum": 1}]}},
            "('properties', 'x', 'items', 'anyOf', '0')",
            "minimum",
        ),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 2}, "('properties', 'x')", "maxItems"),
    ],
)
def test_strict_output_refuses_the_keywords_that_it_does_not_know(
    clients: Clients, sim: Simulated, inner: dict[str, Any], context: str, keyword: str
) -> None:
    schema = {"type": "object", "properties": {"x": inner}, "required": ["x"], "additionalProperties": False}
    for send in (clients.chat, clients.azure):
        refused = send(chat(response_format=shaped(schema, strict=True)))
        error = refused.json()["error"]
        assert (refused.status_code, error["type"], error["param"]) == (400, "invalid_request_error", "response_format")
        assert error["message"] == (
            f"Invalid schema for response_format 'shape': In context={context}, '{keyword}' is not permitted."
        )
        assert send(chat(response_format=shaped(schema))).status_code == 200


def test_a_property_may_be_called_as_a_keyword_is(clients: Clients) -> None:
    schema = {"type": "object", "properties": {"format": {"type": "string"}}}
    assert answered(clients, shaped(schema, strict=True)) == {"format": "The old river waits."}


def test_the_same_question_has_the_same_answer(clients: Clients) -> None:
    assert clients.chat().content == clients.chat().content
    assert clients.chat().json()["choices"][0]["message"]["content"] == "The old river waits."
    assert answered(clients, {"type": "json_object"})["language"] == "en"


def test_usage_adds_up_and_tokens_are_reserved_at_their_ceiling(clients: Clients, sim: Simulated) -> None:
    usage = clients.chat(chat(max_completion_tokens=500)).json()["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    (call,) = sim.calls()
    assert call["units"] == {"tokens": usage["prompt_tokens"] + 500}
    assert call["used"] == {name: usage[name] for name in ("prompt_tokens", "completion_tokens")}


def test_an_answer_that_is_too_long_is_cut(clients: Clients) -> None:
    choice = clients.chat(chat(max_tokens=2)).json()["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "The old ")


def test_headers_tell_what_is_left(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"windows": [{"n": 3, "per_s": 60}, {"n": 1000, "per_s": 60, "unit": "tokens"}]}})
    answers = [clients.chat() for _ in range(4)]
    answer = answers[-1]
    left = [(each.status_code, each.headers["x-ratelimit-remaining-requests"]) for each in answers]
    assert left == [(200, "2"), (200, "1"), (200, "0"), (429, "0")]
    assert answer.headers["x-ratelimit-limit-tokens"] == "1000"
    assert answer.headers["x-ratelimit-reset-requests"].endswith("s")
    assert 40 <= int(answer.headers["retry-after"]) <= 60
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert answer.json()["error"]["type"] == "requests"


def test_tokens_run_out_before_calls(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"windows": [{"n": 100, "per_s": 60, "unit": "tokens"}]}})
    assert clients.chat(chat(max_tokens=60)).status_code == 200
    answer = clients.chat(chat(max_tokens=60))
    assert (answer.status_code, answer.json()["error"]["type"]) == (429, "tokens")


@pytest.mark.parametrize(
    ("fault", "finish", "refusal"),
    [("refusal", "stop", True), ("length", "length", False), ("content_filter", "content_filter", False)],
)
def test_outcomes_that_are_no_errors(clients: Clients, fault: str, finish: str, refusal: bool) -> None:  # noqa: FBT001
    choice = clients.chat(fault=fault).json()["choices"][0]
    assert choice["finish_reason"] == finish
    assert bool(choice["message"]["refusal"]) is refusal


def test_an_empty_account_is_no_rate_limit(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"month": {"n": 1}}})
    assert clients.chat().status_code == 200
    answer = clients.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "insufficient_quota")
    assert "retry-after" not in answer.headers


def test_azure_has_words_of_its_own(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"azure": {"windows": [{"n": 2, "per_s": 60}]}})
    answer = clients.azure()
    assert answer.json()["choices"][0]["content_filter_results"]["hate"] == {"filtered": False, "severity": "safe"}
    assert "x-ratelimit-limit-requests" not in answer.headers
    assert answer.headers["x-ratelimit-remaining-requests"] == "1"
    filtered = clients.azure(fault="content_filter")
    assert (filtered.status_code, filtered.json()["error"]["code"]) == (400, "content_filter")
    over = clients.azure()
    assert over.json()["error"]["code"] == "429"
    assert f"retry after {over.headers['retry-after']} seconds" in over.json()["error"]["message"]
    bare = clients.http.post("/openai/deployments/mine/chat/completions", json=chat(), headers={"api-key": "k"})
    assert bare.status_code == 404


def test_bad_requests_are_refused(clients: Clients) -> None:
    assert clients.http.post(CHAT, json=chat()).json()["error"]["code"] == "invalid_api_key"
    assert clients.chat({"messages": []}).status_code == 400
    assert clients.chat(chat(stream=True)).json()["error"]["param"] == "stream"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.02, "20ms"), (1, "1s"), (360, "6m0s"), (179.56, "2m59.56s"), (3661, "1h1m1s"), (0, "0ms")]
)
def test_durations_are_written_as_the_headers_have_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
