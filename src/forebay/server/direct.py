"""Calls endpoints without FastAPI's solver of dependencies, where the solver has nothing to add."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from types import NoneType
from typing import Any, Final, NamedTuple, get_args

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from forebay.server.callers import Needs
from forebay.server.service import find_service

_SCALARS: Final = (str, int, float, NoneType, Enum)
_DESCRIBES: Final = {"name", "call", "path", "use_cache", "scope", "cache_key"}  # gives an endpoint nothing
_PARAMS: Final = ("path_params", "header_params", "query_params")
_TAKES: Final = {*_PARAMS, "dependencies", "request_param_name"}


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
    """Return what calls the route's endpoint; None if the route has anything that only the solver handles."""
    dependant = route.dependant
    params = [field for kind in _PARAMS for field in getattr(dependant, kind)]
    handled = (
        _needs(dependant) <= _TAKES
        and all(map(_is_plain_dependency, dependant.dependencies))
        and all(map(_is_plain_param, params))
        and not any(each.field_info.is_required() for each in dependant.query_params)
        and _answers(route)
    )
    return Direct(route.endpoint, dependant) if handled else None


def _needs(dependant: Dependant) -> set[str]:
    """Return the names of what the solver would give; those that a later FastAPI adds are among them."""
    names = {each.name for each in fields(dependant)} - _DESCRIBES
    return {name for name in names if getattr(dependant, name)}


def _is_plain_dependency(dependant: Dependant) -> bool:
    """Return whether the dependency is one of Forebay's own, named by the endpoint, and takes the request alone."""
    is_ours = type(dependant.call) is Needs or dependant.call is find_service
    return is_ours and bool(dependant.name) and _needs(dependant) == {"request_param_name"}


def _is_plain_param(field: Any) -> bool:  # noqa: ANN401 - FastAPI does not export its class
    """Return whether one text is given under one name, or a default that requests can share."""
    info = field.field_info
    kinds = get_args(info.annotation) or (info.annotation,)
    return (
        all(isinstance(kind, type) and issubclass(kind, _SCALARS) for kind in kinds)
        and info.validation_alias in (None, field.alias)
        and info.default_factory is None
        and not info.validate_default
        and (info.is_required() or isinstance(info.default, _SCALARS))
    )


def _answers(route: APIRoute) -> bool:
    """Return whether the endpoint is a coroutine that returns a finished response."""
    if route.response_field is not None or not inspect.iscoroutinefunction(route.endpoint):
        return False
    answer = inspect.signature(route.endpoint, eval_str=True).return_annotation
    return isinstance(answer, type) and issubclass(answer, Response)


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
