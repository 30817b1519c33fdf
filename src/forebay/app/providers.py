"""Which paid processors are set up, from the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from forebay.errors import BadInput

if TYPE_CHECKING:
    from forebay.processors.adobe_token import Client as AdobeClient
    from forebay.processors.base import Parser, Processor
    from forebay.processors.credentials import Credentials
    from forebay.processors.llm import Llm
    from forebay.processors.transport import Transport
    from forebay.settings import Settings

ABSENT: Final[Mapping[str, str]] = {
    "docai": "Set FOREBAY_DOCAI_PROJECT and FOREBAY_DOCAI_PROCESSOR; docs/how-to/use-document-ai.md has the rest.",
    "adobe": "Set FOREBAY_ADOBE_CLIENT_ID and FOREBAY_ADOBE_CLIENT_SECRET; docs/how-to/tag-pdfs.md has the rest.",
    "llm": "Set FOREBAY_LLM_MODEL; docs/how-to/use-an-llm.md has the rest.",
}


def processors(
    settings: Settings, *, transport: Callable[[], Transport], parser: Callable[[], Parser]
) -> Iterator[Processor]:
    """Without I/O but for the files that the settings name."""
    if settings.docai_project is not None and settings.docai_processor is not None:
        from forebay.processors.document_ai import DocumentAi, Place, usual_url  # noqa: PLC0415 - only who uses it

        place = Place(
            url=settings.docai_url or usual_url(settings.docai_location),
            project=settings.docai_project,
            location=settings.docai_location,
            processor=settings.docai_processor,
            version=settings.docai_version,
        )
        yield DocumentAi(place, transport=transport, credentials=_docai_credentials(settings, place.url), parser=parser)
    client = _adobe_client(settings)
    if client is not None:
        from forebay.processors.adobe import URL, Adobe  # noqa: PLC0415 - same

        yield Adobe(client, transport=transport, url=settings.adobe_url or URL)


def _adobe_client(settings: Settings) -> AdobeClient | None:
    name, secret, file = settings.adobe_client_id, settings.adobe_client_secret, settings.adobe_credentials
    if name is None and secret is None and file is None:
        return None
    from forebay.processors.adobe_token import Client as AdobeClient  # noqa: PLC0415 - same

    if (file is None) == (name is None or secret is None):
        raise BadInput(
            "The client of Adobe is given by half, or twice.",
            remedy="Set adobe_client_id and adobe_client_secret, or adobe_credentials.",
        )
    return AdobeClient(file=file) if name is None or secret is None else AdobeClient((name, secret))


def _docai_credentials(settings: Settings, url: str) -> Credentials:
    from forebay.processors.credentials import Key  # noqa: PLC0415 - same
    from forebay.processors.google_auth import google  # noqa: PLC0415 - same

    given = [each for each in (settings.docai_token, settings.docai_api_key, settings.docai_credentials) if each]
    if len(given) > 1:
        raise BadInput(
            "Document AI has more than one sort of credentials.",
            remedy="Set one of docai_credentials, docai_token and docai_api_key.",
        )
    if settings.docai_token is not None:
        return Key(url, "authorization", value=settings.docai_token, form="Bearer {}")
    if settings.docai_api_key is not None:
        return Key(url, "x-goog-api-key", value=settings.docai_api_key)
    if settings.docai_credentials is None and settings.docai_url is not None:
        # The machine's own identity is for Google, not for whatever address stands in its place.
        raise BadInput("docai_url is set, but no credentials for it.", remedy="Set docai_token; a simulator takes any.")
    return google(url, settings.docai_credentials, proxy=settings.proxy)


def language_model(settings: Settings, *, transport: Callable[[], Transport]) -> Llm:
    """BadInput where none is set up."""
    from forebay.processors.llm import OPENAI_URL, Llm, Model  # noqa: PLC0415 - only who uses it

    azure = settings.llm_backend == "azure"
    if settings.llm_model is None or (azure and settings.llm_url is None):
        raise BadInput(
            "No language model is set up.",
            remedy=f"Set FOREBAY_LLM_MODEL{' and FOREBAY_LLM_URL' if azure else ''}; "
            "docs/how-to/use-an-llm.md has the rest.",
        )
    model = Model(
        name=settings.llm_model,
        url=settings.llm_url or OPENAI_URL,
        backend=settings.llm_backend,
        api_version=settings.llm_api_version,
    )
    return Llm(model, transport=transport, credentials=_llm_credentials(settings, model.url))


def _llm_credentials(settings: Settings, url: str) -> Credentials | None:
    """Your own server may want none."""
    from forebay.processors.credentials import Key  # noqa: PLC0415 - only who uses it

    header, form = ("api-key", "{}") if settings.llm_backend == "azure" else ("authorization", "Bearer {}")
    value, file = settings.llm_api_key, settings.llm_api_key_file
    if value is not None and file is not None:
        raise BadInput("llm_api_key and llm_api_key_file are both set.", remedy="Set one of them.")
    if value is None and file is None and settings.llm_url is None:
        # The usual variable holds a key for OpenAI, and for nobody else.
        value = os.environ.get("OPENAI_API_KEY") or None
    if value is None and file is None:
        if settings.llm_url is None or settings.llm_backend == "azure":
            raise BadInput("There is no key for the language model.", remedy="Set FOREBAY_LLM_API_KEY.")
        return None
    key = Key(url, header, value=value, file=file, form=form)
    key.check()
    return key
