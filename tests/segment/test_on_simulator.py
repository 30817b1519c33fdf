"""Articles with paid answers, through the engine, judged by what the simulator of the providers saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from forebay import Limit
from forebay.errors import BadInput
from forebay.testing import Simulated, simulator
from tests.segment.ground import FAILED, TEXT, Ground

ONE = "# River\n\nThe river fills the basin, and the basin feeds the turbine below.\n"
Made = Callable[..., Ground]


@pytest.fixture(scope="module")
def running() -> Iterator[Simulated]:
    with simulator() as found:
        yield found


@pytest.fixture
def sim(running: Simulated) -> Simulated:
    running.reset()
    return running


@pytest.fixture
def made(sim: Simulated, tmp_path: Path) -> Iterator[Made]:
    """An application whose providers are the simulator."""
    opened: list[Ground] = []

    def make(*, google: str = "off", **settings: str) -> Ground:
        given = {
            "llm_url": sim.addresses["openai"],
            "llm_model": "any",
            "llm_api_key": "canary-llm-key",
            "language_google": google,
            "translate_url": sim.addresses["translate"],
            "translate_api_key": "canary-translate-key",
        }
        here = Ground(tmp_path, **(given | settings))
        for name in ("llm", "translate"):
            here.app.limit(Limit(name, in_flight=4, cooldown_s=(0.1, 0.5)))
        opened.append(here)
        return here

    yield make
    for each in opened:
        each.app.close()


@pytest.mark.slow
def test_google_finds_languages_and_the_model_tags_and_each_is_asked_once_for_each_article(
    made: Made, sim: Simulated
) -> None:
    here = made(google="on")
    found = here.articles(here.run(TEXT))
    assert [(each["lang"], each["lang_by"], each["tags_by"]) for each in found] == [
        ("en", "google", "llm"), ("de", "google", "llm"), ("en", "google", "llm")
    ]  # fmt: skip
    assert found[0]["tags"][0] == "basin"
    assert (len(sim.calls("translate.detect")), len(sim.calls("openai.chat"))) == (3, 3)
    used = {(row.meter, row.unit): row.amount for row in here.app.ledger.used(tenant=None, since=0.0)}
    assert (used["translate", "calls"], used["llm", "calls"]) == (3, 3)
    # The same text in another job costs nothing.
    assert here.articles(here.run(TEXT, options={"max_size": 4000})) == found
    assert (len(sim.calls("translate.detect")), len(sim.calls("openai.chat"))) == (3, 3)


@pytest.mark.slow
def test_without_google_the_model_finds_the_language_too(made: Made, sim: Simulated) -> None:
    here = made()
    assert [each["lang_by"] for each in here.articles(here.run(TEXT))] == ["llm"] * 3
    assert (len(sim.calls("translate.detect")), len(sim.calls("openai.chat"))) == (0, 6)


@pytest.mark.slow
def test_a_language_that_was_paid_for_is_not_bought_again_when_tagging_fails(made: Made, sim: Simulated) -> None:
    here = made(google="on")
    sim.fault("openai.chat", "500", times=1)
    (only,) = here.articles(here.run(ONE))
    assert (only["lang_by"], only["tags_by"]) == ("google", "llm")
    assert (len(sim.calls("translate.detect")), len(sim.calls("openai.chat"))) == (1, 2)


@pytest.mark.slow
def test_an_answer_that_is_not_remembered_is_bought_again_and_seen(
    made: Made, sim: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control of the test above."""

    async def forgetful(
        _: object, __: object, document: str, question: object, ask: Callable[[], Awaitable[str]], *, reuse: bool
    ) -> str:
        return await ask()

    monkeypatch.setattr("forebay.processors.answers.Answers.given", forgetful)
    here = made(google="on")
    sim.fault("openai.chat", "500", times=1)
    here.articles(here.run(ONE))
    assert len(sim.calls("translate.detect")) == 2


@pytest.mark.slow
def test_nor_is_the_models_own_word_for_the_language(made: Made, sim: Simulated) -> None:
    here = made()
    sim.fault("openai.chat", "500", calls=[2])
    (only,) = here.articles(here.run(ONE, reuse=False))
    assert (only["lang_by"], only["tags_by"]) == ("llm", "llm")
    assert len(sim.calls("openai.chat")) == 3


@pytest.mark.slow
def test_a_provider_that_is_slow_or_down_is_passed_over_and_the_record_says_so(made: Made, sim: Simulated) -> None:
    here = made(google="on", language_google_timeout_s="0.3")
    sim.fault("translate.detect", "hang s=5", times=1)
    (only,) = here.articles(here.run(ONE))
    assert (only["lang"], only["lang_by"]) == ("en", "llm")
    assert [(each["by"], each["why"]) for each in only["lang_tried"]] == [("google", "timeout")]


def test_a_model_that_refuses_leaves_an_article_its_own_words(made: Made, sim: Simulated) -> None:
    here = made()
    sim.fault("openai.chat", "refusal")
    (only,) = here.articles(here.run(ONE))
    assert (only["lang_by"], only["tags_by"]) == ("local", "keywords")
    assert [(each["by"], each["why"]) for each in only["lang_tried"]] == [("llm", "refused")]


@pytest.mark.parametrize("backend", ["openai", "azure"])
def test_an_article_that_a_provider_filters_keeps_its_own_words_and_the_others_are_tagged(
    made: Made, sim: Simulated, backend: str
) -> None:
    here = made(google="on", llm_backend=backend, llm_url=sim.addresses[backend])
    sim.fault(f"{backend}.chat", "content_filter", times=1)
    found = here.articles(here.run(TEXT))
    assert sorted(each["tags_by"] for each in found) == ["keywords", "llm", "llm"]


def test_as_many_tags_are_bought_as_are_asked_for(made: Made) -> None:
    here = made()
    (only,) = here.articles(here.run(ONE, options={"max_tags": 2}))
    assert (len(only["tags"]), only["tags_by"]) == (2, "llm")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["openai", "azure"])
def test_a_schema_that_is_sent_with_its_bounds_as_keywords_is_refused_and_the_job_fails(
    made: Made, sim: Simulated, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """Negative control of all the others."""
    monkeypatch.setattr("forebay.processors.llm.sendable", dict)
    job = made(llm_backend=backend, llm_url=sim.addresses[backend]).run(ONE)
    assert job.status is FAILED
    assert "'maxItems' is not permitted" in str(job.error_text)
    assert {call["status"] for call in sim.calls(f"{backend}.chat")} == {400}


def test_who_wants_no_model_names_the_other_processor(made: Made, sim: Simulated) -> None:
    here = made()
    assert {each["tags_by"] for each in here.articles(here.run(TEXT, processor="keywords"))} == {"keywords"}
    assert sim.calls("openai.chat") == []


def test_no_key_of_a_provider_is_stored_or_shown(made: Made, sim: Simulated) -> None:
    here = made(google="on")
    sim.fault("translate.detect", "401")
    sim.fault("openai.chat", "500", times=1)
    (only,) = here.articles(here.run(ONE))
    assert only["lang_tried"][0]["why"] == "auth"
    here.app.close()
    everything = b"".join(path.read_bytes() for path in here.folder.rglob("*") if path.is_file())
    assert b"canary-llm-key" not in everything
    assert b"canary-translate-key" not in everything
    assert "canary" not in repr(here.app.settings)


def test_google_without_a_key_at_an_address_of_ones_own_is_refused_at_once(tmp_path: Path) -> None:
    with (
        Ground(tmp_path, language_google="on", translate_url="http://127.0.0.1:9") as here,
        pytest.raises(BadInput, match="no credentials"),
    ):
        here.submit(ONE)
