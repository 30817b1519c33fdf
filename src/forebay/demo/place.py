"""Where a demonstration keeps its things, and the settings that point workers at its stores and at the simulator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from forebay.app.forebay import Forebay
from forebay.demo.scene import Load, Scene
from forebay.settings import load
from forebay.simulate.starting import Simulated

_FILE: Final = "forebay.toml"
_LIMIT: Final = """
[limits.{api}]
in_flight = {in_flight}
windows = [[{n}, {per_s}]]
call_timeout_s = 3
lease_s = 4.5
heartbeat_s = 1.5
cooldown_s = [0.5, 1.0, 2.0]
"""
_OWN: Final = {
    "FOREBAY_LEASE_S": "5",
    "FOREBAY_POLL_S": "0.5",
    "FOREBAY_DRAIN_GRACE_S": "1",
    "FOREBAY_LOG_LEVEL": "warning",
    "FOREBAY_PROCESSES": "1",
    "FOREBAY_DOCAI_PROJECT": "p",
    "FOREBAY_DOCAI_PROCESSOR": "demo",
    "FOREBAY_DOCAI_TOKEN": "for-the-simulator",
    "FOREBAY_ADOBE_CLIENT_ID": "demo",
    "FOREBAY_ADOBE_CLIENT_SECRET": "for-the-simulator",
}


def furnished(folder: Path, scene: Scene, simulated: Simulated, *, times: int) -> dict[str, str]:
    """Writes the limits, so many times the quotas, and returns the environment of the workers."""
    text = "".join(_limit(each, times) for each in scene.loads)
    (folder / _FILE).write_text(text, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    places = {"FOREBAY_CONFIG": str(folder / _FILE), "FOREBAY_HOME": str(folder / "home")}
    return kept | simulated.environment | _OWN | places


def opened(folder: Path, environment: dict[str, str]) -> Forebay:
    return Forebay(settings=load(environ=environment, cwd=folder))


def _limit(load_: Load, times: int) -> str:
    return _LIMIT.format(api=load_.api, in_flight=load_.in_flight * times, n=load_.n * times, per_s=load_.per_s)
