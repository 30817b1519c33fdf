"""Reserves loopback ports so that no two test runs of one machine ever choose the same one."""

import random
import socket

LOOPBACK = "127.0.0.1"

# Below the range from which systems take ports for outgoing connections: a server that is
# down for a moment finds its port free again. The highest companion stays below it too.
FIRST, LAST = 10_000, 21_999
TRIES = 200


class NoFreePortError(RuntimeError):
    """No free port was found in the range of the harness."""


class ReservedPorts:
    """Port numbers kept from other runs until `release`, whether or not a server listens on them.

    The mark is a bound UDP socket of the same number: exclusive, free of any file, and gone
    with the process. With a companion offset, each number n also reserves n + offset.
    """

    def __init__(self, count: int, companion_offset: int = 0) -> None:
        self._marks: list[socket.socket] = []
        offsets = {0, companion_offset}
        found: list[int] = []
        try:
            for number in random.sample(range(FIRST, LAST + 1), TRIES):
                if len(found) == count:
                    break
                if self._mark([number + offset for offset in offsets]):
                    found.append(number)
        except BaseException:
            self.release()
            raise
        if len(found) < count:
            self.release()
            raise NoFreePortError(f"fewer than {count} free ports among {TRIES} tried in {FIRST}-{LAST}")
        self.numbers = tuple(found)

    def _mark(self, numbers: list[int]) -> bool:
        marks: list[socket.socket] = []
        for number in numbers:
            mark = _bound_udp(number)
            if mark is not None:
                marks.append(mark)
            if mark is None or not _tcp_is_free(number):
                for taken in marks:
                    taken.close()
                return False
        self._marks += marks
        return True

    def release(self) -> None:
        for mark in self._marks:
            mark.close()
        self._marks.clear()


def _bound_udp(number: int) -> socket.socket | None:
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind((LOOPBACK, number))
    except OSError:
        mark.close()
        return None
    return mark


def _tcp_is_free(number: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Without it a port with connections in TIME_WAIT looks busy, though a server could take it.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, number))
        except OSError:
            return False
    return True
