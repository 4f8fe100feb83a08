"""The records that client tests write, and the form in which the read ones are compared."""

import time
from typing import NamedTuple

HOUR = 3_600_000
START = int(time.time() * 1000) - HOUR


class Message(NamedTuple):
    """A record as it is passed to a producer; timestamp in ms."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


class Stored(NamedTuple):
    """A record as a consumer returns it."""

    offset: int
    message: Message


def sample(count: int = 60) -> list[Message]:
    """Return messages with every shape of key, value and header, and timestamps out of order.

    A null key with a null value, and a null header, are left out: kafka-python sends neither.

    Values compress, so that clients that drop a useless compression keep it. Timestamps repeat and
    step back: ten seconds forward for each message, every fourth one 25 s earlier.
    """
    return [_message(number) for number in range(count)]


def _message(number: int) -> Message:
    keys = (b"", f"key-{number}".encode(), bytes([0, 255, number % 256]), None)
    texts = (None, b"", f"value {number} ".encode() * (3 + number % 7), bytes(200 + number))
    key = keys[number % 4]
    value = texts[number // 4 % 4]
    headers: list[tuple[str, bytes | None]] = []
    if number % 3:
        headers = [("trace", f"{number:032x}".encode()), ("kölner", b""), ("trace", b"again")]
    return Message(
        key=key,
        value=b"keyless" if key is None and value is None else value,
        headers=tuple(headers),
        timestamp=START + 10_000 * number - (25_000 if number % 4 == 3 else 0),
    )


def stored(messages: list[Message], first: int = 0) -> list[Stored]:
    """Return the messages as a log holds them from offset `first`."""
    return [Stored(offset, message) for offset, message in enumerate(messages, first)]


def by_time(log: list[Stored], timestamp: int) -> Stored | None:
    """Return the first record at or after a timestamp, as ListOffsets defines it."""
    return next((each for each in log if each.message.timestamp >= timestamp), None)
