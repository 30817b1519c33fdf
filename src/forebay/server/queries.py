"""Refuses what a query says that its path does not know, or says twice: a typo must not look like an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from forebay.server.direct import direct


class StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        described = (self.openapi_extra or {}).get("parameters", [])
        known = sorted(
            {field.alias for field in self.dependant.query_params}
            | {each["name"] for each in described if each["in"] == "query"}
        )
        # FastAPI asks again where it includes the finished route, with dependencies that only its solver knows.
        without_solver = None if hasattr(self, "app") else direct(self)

        async def handled(request: Request) -> Response:
            if request.scope["query_string"]:
                _check(request, known)
            answer = None if without_solver is None else await without_solver.answer(request)
            return await handle(request) if answer is None else answer

        return handled


def _check(request: Request, known: Sequence[str]) -> None:
    said = Counter(name for name, _ in request.query_params.multi_items())
    there_are = f"there are {', '.join(known)}" if known else "there are none at this path"
    wrong = {name: f"is no parameter here; {there_are}" for name in said if name not in known}
    wrong |= {name: "is given more than once" for name, count in said.items() if count > 1 and name not in wrong}
    if wrong:
        raise RequestValidationError([{"loc": ("query", name), "msg": why} for name, why in wrong.items()])
