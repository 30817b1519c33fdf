"""Orders that come before the market opens sleep until it does, and are executed then."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cached_property

from forebay import Context, Forebay, Reschedule


class FakeMarket:
    """Opens a second after somebody first looks."""

    @cached_property
    def opens_at(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=1)

    async def execute(self, symbol: str, shares: int) -> dict[str, object]:
        return {"symbol": symbol, "shares": shares, "early": datetime.now(UTC) < self.opens_at}


app = Forebay()
market = FakeMarket()


@app.task("market_order")
async def market_order(_: Context, symbol: str, shares: int) -> dict[str, object]:
    if datetime.now(UTC) < market.opens_at:
        raise Reschedule("(the market is closed)", until=market.opens_at)
    return await market.execute(symbol, shares)


def main() -> None:
    orders = [app.submit("market_order", {"symbol": symbol, "shares": 10}) for symbol in ("ABC", "XYZ")]
    app.work(until_idle=True)
    for order in orders:
        story = [f"{each.outcome} {each.error_text or ''}".strip() for each in app.history(order.id)]
        print(f"{', then '.join(story)}: {app.result(order.id)!r}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("FOREBAY_HOME", folder)
        with app:
            main()
