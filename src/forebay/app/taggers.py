"""Which processors give articles their language and tags, from the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from forebay.errors import BadInput
from forebay.processors.answers import Answers
from forebay.processors.language import Chain, Detector, Google, Link, Model
from forebay.processors.llm import LIMIT as LLM_LIMIT
from forebay.processors.tagger import Asked, Tagger, Terms
from forebay.processors.translate import LIMIT as TRANSLATE_LIMIT
from forebay.processors.translate import URL, Translate

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.processors.credentials import Credentials
    from forebay.processors.recognizing import Parser
    from forebay.settings import Settings


def taggers(app: Forebay, *, parser: Callable[[], Parser]) -> Iterator[Tagger]:
    """One that needs nothing but this machine, and one that asks the language model, if one is set up."""
    settings = app.settings
    google = settings.language_google == "on"
    answers = Answers(lambda: app.ledger)

    def made(asked: Asked | None, limit: str | None) -> Tagger:
        @cache
        def chain() -> Chain:
            return Chain([*_links(app, asked, parser)], answers)

        return Tagger(
            terms=lambda: Terms(settings.language_default, google),
            chain=chain,
            answers=answers,
            parser=parser,
            limit=limit,
            asked=asked,
        )

    yield made(None, TRANSLATE_LIMIT if google else None)
    if settings.llm_model is not None:
        yield made(Asked(lambda: app.llm, settings.llm_model), LLM_LIMIT)


def _links(app: Forebay, asked: Asked | None, parser: Callable[[], Parser]) -> Iterator[Link]:
    settings = app.settings
    if settings.language_google == "on":
        url = settings.translate_url or URL
        yield Google(
            Translate(
                url,
                transport=lambda: app.transport,
                credentials=_credentials(settings, url),
                timeout_s=settings.language_google_timeout_s,
            )
        )
    if asked is not None:
        yield Model(asked.llm, asked.model, timeout_s=settings.language_llm_timeout_s)
    yield Detector(parser)


def check(settings: Settings) -> None:
    """BadInput where Google Translate is wanted and cannot be asked."""
    if settings.language_google == "on":
        _credentials(settings, settings.translate_url or URL)


def _credentials(settings: Settings, url: str) -> Credentials:
    from forebay.processors.credentials import Key  # noqa: PLC0415 - only who uses it
    from forebay.processors.google_auth import google  # noqa: PLC0415 - same

    key, file = settings.translate_api_key, settings.translate_credentials
    if key is not None and file is not None:
        raise BadInput("translate_api_key and translate_credentials are both set.", remedy="Set one of them.")
    if key is not None:
        return Key(url, "x-goog-api-key", value=key)
    if file is None and settings.translate_url is not None:
        # The machine's own identity is for Google, not for whatever address stands in its place.
        raise BadInput(
            "translate_url is set, but no credentials for it.", remedy="Set translate_api_key; a simulator takes any."
        )
    return google(url, file, proxy=settings.proxy)
