"""The application is whole when it is made."""

from __future__ import annotations

from typing import NoReturn

import pytest

from forebay.app.forebay import Forebay
from forebay.server.application import create_app


def test_the_first_request_builds_no_routes(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_app(app)

    def built(*_: object, **__: object) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr("fastapi.routing.get_dependant", built)
    for path in ("/livez", "/v1/jobs/unknown", "/nowhere"):
        scope: dict[str, object] = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": []}
        for route in made.routes:
            route.matches(scope)
