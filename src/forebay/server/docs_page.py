"""Serves the description of the API as JSON, and as a page that needs nothing from elsewhere."""

from __future__ import annotations

from html import escape
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse

from forebay.server.shapes import Problem

router = APIRouter(include_in_schema=False)
_POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"
_ABOUT = "Documents and tasks through rate-limited, paid APIs. Errors are problem documents (RFC 9457)."


@router.get("/openapi.json")
async def openapi(request: Request) -> JSONResponse:
    return JSONResponse(request.app.openapi())


@router.get("/docs")
async def page(request: Request) -> HTMLResponse:
    return HTMLResponse(_page(request.app.openapi()), headers={"content-security-policy": _POLICY})


@router.get("/docs/style.css")
async def style() -> HTMLResponse:
    text = (resources.files(__package__) / "docs_style.css").read_text("utf-8")
    return HTMLResponse(text, media_type="text/css", headers={"cache-control": "max-age=3600"})


def description(app: FastAPI) -> dict[str, Any]:
    """In place of `app.openapi`."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.routes, tags=[])
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        app.openapi_schema = made
    return app.openapi_schema


def _page(api: dict[str, Any]) -> str:
    groups: dict[str, list[str]] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            groups.setdefault((operation.get("tags") or ["more"])[0], []).append(_operation(path, method, operation))
    body = "".join(f"<h2>{escape(name)}</h2>{''.join(found)}" for name, found in groups.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<title>{escape(api["info"]["title"])}</title><link rel="stylesheet" href="/docs/style.css"></head><body>'
        f"<h1>{escape(api['info']['title'])}</h1><p>{escape(_ABOUT)}</p>"
        f'<p><a href="/openapi.json">openapi.json</a></p>{body}</body></html>'
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{escape(each.get('description', ''))}</td></tr>"
        for each in operation.get("parameters", [])
    )
    statuses = ", ".join(
        f"{escape(status)} {escape(each.get('description', ''))}" for status, each in operation["responses"].items()
    )
    table = f"<table>{rows}</table>" if rows else ""
    said = escape(operation.get("description", ""))
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code></summary>"
        f"<p>{said}</p>{table}<p>Answers: {statuses}</p></details>"
    )
