"""Keeps docs/reference/python.md equal to the code: no public name, option or member is left out or made up."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import forebay
from forebay import Context, Finished, Forebay, Permanent, Reschedule, Retry
from forebay.app.stands import Stands
from forebay.engine.registry import Kind, KindOptions
from forebay.engine.submission import Options
from forebay.model.task import NewTask

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
NAME = re.compile(r"`([a-z_]+)[`(]", re.IGNORECASE)
# Between the parts of Forebay itself.
INNER = {
    "access",
    "check_addresses",
    "check_budgets",
    "check_documents",
    "content",
    "has_ledger",
    "ledger_address",
    "look",
    "own_folders",
    "own_ledger",
    "store",
    "store_each",
    "submissions",
    "transport",
}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def named(text: str) -> set[str]:
    """What the first cells of its tables name."""
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in NAME.findall(cell)}


def members(kind: type, *more: str) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")} | set(more)


def default(option: str) -> str:
    found = {each.name: each.default for each in fields(NewTask)}.get(option)
    text = "none" if found in (None, ()) else f"`{found:g}`" if isinstance(found, (int, float)) else f"`{found}`"
    kinds = {"timeout_s", "max_retries", "max_reschedules"}
    return f"the kind's, or {text}" if option in kinds else "now" if option == "start_at" else text


def test_every_public_name_is_there_and_no_other() -> None:
    assert named(PAGE.partition("\n## ")[0]) == set(forebay.__all__)


def test_every_member_of_the_application_is_there() -> None:
    assert named(section("Forebay")) == (members(Stands) | members(Forebay, "registry", "limits")) - INNER


@pytest.mark.parametrize("name", ["pipeline", "submit", "submit_many", "start", "wait", "result", "work"])
def test_arguments_of_the_application_are_those_of_the_code(name: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}("))
    shown = row.partition("(")[2].partition(")`")[0]
    for parameter in list(inspect.signature(getattr(Forebay, name)).parameters.values())[1:]:
        written = "id" if parameter.name == "identifier" else parameter.name
        assert re.search(rf"\b{written}\b", shown), f"{name} takes {parameter}"
        if parameter.default not in (inspect.Parameter.empty, None):
            assert re.search(rf"\b{written}={parameter.default}\b".replace(".0", ""), shown), parameter


@pytest.mark.parametrize("option", KindOptions.__annotations__)
def test_every_option_of_a_kind_is_shown_with_its_default(option: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `task("))
    default = {each.name: each.default for each in fields(Kind)}[option]
    shown = f'"{default}"' if isinstance(default, str) else f"{default:g}" if isinstance(default, float) else default
    assert f"{option}={shown}" in row


@pytest.mark.parametrize("option", Options.__annotations__)
def test_every_option_of_a_submission_has_a_row_with_its_default(option: str) -> None:
    assert f"| `{option}` | {default(option)} |" in section("Options of a submission")


def test_there_are_no_other_options() -> None:
    assert named(section("Options of a submission")) == set(Options.__annotations__)


def test_every_member_of_a_context_is_there() -> None:
    assert named(section("Context")) == members(Context)


def test_every_member_of_what_wait_returns_is_there() -> None:
    assert named(section("Finished")) == members(Finished)


@pytest.mark.parametrize("signal", [Reschedule, Retry, Permanent])
def test_what_a_handler_raises_has_its_arguments(signal: type[Exception]) -> None:
    row = next(
        line for line in section("What a handler raises").splitlines() if line.startswith(f"| `{signal.__name__}`")
    )
    for parameter in list(inspect.signature(signal).parameters.values()):
        assert f"`{parameter.name}" in row
