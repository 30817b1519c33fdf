"""Limits to begin with, each with the source of its numbers; in force only when somebody chooses one."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any

from forebay.errors import NotFound
from forebay.ids import shown
from forebay.limits.written import from_table
from forebay.model.limit import Limit
from forebay.model.names import check_name

_ABOUT = ("about", "source", "checked", "note", "redis_tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """`values`: the fields that it sets. `redis_tag`: what its keys begin with where others expect that name."""

    name: str
    about: str
    values: dict[str, Any]
    source: str
    checked: date
    note: str
    redis_tag: str = ""

    def limit(self, name: str | None = None) -> Limit:
        return Limit(check_name("limit", name or self.name), **self.values)


@cache
def presets() -> dict[str, Preset]:
    text = (resources.files(__package__) / "presets.toml").read_text("utf-8")
    return {name: _preset(name, table) for name, table in tomllib.loads(text).items()}


def _preset(name: str, table: dict[str, Any]) -> Preset:
    values = from_table(name, {field: value for field, value in table.items() if field not in _ABOUT})
    return Preset(name=name, values=values, **{field: table[field] for field in _ABOUT if field in table})


def preset(name: str) -> Preset:
    found = presets().get(name) if isinstance(name, str) else None
    if found is None:
        near = get_close_matches(str(name), presets(), n=1)
        remedy = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(presets())}."
        raise NotFound(f"There is no preset {shown(name)}.", remedy=remedy)
    return found


def redis_tags(environment: str) -> dict[str, str]:
    """Hash tags by limit, for those that do not follow the usual scheme."""
    return {name: f"{each.redis_tag}:{environment}" for name, each in presets().items() if each.redis_tag}
