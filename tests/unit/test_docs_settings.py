"""Keeps docs/reference/settings.md equal to the code; a failure prints the row to paste."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from pydantic_core import PydanticUndefined

from forebay.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
LINES = PAGE.splitlines()
COMPUTED = {
    "home": "the user's data folder",
    "ledger": "`sqlite:///<home>/forebay.db`",
    "limits": "beside the ledger",
    "blobs": "`file://<home>/blobs`",
    "processes": "usable cores",
}


def bounds(name: str) -> str:
    field = Settings.model_fields[name]
    least = next((each.ge for each in field.metadata if hasattr(each, "ge")), None)
    most = next((each.le for each in field.metadata if hasattr(each, "le")), None)
    if least is not None:
        return f"{least:.10g} to {most:.10g}"
    choice = get_args(field.annotation)
    return ", ".join(f"`{each}`" for each in choice) if all(isinstance(each, str) for each in choice) else ""


def row(name: str) -> str:
    field = Settings.model_fields[name]
    default = COMPUTED.get(name) or ("none" if field.default is None else f"`{field.default}`")
    assert default != f"`{PydanticUndefined}`"
    return f"| `{name}` | {default} | {bounds(name)} | {field.description} |"


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_the_row_that_the_code_has(name: str) -> None:
    assert row(name) in LINES


def test_the_page_names_no_setting_that_the_code_does_not_have() -> None:
    named = [line.split("`")[1] for line in LINES if line.startswith("| `")]
    assert named == list(Settings.model_fields)
