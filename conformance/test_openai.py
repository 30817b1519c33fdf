"""OpenAI's own client, plain and for Azure, takes the simulator for the real thing."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import AzureOpenAI, OpenAI
from pydantic import BaseModel

from forebay.testing import Simulated

SAID: Any = [{"role": "user", "content": "The old river waits. The river and the basin are old friends."}]


class Article(BaseModel):
    title: str
    language: str
    tags: list[str]


@pytest.fixture
def client(sim: Simulated) -> OpenAI:
    return OpenAI(base_url=sim.addresses["openai"], api_key="key", max_retries=0)


@pytest.fixture
def azure(sim: Simulated) -> AzureOpenAI:
    return AzureOpenAI(azure_endpoint=sim.base, api_key="key", api_version="2024-10-21", max_retries=0)


def test_a_completion_with_its_usage_and_its_limits(client: OpenAI, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"windows": [{"n": 60, "per_s": 60}, {"n": 9000, "per_s": 60, "unit": "tokens"}]}})
    raw = client.chat.completions.with_raw_response.create(model="gpt-4o-mini", messages=SAID)
    found = raw.parse()
    assert found.choices[0].message.content == "The old river waits."
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    assert raw.headers["x-ratelimit-limit-requests"] == "60"
    assert raw.headers["x-ratelimit-remaining-requests"] == "59"
    assert int(raw.headers["x-ratelimit-remaining-tokens"]) < 9000
    assert raw.headers["x-ratelimit-reset-requests"].endswith("s")
    assert raw.request_id.startswith("req_")


def test_structured_output_is_parsed_by_its_schema(client: OpenAI) -> None:
    found = client.chat.completions.parse(model="gpt-4o-mini", messages=SAID, response_format=Article)
    article = found.choices[0].message.parsed
    assert article == Article(
        title="The old river waits. The river and the basin are old friends.",
        language="en",
        tags=["river", "friends", "basin", "waits"],
    )


def test_a_rate_limit_is_told_apart_from_an_empty_account(client: OpenAI, sim: Simulated) -> None:
    sim.fault("openai", "429 form=ms after=1.5", calls=[1])
    sim.fault("openai", "quota", calls=[2])
    with pytest.raises(openai.RateLimitError) as limited:
        client.chat.completions.create(model="gpt-4o-mini", messages=SAID)
    assert limited.value.code == "rate_limit_exceeded"
    assert limited.value.response.headers["retry-after-ms"] == "1500"
    with pytest.raises(openai.RateLimitError) as empty:
        client.chat.completions.create(model="gpt-4o-mini", messages=SAID)
    assert empty.value.code == "insufficient_quota"


def test_the_client_waits_as_it_is_told_and_comes_again(client: OpenAI, sim: Simulated) -> None:
    sim.fault("openai", "429 form=ms after=0.2", times=1)
    assert client.with_options(max_retries=1).chat.completions.create(model="gpt-4o-mini", messages=SAID).choices
    first, second = sim.calls("openai.chat")
    assert [first["status"], second["status"]] == [429, 200]
    assert second["arrived"] - first["ended"] >= 0.2


def test_refusal_and_length_are_outcomes(client: OpenAI, sim: Simulated) -> None:
    sim.fault("openai", "refusal", calls=[1])
    message = client.chat.completions.parse(model="gpt-4o-mini", messages=SAID, response_format=Article)
    assert message.choices[0].message.refusal
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(
            model="gpt-4o-mini", messages=SAID, response_format=Article, max_completion_tokens=3
        )


def test_credentials_are_asked_for(sim: Simulated) -> None:
    sim.fault("openai", "401", calls=[1])
    with pytest.raises(openai.AuthenticationError):
        OpenAI(base_url=sim.addresses["openai"], api_key="key", max_retries=0).chat.completions.create(
            model="gpt-4o-mini", messages=SAID
        )


def test_azure_answers_on_its_deployment(azure: AzureOpenAI, sim: Simulated) -> None:
    sim.fault("azure", "content_filter", calls=[2])
    sim.fault("azure", "429 after=4", calls=[3])
    assert azure.chat.completions.create(model="my-deployment", messages=SAID).choices[0].message.content
    with pytest.raises(openai.BadRequestError) as filtered:
        azure.chat.completions.create(model="my-deployment", messages=SAID)
    assert filtered.value.code == "content_filter"
    with pytest.raises(openai.RateLimitError) as limited:
        azure.chat.completions.create(model="my-deployment", messages=SAID)
    assert limited.value.response.headers["retry-after"] == "4"
    assert "retry after 4 seconds" in limited.value.message
