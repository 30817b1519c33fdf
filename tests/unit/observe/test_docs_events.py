"""Keeps docs/reference/events.md equal to the code; a failure prints the row to paste."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from forebay.app.gauges import GAUGES, Gauge
from forebay.observe.events import EVENTS
from forebay.observe.metrics import Metrics

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
LINES = PAGE.splitlines()
SUFFIX = {"counter": "_total", "info": "_info"}
LABELS = {
    "forebay_tasks_settled_total": "{kind,outcome}",
    "forebay_store_errors_total": "{verb,code}",
    "forebay_children_killed_total": "{why}",
    "forebay_worker_info": "{worker}",
    "forebay_tasks_rescued_total": "",
    "forebay_rate_limit_events_total": "{limit,code}",
    "forebay_limit_wait_seconds": "{limit}",
    "forebay_limit_cooldown_seconds_total": "{limit}",
    "forebay_limit_degraded": "{limit}",
    "forebay_limit_timeouts_total": "{limit}",
    "forebay_late_starts_total": "{limit}",
}


def event_row(name: str) -> str:
    event = EVENTS[name]
    fields = ", ".join(f"`{each}`" for each in event.fields)
    return f"| `{name}` | {logging.getLevelName(event.level).lower()} | {event.meaning} | {fields} |"


def metric_rows() -> list[str]:
    found = [each for each in Metrics().registry.collect() if each.name.startswith("forebay_")]
    full = [(each.name + SUFFIX.get(each.type, ""), each) for each in found]
    rows = [f"| `{name}{LABELS.get(name, '{kind}')}` | {each.type} | {each.documentation} |" for name, each in full]
    return rows + [_gauge_row(name, gauge) for name, gauge in GAUGES.items()]


def _gauge_row(name: str, gauge: Gauge) -> str:
    labels = "{" + ",".join(gauge.labels) + "}" if gauge.labels else ""
    return f"| `forebay_{name}{labels}` | gauge | {gauge.text} |"


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_the_row_that_the_code_has(name: str) -> None:
    assert event_row(name) in LINES


@pytest.mark.parametrize("row", metric_rows())
def test_every_metric_has_the_row_that_the_code_has(row: str) -> None:
    assert row in LINES


def test_the_page_names_nothing_that_the_code_does_not_have() -> None:
    named = {line for line in LINES if line.startswith("| `")}
    assert named == {event_row(name) for name in EVENTS} | set(metric_rows())
