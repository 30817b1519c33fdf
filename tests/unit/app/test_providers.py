from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from forebay.app.providers import language_model, processors
from forebay.errors import BadInput
from forebay.settings import load

DOCAI = {"FOREBAY_DOCAI_PROJECT": "p", "FOREBAY_DOCAI_PROCESSOR": "abc"}
LLM = {"FOREBAY_LLM_MODEL": "m"}


def never() -> Any:  # noqa: ANN401 - it does not return
    raise AssertionError


def made(folder: Path, **environ: str) -> list[Any]:
    settings = load(environ={"HOME": str(folder), **environ}, cwd=folder)
    return list(processors(settings, transport=never, parser=never))


def model(folder: Path, **environ: str) -> Any:  # noqa: ANN401 - its inside is looked at
    settings = load(environ={"HOME": str(folder), **environ}, cwd=folder)
    return language_model(settings, transport=never)


def headers(credentials: Any) -> dict[str, str]:  # noqa: ANN401 - same
    return dict(asyncio.run(credentials.headers()))


def test_a_processor_that_is_not_set_up_is_not_there(tmp_path: Path) -> None:
    assert made(tmp_path) == []
    assert made(tmp_path, FOREBAY_DOCAI_PROJECT="p") == []


def test_document_ai_is_where_its_location_is(tmp_path: Path) -> None:
    (docai,) = made(tmp_path, **DOCAI, FOREBAY_DOCAI_LOCATION="eu", FOREBAY_DOCAI_TOKEN="t")
    assert docai._address.startswith("https://eu-documentai.googleapis.com/v1/projects/p/locations/eu/")
    assert docai._credentials.origin == "https://eu-documentai.googleapis.com:443"
    assert headers(docai._credentials) == {"authorization": "Bearer t"}


def test_document_ai_takes_an_api_key(tmp_path: Path) -> None:
    (docai,) = made(tmp_path, **DOCAI, FOREBAY_DOCAI_API_KEY="k")
    assert headers(docai._credentials) == {"x-goog-api-key": "k"}


def test_credentials_of_two_sorts_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="more than one sort"):
        made(tmp_path, **DOCAI, FOREBAY_DOCAI_API_KEY="k", FOREBAY_DOCAI_TOKEN="t")


def test_the_identity_of_the_machine_is_for_google_only(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no credentials for it"):
        made(tmp_path, **DOCAI, FOREBAY_DOCAI_URL="http://127.0.0.1:8421")
    assert len(made(tmp_path, **DOCAI)) == 1


def test_a_language_model_has_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No language model"):
        model(tmp_path)
    with pytest.raises(BadInput, match="No language model"):
        model(tmp_path, **LLM, FOREBAY_LLM_BACKEND="azure", FOREBAY_LLM_API_KEY="k")


def test_the_usual_variable_is_for_openai_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-usual")
    assert headers(model(tmp_path, **LLM)._credentials) == {"authorization": "Bearer canary-usual"}
    assert model(tmp_path, **LLM, FOREBAY_LLM_URL="http://127.0.0.1:8000/v1")._credentials is None
    with pytest.raises(BadInput, match="no key"):
        model(tmp_path, **LLM, FOREBAY_LLM_BACKEND="azure", FOREBAY_LLM_URL="https://x.openai.azure.example")


def test_a_key_of_a_language_model_may_be_in_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("canary-file\n")
    assert headers(model(tmp_path, **LLM, FOREBAY_LLM_API_KEY_FILE="key")._credentials) == {
        "authorization": "Bearer canary-file"
    }
    with pytest.raises(BadInput, match="cannot be read"):
        model(tmp_path, **LLM, FOREBAY_LLM_API_KEY_FILE="none-such")
    with pytest.raises(BadInput, match="both set"):
        model(tmp_path, **LLM, FOREBAY_LLM_API_KEY_FILE="key", FOREBAY_LLM_API_KEY="k")
