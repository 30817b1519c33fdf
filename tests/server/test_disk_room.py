"""A store that was full is tried again when somebody asks, however many do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from forebay.app.forebay import Forebay
from forebay.errors import MaybeApplied
from forebay.server import disk_room
from forebay.server.service import Service


def test_all_who_ask_while_a_silent_store_is_tried_share_that_answer(
    app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_room, "_EVERY_S", 0.1)
    tried = 0

    class Silent:
        def __init__(self) -> None:
            self.app = app

        async def ask(self, _: Callable[[Forebay], None], __: Forebay) -> None:
            nonlocal tried
            tried += 1
            await asyncio.sleep(0.2)
            raise MaybeApplied("It has not answered.")

    async def scenario() -> None:
        room = disk_room.DiskRoom(cast("Service", Silent()))
        room.is_full()
        assert await asyncio.gather(*(room.still_full() for _ in range(5))) == [True] * 5
        assert tried == 1
        await asyncio.sleep(0.2)
        assert await room.still_full()
        assert tried == 2

    asyncio.run(scenario())
