"""Remembers which slots a thread or an asyncio task has taken and not given back."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import asyncio

    from forebay.limits.slot import Slot


Reference = Callable[[], "Slot | None"]


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.references: list[Reference] = []
        self.pid = os.getpid()


class OpenSlots:
    """A task has its own, whatever thread it runs on; a thread has those that it took outside of any task.

    With `weak`, it does not keep a slot that nobody else has any more.
    """

    def __init__(self, *, weak: bool = False) -> None:
        self._weak = weak
        self._of_thread = _OfThread()
        self._of_task: WeakKeyDictionary[asyncio.Task[Any], list[Reference]] = WeakKeyDictionary()

    def add(self, slot: Slot) -> None:
        references = self._references()
        new: Reference = weakref.ref(slot) if self._weak else lambda: slot
        references[:] = [*(each for each in references if _is_open(each())), new]

    def mine(self) -> list[Slot]:
        """In the order in which the caller took them."""
        return [slot for each in self._references() if (slot := each()) is not None and slot.held]

    def _references(self) -> list[Reference]:
        task = _task()
        if task is not None:
            return self._of_task.setdefault(task, [])
        here = self._of_thread
        if here.pid != os.getpid():  # a forked child holds nothing of its parent's
            here.references, here.pid = [], os.getpid()
        return here.references


def _is_open(slot: Slot | None) -> bool:
    return slot is not None and slot.held


def _task() -> asyncio.Task[Any] | None:
    # A program that has not loaded it, which takes longer than all of ours, has no tasks.
    current = getattr(sys.modules.get("asyncio"), "current_task", None)
    try:
        return current() if current else None
    except RuntimeError:  # no loop runs here
        return None
