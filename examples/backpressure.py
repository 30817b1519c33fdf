"""Orders need a service that can be overloaded: while it says so they wait outside, and its load stays bounded."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter

from forebay import Context, Forebay, Reschedule


class FakeInventory:
    """Does two reservations at a time well, and says when it is busy."""

    def __init__(self) -> None:
        self._busy = 0
        self.most_busy = 0

    @property
    def overloaded(self) -> bool:
        return self._busy >= 2

    async def reserve(self, item: str) -> str:
        self._busy += 1
        self.most_busy = max(self.most_busy, self._busy)
        await asyncio.sleep(0.2)
        self._busy -= 1
        return f"reserved {item}"


app = Forebay()
inventory = FakeInventory()


@app.task("process_order", max_reschedules=100)
async def process_order(_: Context, item: str) -> str:
    if inventory.overloaded:
        raise Reschedule("the inventory is overloaded", delay_s=0.25)
    return await inventory.reserve(item)


@app.task("write_invoice")
async def write_invoice(ctx: Context, item: str) -> str:
    ctx.log.info("invoice_written")
    return f"invoice for {item}"


def main() -> None:
    orders = app.submit_many("process_order", [{"item": f"book {n}"} for n in range(6)])
    invoices = app.submit_many("write_invoice", [{"item": f"book {n}"} for n in range(6)])
    app.work(until_idle=True)
    ends = Counter(attempt.outcome for each in orders for attempt in app.history(each.id))
    last_invoice = max(app.history(each.id)[0].ended_at for each in invoices)
    last_order = max(app.history(each.id)[-1].ended_at for each in orders)
    print(f"{ends['completed']} orders done, never more than {inventory.most_busy} at the inventory")
    print(f"reschedules: {ends['rescheduled'] > 0}, retries: {ends['retried']}")
    print(f"invoices went on meanwhile: {last_invoice < last_order}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("FOREBAY_HOME", folder)
        with app:
            main()
