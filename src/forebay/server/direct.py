"""Calls endpoints without FastAPI's solver of dependencies, where the solver has nothing to add."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from forebay.server.callers import Needs
from forebay.server.service import find_service


class _Param(NamedTuple):
    name: str
    alias: str
    validate: Callable[..., tuple[Any, Sequence[Any]]]
    is_required: bool
    default: object


class Direct:
    """Calls an endpoint that takes nothing but the service, its caller, path, query, headers and the request.

    The solver takes longer than all else that such a request needs. The solver still reads queries, and still answers
    whatever is not valid: each error is worded in one place.
    """

    def __init__(self, endpoint: Callable[..., Awaitable[Response]], dependant: Dependant) -> None:
        self._endpoint = endpoint
        self._dependencies: list[tuple[str, Callable[[Request], Awaitable[Any]]]] = [
            (each.name, each.call) for each in dependant.dependencies if each.name and each.call
        ]
        self._path = [_param(each) for each in dependant.path_params]
        self._headers = [_param(each) for each in dependant.header_params]
        self._query = {each.name: each.default for each in dependant.query_params}
        self._request_name = dependant.request_param_name

    async def answer(self, request: Request) -> Response | None:
        """Return the endpoint's answer, or None without calling it if the solver has to look at the request."""
        if self._query and request.scope["query_string"]:
            return None
        arguments: dict[str, Any] = {name: await call(request) for name, call in self._dependencies}
        arguments.update(self._query)
        if not _take(self._path, request.path_params, arguments):
            return None
        if self._headers and not _take(self._headers, request.headers, arguments):
            return None
        if self._request_name is not None:
            arguments[self._request_name] = request
        return await self._endpoint(**arguments)


def direct(route: APIRoute) -> Direct | None:
    """Return what calls the route's endpoint; None if the endpoint takes what only the solver can give."""
    dependant = route.dependant
    ours = all(isinstance(each.call, Needs) or each.call is find_service for each in dependant.dependencies)
    others = (dependant.body_params, dependant.cookie_params, dependant.response_param_name)
    simple = not any(others) and not dependant.background_tasks_param_name and route.response_field is None
    required = any(each.field_info.is_required() for each in dependant.query_params)
    return Direct(route.endpoint, dependant) if ours and simple and not required else None


def _param(field: Any) -> _Param:  # noqa: ANN401 - FastAPI does not export its class
    is_required = field.field_info.is_required()
    return _Param(field.name, field.alias, field.validate, is_required, None if is_required else field.default)


def _take(params: Sequence[_Param], given: Mapping[str, str], arguments: dict[str, Any]) -> bool:
    """Add what was given; False if any of it is missing or not valid."""
    for name, alias, validate, is_required, default in params:
        value = given.get(alias)
        if value is not None:
            arguments[name], errors = validate(value, {}, loc=())
            if errors:
                return False
        elif is_required:
            return False
        else:
            arguments[name] = default
    return True
