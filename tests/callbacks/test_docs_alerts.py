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


def test_dead_letters_degraded_limits_and_exhausted_quotas_have_a_rule() -> None:
    assert set(re.findall(r"alert: (\w+)", RULES)) >= {
        "ForebayDeadLetters",
        "ForebayLimitDegraded",
        "ForebayQuotaExhausted",
    }


def test_the_page_for_receivers_names_every_alert_and_each_comes_from_a_real_event() -> None:
    page = (DOCS / "how-to" / "receive-callbacks.md").read_text(encoding="utf-8")
    for event, (name, fields) in ALERTS.items():
        assert f"`{name}`" in page
        assert set(fields) <= set(EVENTS[event].fields)
