"""Google Translate: language detection, v2 and v3."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qs

from forebay.simulate import google
from forebay.simulate.fault import Fault
from forebay.simulate.messages import Denial, Refused, Reply, Request, Work, json_reply
from forebay.simulate.reading import language
from forebay.simulate.state import State

_V2: Final = "/language/translate/v2/detect"
_V3: Final = re.compile(r"/v3(?:beta1)?/projects/[^/]+(?:/locations/[^/:]+)?:detectLanguage")
_SERVICE: Final = "translate.googleapis.com"
_RELIABLE: Final = 0.5


class Translate:
    def __init__(self, state: State) -> None:
        self._state = state

    def find(self, request: Request) -> str | None:
        if request.path == _V2 and request.method in ("POST", "GET"):
            request.groups = {"version": "2"}
        elif request.method == "POST" and _V3.fullmatch(request.path):
            request.groups = {"version": "3"}
        else:
            return None
        return "translate.detect"

    async def prepare(self, route: str, request: Request) -> Work:
        key = request.query.get("key") or request.headers.get("x-goog-api-key")
        if self._state.settings.auth and not request.bearer() and not (key and request.groups["version"] == "2"):
            raise Refused(self.unauthorized(route))
        texts = _texts(request)
        if not texts:
            raise Refused(
                google.error(400, "Required Text" if request.groups["version"] == "2" else "Content is empty.")
            )

        async def do() -> Reply:
            found = [language(text) for text in texts]
            if request.groups["version"] == "3":
                code, sure = found[0]
                return json_reply(200, {"languages": [{"languageCode": code, "confidence": sure}]})
            detections = [
                [{"language": code, "confidence": sure, "isReliable": sure >= _RELIABLE}] for code, sure in found
            ]
            return json_reply(200, {"data": {"detections": detections}})

        fingerprint = sha256("\0".join(texts).encode(errors="replace")).hexdigest()
        return Work(do, {"characters": sum(len(text) for text in texts)}, fingerprint=fingerprint)

    def denied(self, route: str, denial: Denial | None, fault: Fault) -> Reply:  # noqa: ARG002 - there is one
        if denial is not None and denial.month:
            # v2 says 403 for what lasts, where newer APIs say 429.
            return _old(403, "dailyLimitExceeded", "Daily Limit Exceeded")
        return google.exhausted(_SERVICE, "projects/123456789", denial, fault, self._state.clock)

    def unauthorized(self, route: str) -> Reply:  # noqa: ARG002 - there is one
        return google.error(401)

    def broken(self, route: str, status: int) -> Reply:  # noqa: ARG002 - there is one
        return google.error(status)

    def finish(self, route: str, request: Request, reply: Reply) -> None:
        pass


def _texts(request: Request) -> list[str]:
    if request.groups["version"] == "3":
        content = (request.json() or {}).get("content")
        return [content] if isinstance(content, str) and content else []
    if request.headers.get("content-type", "").startswith("application/json"):
        try:
            asked: Any = json.loads(request.body)
        except ValueError:
            return []
        found = asked.get("q", []) if isinstance(asked, dict) else []
        return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, str) and each]
    return parse_qs(request.body.decode(errors="replace")).get("q") or (
        [request.query["q"]] if request.query.get("q") else []
    )


def _old(code: int, reason: str, message: str) -> Reply:
    each = {"message": message, "domain": "usageLimits", "reason": reason}
    return json_reply(code, {"error": {"code": code, "message": message, "errors": [each]}})
