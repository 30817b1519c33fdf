"""Asks a language model a question whose answer has a form: OpenAI, Azure OpenAI, or a server that speaks like them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from forebay.engine.context import Context
from forebay.engine.signals import Permanent, Retry
from forebay.ids import printable
from forebay.observe.redact import mask_text
from forebay.processors import schema as schemas
from forebay.processors.credentials import Credentials
from forebay.processors.messages import Refusal, Reply, Request
from forebay.processors.openai_errors import is_filtered, judged
from forebay.processors.transport import Transport
from forebay.rules.verdict import ErrorClass

OPENAI_URL: Final = "https://api.openai.com/v1"
LIMIT: Final = "llm"
TOKENS: Final = "tokens"
_MAX_REPLY: Final = 4 * 1024 * 1024
_PER_CALL: Final = 16  # tokens of what surrounds the messages
_CALL_S: Final = 60.0
_MOST_SHOWN: Final = 200
# Strict structured output refuses these, Azure all of them: they are said in words, and checked in the answer.
_IN_WORDS: Final = {
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
}

Why = Literal["refusal", "length", "content_filter"]
_CLASSES: Final[dict[str, ErrorClass]] = {
    "refusal": ErrorClass.REFUSED,
    "length": ErrorClass.REPLAN,
    "content_filter": ErrorClass.REFUSED,
}


class NoAnswer(Permanent):
    """There is no answer to what was asked, or not the one asked for: the same question would end alike."""

    def __init__(self, why: Why, text: str) -> None:
        super().__init__(text, error_class=_CLASSES[why])
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Which one, and where; with Azure `name` is the deployment's."""

    name: str
    url: str = OPENAI_URL
    backend: Literal["openai", "azure"] = "openai"
    api_version: str = ""

    @property
    def address(self) -> str:
        if self.backend == "azure":
            query = urlencode({"api-version": self.api_version})
            return f"{self.url.rstrip('/')}/openai/deployments/{quote(self.name, safe='')}/chat/completions?{query}"
        return f"{self.url.rstrip('/')}/chat/completions"

    @property
    def bound(self) -> str:
        """The name of the bound on an answer: OpenAI's own models take the new one only, other servers the old one."""
        return "max_completion_tokens" if self.url.rstrip("/") == OPENAI_URL else "max_tokens"


class Llm:
    """Each question takes one call of the limit, and its tokens: an estimate, until the answer says how many it had.

    `max_tokens` bounds an answer, with what the model thinks before, and counts in full.
    """

    def __init__(
        self,
        model: Model,
        *,
        transport: Callable[[], Transport],
        credentials: Credentials | None,
        limit: str = LIMIT,
        max_tokens: int = 1024,
        timeout_s: float = _CALL_S,
    ) -> None:
        self._model = model
        self._transport = transport
        self._credentials = credentials
        self._limit = limit
        self._max_tokens = max_tokens
        self._timeout_s = timeout_s

    async def ask(
        self,
        ctx: Context,
        system: str,
        text: str,
        schema: Mapping[str, Any],
        *,
        name: str = "answer",
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """The answer, of the schema's form; NoAnswer if the model gives none."""
        schemas.check(schema)
        form = sendable(schema)
        asked = {
            "model": self._model.name,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": form},
            },
            self._model.bound: self._max_tokens,
        }
        tokens = self._max_tokens + estimate(system, text, json.dumps(form))
        reply = await self._sent(ctx, asked, tokens, timeout_s or self._timeout_s)
        ctx.used(LIMIT, TOKENS, _usage(reply, "total_tokens") or 0)
        return _answer(reply.json, schema)

    async def _sent(self, ctx: Context, asked: Mapping[str, Any], tokens: int, timeout_s: float) -> Reply:
        filtered: list[Refusal] = []

        def judge(reply: Reply) -> Refusal | None:
            refusal = judged(reply)
            if refusal is not None and is_filtered(reply):
                filtered.append(refusal)
            return refusal

        try:
            return await self._transport().call(
                ctx,
                Request.of_json("POST", self._model.address, asked),
                limit=self._limit,
                units={"calls": 1, TOKENS: tokens},
                meter=LIMIT,
                judge=judge,
                credentials=self._credentials,
                settle=self._counted,
                timeout_s=timeout_s,
                max_reply=_MAX_REPLY,
            )
        except Permanent as error:
            if filtered:
                raise NoAnswer("content_filter", error.text) from None
            raise

    def _counted(self, reply: Reply) -> Mapping[str, int] | None:
        """Of the answer, providers count what it may have at most, however short it turns out to be."""
        asked, answered = _usage(reply, "prompt_tokens"), _usage(reply, "completion_tokens")
        return None if asked is None else {TOKENS: asked + max(self._max_tokens, answered or 0)}


def sendable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as strict structured output takes it: its bounds are no keywords, but words of its descriptions."""
    form = {name: value for name, value in schema.items() if name not in _IN_WORDS}
    bounds = ", ".join(said.format(schema[name]) for name, said in _IN_WORDS.items() if name in schema)
    if bounds:
        form["description"] = f"{schema.get('description', '')} ({bounds})".lstrip()
    if "properties" in schema:
        form["properties"] = {name: sendable(each) for name, each in schema["properties"].items()}
    if "items" in schema:
        form["items"] = sendable(schema["items"])
    if "anyOf" in schema:
        form["anyOf"] = [sendable(each) for each in schema["anyOf"]]
    return form


def estimate(*texts: str) -> int:
    """Tokens that texts have, on the safe side: fewer letters a token than models take, in whichever script."""
    count = _PER_CALL
    for text in texts:
        plain = sum(each.isascii() for each in text)
        count += -(-plain // 3) + 2 * (len(text) - plain)
    return count


def _usage(reply: Reply, name: str) -> int | None:
    usage = reply.json.get("usage") if isinstance(reply.json, dict) else None
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and count >= 0 else None


def _answer(body: object, schema: Mapping[str, Any]) -> dict[str, Any]:
    try:
        choice: Any = body["choices"][0]  # type: ignore[index]  # checked by trying
        message: Any = choice["message"]
        ended, refusal, content = choice.get("finish_reason"), message.get("refusal"), message.get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _bad("it has no message") from None
    if refusal:
        raise NoAnswer("refusal", f"The model refused: {_shown(refusal)}")
    if ended == "content_filter":
        raise NoAnswer("content_filter", "The model's answer was filtered.")
    if ended == "length":
        raise NoAnswer("length", "The model's answer is longer than it may be.")
    try:
        answer = json.loads(content)
    except (TypeError, ValueError, RecursionError):
        raise _bad("its message is not JSON") from None
    if not isinstance(answer, dict):
        raise _bad("the answer is not an object")
    if (wrong := schemas.problem(answer, schema)) is not None:
        raise _bad(wrong)
    return answer


def _bad(why: str) -> Retry:
    return Retry(f"The model's reply cannot be used: {_shown(why)}.", error_class=ErrorClass.BAD_RESPONSE)


def _shown(text: object) -> str:
    return printable(mask_text(str(text)))[:_MOST_SHOWN]
