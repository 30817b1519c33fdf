"""Actors for Dramatiq's workers."""

from __future__ import annotations

from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.queues import calls

make_broker: Any = RedisBroker
dramatiq.set_broker(make_broker(url=calls.ADDRESS or "redis://localhost", namespace=f"{calls.NAME}:dramatiq"))
call = dramatiq.actor(queue_name="calls", max_retries=0)(calls.call)
