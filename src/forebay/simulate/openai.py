"""OpenAI chat completions, and the same behind Azure's deployment paths."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from forebay.simulate.answering import answer, text_of, tokens
from forebay.simulate.fault import Fault
from forebay.simulate.hints import retry_headers
from forebay.simulate.messages import Denial, Refused, Reply, Request, Work, json_reply
from forebay.simulate.state import State
from forebay.simulate.strict import objection

_PATH: Final = re.compile(r"(?:/openai)?/v1/chat/completions")
_AZURE: Final = re.compile(r"/openai/deployments/(?P<deployment>[^/]+)/chat/completions")
_SAFE: Final = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}
_BLOCKED: Final = _SAFE | {"violence": {"filtered": True, "severity": "high"}}


class OpenAi:
    """`azure` is another route of it, with its own words for the same refusals."""

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self, request: Request) -> str | None:
        if request.method != "POST":
            return None
        found = _AZURE.fullmatch(request.path)
        if found is not None:
            request.groups = found.groupdict()
            return "azure.chat"
        if _PATH.fullmatch(request.path):
            return "azure.chat" if "api-key" in request.headers else "openai.chat"
        return None

    async def prepare(self, route: str, request: Request) -> Work:
        azure = route == "azure.chat"
        if self._state.settings.auth and not (request.bearer() or (azure and request.headers.get("api-key"))):
            raise Refused(self.unauthorized(route))
        if request.groups.get("deployment") and not request.query.get("api-version"):
            raise Refused(json_reply(404, {"error": {"code": "404", "message": "Resource not found"}}))
        asked = request.json()
        if asked is None:
            raise Refused(_error(400, "We could not parse the JSON body of your request.", "invalid_request_error"))
        messages = asked.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
            raise Refused(_error(400, "Invalid 'messages': empty array.", "invalid_request_error", param="messages"))
        if asked.get("stream"):
            raise Refused(_error(400, "The simulator does not stream.", "invalid_request_error", param="stream"))
        if (wrong := objection(asked.get("response_format"))) is not None:
            raise Refused(_error(400, wrong, "invalid_request_error", param="response_format"))
        prompt = sum(tokens(text_of(each)) + 4 for each in messages) + 3
        most = _most(asked)
        content = answer(asked)
        completion = tokens(content)
        cut = most is not None and completion > most
        if cut and most is not None:
            content, completion = content[: most * 4], most
        used = {"prompt_tokens": prompt, "completion_tokens": completion}
        reserved = prompt + (completion if most is None else most)
        complete = _Completion(asked, used, azure=azure, number=sha256(request.body).hexdigest()[:29])

        async def do() -> Reply:
            return complete(content, "length" if cut else "stop")

        fingerprint = sha256("\0".join(text_of(each) for each in messages).encode(errors="replace")).hexdigest()
        return Work(do, {"tokens": reserved}, used, fingerprint, _special(complete, content, azure=azure))

    def denied(self, route: str, denial: Denial | None, fault: Fault) -> Reply:
        month = denial is not None and denial.month
        if route == "azure.chat":
            seconds = max(1, round(fault.after))
            message = "Requests to the ChatCompletions_Create Operation have exceeded the call rate limit. "
            message += f"Please retry after {seconds} seconds."
            reply = json_reply(429, {"error": {"code": "429", "message": message}})
        elif month:
            message = "You exceeded your current quota, please check your plan and billing details."
            reply = _error(429, message, "insufficient_quota", code="insufficient_quota")
        else:
            kind = "tokens" if denial is not None and denial.unit == "tokens" else "requests"
            message = f"Rate limit reached for {kind}. Please try again in {duration(fault.after)}."
            reply = _error(429, message, kind, code="rate_limit_exceeded")
        if not month:
            reply.headers |= retry_headers(fault, self._state.clock)
        return reply

    def unauthorized(self, route: str) -> Reply:
        if route == "azure.chat":
            message = "Access denied due to invalid subscription key or wrong API endpoint."
            return json_reply(401, {"error": {"code": "401", "message": message}})
        return _error(401, "Incorrect API key provided.", "invalid_request_error", code="invalid_api_key")

    def broken(self, route: str, status: int) -> Reply:  # noqa: ARG002 - the same for both
        return _error(
            status, "The server had an error while processing your request. Sorry about that!", "server_error"
        )

    def finish(self, route: str, request: Request, reply: Reply) -> None:
        reply.headers["x-request-id"] = (
            request.headers.get("x-request-id") or f"req_{sha256(reply.body).hexdigest()[:32]}"
        )
        for unit, name in (("calls", "requests"), ("tokens", "tokens")):
            found = self._state.quotas.left(route, unit, self._state.clock.now())
            if found is None:
                continue
            limit, left, empty_in_s = found
            reply.headers[f"x-ratelimit-remaining-{name}"] = str(left)
            if route != "azure.chat":
                reply.headers[f"x-ratelimit-limit-{name}"] = str(limit)
                reply.headers[f"x-ratelimit-reset-{name}"] = duration(empty_in_s)


class _Completion:
    def __init__(self, asked: dict[str, Any], used: dict[str, int], *, azure: bool, number: str) -> None:
        self._asked = asked
        self._used = used
        self._azure = azure
        self._number = number

    def __call__(self, content: str | None, finish: str, *, refusal: str | None = None) -> Reply:
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": content, "refusal": refusal, "annotations": []},
            "logprobs": None,
            "finish_reason": finish,
        }
        made = {
            "id": f"chatcmpl-{self._number}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": str(self._asked.get("model") or "gpt-4o-mini"),
            "choices": [choice],
            "usage": self._used | {"total_tokens": sum(self._used.values())},
            "system_fingerprint": "fp_simulated",
        }
        if self._azure:
            choice["content_filter_results"] = _BLOCKED if finish == "content_filter" else _SAFE
            made["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": _SAFE}]
        return json_reply(200, made)


def _special(complete: _Completion, content: str, *, azure: bool) -> Callable[[str], Reply | None]:
    def reply(kind: str) -> Reply | None:
        if kind == "refusal":
            return complete(None, "stop", refusal="I'm sorry, I cannot assist with that request.")
        if kind == "length":
            return complete(content[: len(content) // 2], "length")
        if kind == "content_filter":
            return _filtered() if azure else complete("", "content_filter")
        return None

    return reply


def _most(asked: dict[str, Any]) -> int | None:
    given = asked.get("max_completion_tokens") or asked.get("max_tokens")
    return given if isinstance(given, int) and given > 0 else None


def _filtered() -> Reply:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": _BLOCKED}
    message = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
    return json_reply(
        400,
        {
            "error": {
                "message": message,
                "type": None,
                "param": "prompt",
                "code": "content_filter",
                "status": 400,
                "innererror": inner,
            }
        },
    )


def _error(status: int, message: str, kind: str, *, code: str | None = None, param: str | None = None) -> Reply:
    return json_reply(status, {"error": {"message": message, "type": kind, "param": param, "code": code}})


def duration(seconds: float) -> str:
    """As Go writes durations, which is how the headers have them: 20ms, 1s, 6m0s, 2m59.56s."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
