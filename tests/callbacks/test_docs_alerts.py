"""The alert rules of the documents name metrics and labels that workers have."""

from __future__ import annotations

import re
from pathlib import Path

from forebay.app.gauges import GAUGES
from forebay.callbacks.alerting import ALERTS
from forebay.observe.events import EVENTS
from forebay.observe.metrics import Metrics

DOCS = Path(__file__).parents[2] / "docs"
RULES = (DOCS / "reference" / "alerts.yml").read_text(encoding="utf-8")
METRIC = re.compile(r"forebay_[a-z_]+")


def test_every_metric_in_the_rules_is_one_of_a_worker() -> None:
    known = {each.name + {"counter": "_total"}.get(each.type, "") for each in Metrics().registry.collect()}
    known |= {f"forebay_{name}" for name in GAUGES}
    named = set(METRIC.findall(RULES))
    assert len(named) >= 5
    assert named <= known


def test_what_an_operator_must_hear_of_has_a_rule() -> None:
    assert set(re.findall(r"alert: (\w+)", RULES)) >= {
        "ForebayDeadLetters",
        "ForebayLimitDegraded",
        "ForebayQuotaExhausted",
        "ForebayNoWorker",
        "ForebayNobodyReports",
        "ForebayLaneStandsStill",
        "ForebayBacklogGrows",
        "ForebayLimitPaused",
    }


def test_the_page_for_receivers_names_every_alert_and_each_comes_from_a_real_event() -> None:
    page = (DOCS / "how-to" / "receive-callbacks.md").read_text(encoding="utf-8")
    for event, (name, fields) in ALERTS.items():
        assert f"`{name}`" in page
        assert set(fields) <= set(EVENTS[event].fields)


def test_a_fleet_whose_last_worker_died_is_noticed_though_nothing_is_scraped() -> None:
    [rule] = re.findall(r"alert: ForebayNobodyReports\n\s+expr: (.+)\n", RULES)
    assert rule == "absent(forebay_workers_alive)"
