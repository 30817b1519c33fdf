"""Has open stores closed before a fork, so that parent and child both open them again.

SQLite keeps in memory which locks its process holds on a file. A fork copies that memory but not the locks, so a child
that used the file would believe in locks which it does not have, and its commits could be lost.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """What has files open that must not be carried across a fork."""

    def before_fork(self) -> None: ...

    def after_fork(self, *, in_child: bool) -> None: ...


_LOCK = threading.Lock()
_WATCHED: weakref.WeakSet[Forkable] = weakref.WeakSet()
_WAITING: list[Forkable] = []


def watch(store: Forkable) -> None:
    with _LOCK:
        _WATCHED.add(store)


def _before() -> None:
    _LOCK.acquire()
    for store in list(_WATCHED):
        _WAITING.append(store)
        store.before_fork()


def _after(*, in_child: bool) -> None:
    for store in _WAITING:
        store.after_fork(in_child=in_child)
    _WAITING.clear()
    _LOCK.release()


os.register_at_fork(
    before=_before,
    after_in_parent=lambda: _after(in_child=False),
    after_in_child=lambda: _after(in_child=True),
)
