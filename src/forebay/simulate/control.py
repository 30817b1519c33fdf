"""The simulator's own endpoints, under /simulate: what it saw, its verdict, and its settings while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from forebay.errors import ForebayError
from forebay.simulate.addresses import addresses, environment
from forebay.simulate.adobe import Adobe
from forebay.simulate.messages import Reply, Request, json_reply
from forebay.simulate.state import State
from forebay.simulate.verdict import calls_per_chunk, verdict

_LINES: Final = "application/x-ndjson"


class Control:
    def __init__(self, state: State, adobe: Adobe) -> None:
        self._state = state
        self._adobe = adobe
        self._routes: dict[tuple[str, str], Callable[[Request], Reply]] = {
            ("GET", ""): self._about,
            ("GET", "/ledger"): self._ledger,
            ("GET", "/verdict"): self._verdict,
            ("GET", "/chunks"): self._chunks,
            ("GET", "/settings"): self._settings,
            ("PATCH", "/settings"): self._change,
            ("POST", "/faults"): self._add_fault,
            ("DELETE", "/faults"): self._no_faults,
            ("POST", "/expire-tokens"): self._expire,
            ("POST", "/reset"): self._reset,
        }

    def answer(self, request: Request) -> Reply:
        path = request.path.removeprefix("/simulate").rstrip("/")
        do = self._routes.get((request.method, path))
        if do is None:
            known = [f"{method} /simulate{path}" for method, path in self._routes]
            return json_reply(404, {"error": f"there is no {request.method} {request.path}", "known": known})
        try:
            return do(request)
        except ForebayError as error:
            return json_reply(error.http_status, {"error": str(error)})

    def _about(self, request: Request) -> Reply:
        known = [f"{method} /simulate{path}" for method, path in self._routes]
        found = {"addresses": addresses(request.base), "environment": environment(request.base), "control": known}
        return json_reply(200, found | {"open": self._state.ledger.open(), "now": self._state.clock.now()})

    def _ledger(self, request: Request) -> Reply:
        after = request.query.get("after", "0")
        route = request.query.get("route", "")
        number = int(after) if after.isascii() and after.isdecimal() else 0
        rows = self._state.ledger.rows(route, number, self._state.clock.iso)
        if request.query.get("format") == "ndjson":
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            return Reply(200, lines.encode(), {"content-type": _LINES})
        return json_reply(200, {"calls": list(rows)})

    def _verdict(self, request: Request) -> Reply:  # noqa: ARG002 - of all
        state = self._state
        return json_reply(200, verdict(state.ledger.calls(), state.settings, state.clock))

    def _chunks(self, request: Request) -> Reply:  # noqa: ARG002 - of all
        return json_reply(200, calls_per_chunk(self._state.ledger.calls()))

    def _settings(self, request: Request | None = None) -> Reply:  # noqa: ARG002 - all of them
        return json_reply(200, self._state.settings.model_dump(mode="json"))

    def _change(self, request: Request) -> Reply:
        given = request.json()
        if given is None:
            return json_reply(422, {"error": "the body is not a JSON object of settings"})
        self._state.change(given)
        return self._settings()

    def _add_fault(self, request: Request) -> Reply:
        try:
            found: Any = json.loads(request.body)
        except ValueError:
            found = None
        given = found if isinstance(found, list) else [found]
        if not all(isinstance(each, dict) for each in given):
            return json_reply(422, {"error": "the body is neither a JSON object of a fault nor a list of them"})
        old = [each.model_dump() for each in self._state.settings.faults]
        self._state.change({"faults": [*old, *given]})
        return self._settings()

    def _no_faults(self, request: Request) -> Reply:  # noqa: ARG002 - all of them
        self._state.change({"faults": []})
        return self._settings()

    def _expire(self, request: Request) -> Reply:  # noqa: ARG002 - all of them
        self._adobe.expire_tokens()
        return json_reply(200, {})

    def _reset(self, request: Request) -> Reply:  # noqa: ARG002 - all
        self._state.reset()
        return self._settings()
