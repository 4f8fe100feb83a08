"""Memory of a request while it is read: little more than its bytes, whatever it says of itself.

What the plain form makes of a request is what the compiled one makes.
"""

import random
import tracemalloc
from contextlib import suppress
from typing import Final

import pytest
from kio.index import load_request_schema

from siltstone.broker.api import APIS, Api
from siltstone.protocol import messages
from siltstone.protocol.core.fields import KINDS, Field
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import Description
from tests.support.kio_messages import encode, example, put_varint
from tests.support.newer_than_kio import versions_in_kio

pytestmark = pytest.mark.slow

TIMES: Final = 16
"""The bytes of a request."""
ELEMENTS: Final = 8 << 20
"""Memory of all elements that a request may have (`MAX_ELEMENTS`, or fewer)."""
FEW: Final = 16 << 10
"""A request of some bytes takes its row, or the error that refuses it."""
OF_A_SMALL_ONE: Final = 64
"""Times its bytes: an empty element of two bytes is a tuple of a hundred."""
BEFORE_LOGIN: Final = [each for each in APIS if each.key in {17, 18, 36}]
LARGEST_BEFORE_LOGIN: Final = 512 << 10
"""Bytes: `sasl.server.max.receive.size`."""
_SIZES: Final = (1, 1, 2, 2, 4, 4, 8, 8, 16)
_LIES: Final = (2**31 - 1, 2**30, 100_000, 25_000)


def taken(api: Api, version: int, body: bytes) -> int:
    """Return how many bytes were allocated at once while a body was read, or refused."""
    message, _ = api.load_messages()
    buffer = bytearray(body)
    message.table(version)
    tracemalloc.start()
    try:
        with suppress(ProtocolError):
            message.read(version, buffer, 0, len(buffer), api.max_elements)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def filled(api: Api, version: int, *, depth: int) -> bytes:
    """Return a body whose arrays at a depth have as many small elements as a request may have."""
    message, _ = api.load_messages()
    writer = _Filled(message.is_flexible(version), api.max_elements, depth)
    return writer.write_struct(messages.describe(message.struct, version), 0)


class _Filled:
    """Writes the smallest value of each field, and large arrays at one depth."""

    def __init__(self, is_flexible: bool, room: int, depth: int) -> None:
        self._is_flexible = is_flexible
        self._room = room
        self._depth = depth

    def write_struct(self, description: Description, depth: int) -> bytes:
        """Write a structure that lies in so many arrays."""
        plain = [each for each in description[1] if each.is_present and each.tag < 0]
        arrays = sum(each.is_array for each in plain)
        written = bytearray()
        for field in plain:
            if not field.is_array:
                written += self._write_one(field, depth)
                continue
            count = self._count(arrays, depth)
            written += self._write_length(count, 4)
            if count:
                element = field._replace(is_array=False, is_nullable=False)
                written += self._write_one(element, depth + 1) * count
        return bytes(written) + b"\0" * self._is_flexible

    def _count(self, arrays: int, depth: int) -> int:
        if depth == self._depth:
            return (self._room - depth * arrays) // arrays
        return int(depth < self._depth)

    def _write_one(self, field: Field, depth: int) -> bytes:
        kind = KINDS[field.kind]
        if kind == "struct":
            return b"\1" * field.is_nullable + self.write_struct(field.child, depth)
        if kind in {"string", "bytes", "records", "octets"}:
            return self._write_length(0, 2 if kind == "string" else 4)
        return b"\x7f" * _SIZES[field.kind]  # no small number, of which Python has one of each

    def _write_length(self, length: int, size: int) -> bytes:
        return put_varint(length + 1) if self._is_flexible else length.to_bytes(size, "big")


@pytest.mark.parametrize("api", APIS, ids=lambda each: each.name)
def test_as_many_elements_as_a_request_may_have(api: Api) -> None:
    """They take 16 times their bytes, and what so many of them may take beside."""
    for version in {api.versions[0], api.versions[-1]}:
        for depth in range(3):
            body = filled(api, version, depth=depth)
            assert taken(api, version, body) <= TIMES * len(body) + ELEMENTS


@pytest.mark.parametrize("api", APIS, ids=lambda each: each.name)
def test_lengths_that_are_not_true(api: Api) -> None:
    """Nothing is made for what is announced and does not come."""
    chance = random.Random(api.key)
    for version in versions_in_kio(api):
        body = encode(example(load_request_schema(api.key, version), 3, entries=1))
        for _ in range(10):
            lying = bytearray(body)
            at = chance.randrange(len(body) + 1)
            lie = chance.choice(_LIES)
            lying[at:at] = chance.choice((put_varint(lie), lie.to_bytes(4, "big")))
            assert taken(api, version, bytes(lying)) <= OF_A_SMALL_ONE * len(lying) + FEW


@pytest.mark.parametrize("api", BEFORE_LOGIN, ids=lambda each: each.name)
def test_strangers(api: Api) -> None:
    """A request that is served before a login takes no more than it has brought."""
    for version in versions_in_kio(api):
        is_flexible = api.load_messages()[0].is_flexible(version)
        size = LARGEST_BEFORE_LOGIN
        for body in (
            encode(example(load_request_schema(api.key, version), 3)),
            size.to_bytes(4, "big") + b"x" * size,
            put_varint(size + 1) + b"x" * size,
            b"\1\1" * is_flexible + put_varint(size) + b"\x00\x00" * (size // 2),
        ):
            assert taken(api, version, body) <= TIMES * len(body) + FEW
