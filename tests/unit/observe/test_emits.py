"""Every call of emit in the source names an event of the table and gives it the fields that the table promises."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import forebay.observe
from forebay.observe.events import EVENTS

ROOT = Path(forebay.observe.__file__).parents[1]


def emits() -> list[tuple[str, ast.Call]]:
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for path in sorted(ROOT.rglob("*.py"))
        if "emit(" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "emit"
    ]


@pytest.mark.parametrize("call", [pytest.param(call, id=where) for where, call in emits()])
def test_what_is_emitted_is_what_the_table_says(call: ast.Call) -> None:
    [name] = call.args
    given = {each.arg for each in call.keywords if each.arg is not None}
    assert isinstance(name, ast.Constant)
    promised = set(EVENTS[str(name.value)].fields)
    assert given <= promised
    if len(given) == len(call.keywords):
        assert given == promised
