"""One process of the fleet: which servers it is told of, and what is broken in it on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from chaos.engine import life as engine
from chaos.engine.submitter import Order
from chaos.fleet import app, calls, orders
from chaos.fleet.promised import DRAIN_GRACE_S
from chaos.fleet.site import BUCKET
from chaos.sabotage import Forgetful
from forebay.app.forebay import Forebay
from forebay.settings import load
from forebay.stores.address import open_ledger
from forebay.stores.base import Ledger

LIMITS_BROKEN = ("bypass", "count-then-add", "calendar")
SABOTAGES = ("unfenced", "forgetful", "losing", *LIMITS_BROKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder(engine.Folder):
    """`where` are the addresses of the servers, by way of their proxies; without a ledger's it is a file."""

    provider: str
    where: dict[str, str]
    broken: str = ""

    def environment(self) -> dict[str, str]:
        more = {
            "FOREBAY_DRAIN_GRACE_S": f"{DRAIN_GRACE_S:g}",
            "FOREBAY_LIMITS": self.where["limits"],
            "FOREBAY_BLOBS": f"s3://{BUCKET}",
            "AWS_ENDPOINT_URL": self.where["blobs"],
            "AWS_ACCESS_KEY_ID": "chaos",
            "AWS_SECRET_ACCESS_KEY": "chaos",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "NO_PROXY": "127.0.0.1",
            calls.PROVIDER: self.provider,
            calls.BROKEN: self.broken,
        }
        if "ledger" in self.where:
            more["FOREBAY_LEDGER"] = self.where["ledger"]
        # Not super(): a dataclass with slots is another class than the one its methods know.
        return engine.Folder.environment(self) | more


@dataclass(frozen=True, slots=True, kw_only=True)
class Life(engine.Life):
    loses: bool = False
    """Whether it acknowledges what it has not stored."""

    @property
    def target(self) -> str:
        return app.TARGET

    def opened(self) -> Ledger:
        ledger = open_ledger(self.folder.environment()["FOREBAY_LEDGER"])
        return cast("Ledger", Forgetful(ledger)) if self.loses else ledger

    def build(self) -> Forebay:
        return app.build(self.ledger(), load())

    def order(self) -> Order:
        return orders.order
