"""Messages between a worker and its children."""

import struct

import pytest

from forebay.engine import wire
from forebay.errors import TooLarge


def test_messages_come_out_whole_however_they_arrive() -> None:
    messages: list[wire.Message] = [{"run": [["é", None, 1.5]]}, {}, {"long": "x" * 70_000}]
    stream = b"".join(wire.pack(message) for message in messages)
    for step in (1, 7, len(stream)):
        inbox = wire.Inbox()
        got = [each for at in range(0, len(stream), step) for each in inbox.feed(stream[at : at + step])]
        assert got == messages


def test_an_announced_size_beyond_all_bounds_is_refused_before_it_is_waited_for() -> None:
    with pytest.raises(TooLarge):
        list(wire.Inbox().feed(struct.pack(">I", wire.MAX_MESSAGE + 1)))


def test_a_reader_hands_out_one_message_at_a_time_and_none_when_the_other_side_is_gone() -> None:
    parts = [wire.pack({"a": 1}) + wire.pack({"b": 2}), b""]

    class Stream:
        def recv(self, size: int, /) -> bytes:
            return parts.pop(0)

    reader = wire.Reader(Stream())
    assert (reader.next(), reader.waiting) == ({"a": 1}, True)
    assert (reader.next(), reader.waiting) == ({"b": 2}, False)
    assert reader.next() is None
