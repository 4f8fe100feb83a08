"""Malformed frames by the million, each decided by a seed and a number.

They begin as valid requests: recorded from five client libraries, or written by kio for every API
and version, with an existing topic or a different value in every field. Then they are cut,
stretched, flipped, spliced, and get lengths and counts at the limits of their types, or a wrong
size prefix. `make_login` does the same to the requests of a login.
"""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any, Final

from kio.index import load_request_schema
from kio.serial import entity_reader

from siltstone.broker.api import APIS
from siltstone.protocol.records import compression
from siltstone.protocol.records.build import frame_batch
from tests.support.batches import make_batch
from tests.support.kio_messages import encode, example, smallest
from tests.support.kio_schemas import is_optional
from tests.support.newer_than_kio import versions_in_kio
from tests.support.recorded_frames import CLIENTS, body_of, exchanges_of

TARGET: Final = "target"
"""The topic that aimed requests are about; those that delete name another."""

_VALUES: Final[dict[str, Any]] = {
    "validate_only": True,
    "max_wait": timedelta(milliseconds=5),
    "partition": 0,
    "partition_index": 0,
    "index": 0,
    "fetch_offset": 0,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "leader_epoch": 0,
    "replica_id": -1,
    "session_id": 0,
    "session_epoch": -1,
    "acks": -1,
    "transactional_id": None,
    "num_partitions": 1,
    "count": 2,
    "replication_factor": 1,
    "assignments": (),
    "forgotten_topics_data": (),
    "partition_max_bytes": 1 << 20,
    "max_bytes": 1 << 20,
    "min_bytes": 0,
    "isolation_level": 0,
    "resource_type": 2,
    "config_operation": 0,
}
USER: Final = "fuzz"
PASSWORD: Final = "secret"
"""Of the user that may log in where there is SASL."""

_NAMES: Final = frozenset({"name", "topic", "topic_name", "resource_name"})
_DELETE_TOPICS: Final = 20
_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_INTERESTING: Final = {
    1: [0, 1, 2, 4, 0x7F, 0x80, 0xFE, 0xFF],
    2: [0, 1, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF],
    4: [0, 1, 0xFFFF, 0x10000, 0x7FFFFFF3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF],
    8: [0, 1, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF],
}
_VARINTS: Final = [
    b"\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80" * 9,
    b"\xff" * 11,
]


def make_frame(seed: int, number: int) -> bytes:
    """Return the frame of a number, size prefix included; the same for the same seed."""
    chance = random.Random(seed << 40 | number)
    kind = chance.random()
    if kind < 0.05:
        return _prefixed(_random_body(chance))
    if kind < 0.10:
        return chance.randbytes(chance.randrange(1, 100))
    body = bytearray(corpus()[chance.randrange(len(corpus()))])
    if kind < 0.20:
        body = bytearray(_with_batch(chance))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 8))):
        chance.choice(_MUTATIONS)(body, chance)
    if chance.random() < 0.1:
        return _with_wrong_size(bytes(body), chance)
    return _prefixed(bytes(body))


def make_login(seed: int, number: int) -> bytes:
    """Return the bytes of a client of a listener with SASL: a login, and then a request.

    Each part may be damaged. A login by PLAIN may be whole, so that the request is served.
    """
    chance = random.Random(seed << 40 | number | 1 << 39)
    version = chance.choice((0, 1, 1, 1))
    mechanism, tokens = chance.choice(_LOGINS)
    parts = [_request(_API_VERSIONS, 0)] if chance.random() < 0.5 else []
    parts.append(_request(_HANDSHAKE, version, _text(mechanism)))
    for token in tokens:
        damaged = bytearray(token)
        if chance.random() < 0.5:
            chance.choice(_MUTATIONS)(damaged, chance)
        sized = len(damaged).to_bytes(4, "big") + damaged
        parts.append(sized[4:] if version == 0 else _request(_AUTHENTICATE, 0, sized))
    if chance.random() < 0.3:
        chance.shuffle(parts)
    if chance.random() < 0.5:
        damaged = bytearray(chance.choice(parts))
        chance.choice(_MUTATIONS)(damaged, chance)
        parts[chance.randrange(len(parts))] = bytes(damaged)
    return b"".join(map(_prefixed, parts)) + make_frame(seed, number)


def _text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def _request(key: int, version: int, body: bytes = b"") -> bytes:
    return struct.pack(">hhih", key, version, 1, -1) + body


_SCRAM: Final = (
    f"n,,n={USER},r=fyko+d2lbbFgONRv".encode(),
    b"c=biws,r=fyko+d2lbbFgONRv,p=dGVzdA==",
)
_LOGINS: Final[tuple[tuple[str, tuple[bytes, ...]], ...]] = (
    ("PLAIN", (f"\0{USER}\0{PASSWORD}".encode(),)),
    ("PLAIN", (b"\0nobody\0wrong",)),
    ("SCRAM-SHA-256", _SCRAM),
    ("SCRAM-SHA-512", _SCRAM),
    ("OAUTHBEARER", (b"n,,\1auth=Bearer e30.e30.\1\1",)),
    ("GSSAPI", (b"\x60\x82\x01\x00",)),
)


@cache
def corpus() -> list[bytes]:
    """Return the bodies of valid requests, header included."""
    return [*_valid_bodies(), *_recorded_bodies()]


def _recorded_bodies() -> Iterator[bytes]:
    """Yield recorded requests; those that create something are changed to validate only."""
    for client in CLIENTS:
        for exchange in exchanges_of(client):
            kind = load_request_schema(exchange.key, exchange.version)
            start = body_of(exchange.request, is_flexible=kind.__flexible__)
            if any(field.name == "validate_only" for field in fields(kind)):
                entity, _ = entity_reader(kind)(exchange.request, start)
                yield exchange.request[4:start] + encode(replace(entity, validate_only=True))
            else:
                yield exchange.request[4:]


def _valid_bodies() -> Iterator[bytes]:
    for api in APIS:
        for version in versions_in_kio(api):
            kind = load_request_schema(api.key, version)
            for entity in (example(kind, 1), example(kind, 7, entries=1), smallest(kind)):
                yield _head(kind) + encode(entity)
            name = "doomed" if api.key == _DELETE_TOPICS else TARGET
            yield _head(kind) + encode(_aim(example(kind, 3, entries=1), name))


def _head(kind: Any) -> bytes:
    head = struct.pack(">hhih", kind.__api_key__, kind.__version__, 1, 4) + b"fuzz"
    return head + b"\0" if kind.__flexible__ else head


def _aim(entity: Any, name: str) -> Any:
    """Return the request with names and numbers that mean something to the broker."""
    changes: dict[str, Any] = {}
    for field in fields(entity):
        value = getattr(entity, field.name)
        if field.name in _NAMES and isinstance(value, str):
            changes[field.name] = name
        elif field.name in _VALUES and (_VALUES[field.name] is not None or is_optional(field)):
            changes[field.name] = _VALUES[field.name]
        elif field.name == "records":
            changes[field.name] = bytes(make_batch(3))
        elif is_dataclass(value):
            changes[field.name] = _aim(value, name)
        elif isinstance(value, tuple):
            changes[field.name] = tuple(
                _aim(item, name) if is_dataclass(item) else item for item in value
            )
    return replace(entity, **changes)


def _with_batch(chance: random.Random) -> bytes:
    """Return a Produce request whose batch is wrong inside but has the right CRC."""
    api = APIS[0]
    kind = load_request_schema(api.key, chance.randrange(api.versions[0], 13))
    codec = chance.randrange(8)
    payload = bytearray(make_batch(chance.randrange(1, 20))[61:])
    for _ in range(chance.randrange(4)):
        chance.choice(_MUTATIONS)(payload, chance)
    packed = bytes(payload)
    if 0 < codec <= compression.ZSTD and chance.random() < 0.8:
        packed = compression.compress(codec, packed)
    batch = frame_batch(
        packed,
        chance.choice((-1, 0, 1, 3, 20, 2**31 - 1)),
        codec=codec,
        flags=chance.choice((0, 0, 0, 8, 16, 32, 64, 128)),
        last_offset_delta=chance.choice((-1, 0, 2, 2**31 - 1)),
        base_timestamp=chance.choice((-1, 0, 1_700_000_000_000, 2**63 - 1)),
        max_timestamp=chance.choice((-1, 0, 1_700_000_000_000, -(2**63))),
        producer_id=chance.choice((-1, -1, 0, 2**63 - 1)),
        producer_epoch=chance.choice((-1, 0, 2**15 - 1)),
        base_sequence=chance.choice((-1, 0, 2**31 - 1)),
    )
    entity = _aim(example(kind, 3, entries=1), TARGET)
    (topic,) = entity.topic_data
    (partition,) = topic.partition_data
    topic = replace(topic, partition_data=(replace(partition, records=bytes(batch)),))
    return _head(kind) + encode(replace(entity, topic_data=(topic,)))


def _random_body(chance: random.Random) -> bytes:
    """Return a valid header, followed by random bytes."""
    api = chance.choice(APIS)
    version = chance.choice((*api.versions, -1, 99))
    head = struct.pack(">hhih", api.key, version, chance.randrange(1 << 31), -1)
    return head + chance.randbytes(chance.randrange(200))


def _prefixed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _with_wrong_size(body: bytes, chance: random.Random) -> bytes:
    size = chance.choice(
        (len(body) - 1, len(body) + 1, len(body) // 2, len(body) * 2, 0, -1, 2**31 - 1, -(2**31))
    )
    return struct.pack(">i", size) + body


def _flip(body: bytearray, chance: random.Random) -> None:
    if body:
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)


def _put_number(body: bytearray, chance: random.Random) -> None:
    width = chance.choice((1, 2, 4, 8))
    if len(body) >= width:
        at = chance.randrange(len(body) - width + 1)
        body[at : at + width] = chance.choice(_INTERESTING[width]).to_bytes(width, "big")


def _put_varint(body: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(body) + 1)
    body[at : at + chance.randrange(3)] = chance.choice(_VARINTS)


def _cut(body: bytearray, chance: random.Random) -> None:
    del body[chance.randrange(len(body) + 1) :]


def _remove(body: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(body) + 1)
    del body[at : at + chance.randrange(1, 9)]


def _insert(body: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(body) + 1)
    body[at:at] = chance.randbytes(chance.randrange(1, 9))


def _repeat(body: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(body) + 1)
    body[at:at] = body[at : at + chance.randrange(1, 60)] * chance.choice((1, 2, 50))


def _splice(body: bytearray, chance: random.Random) -> None:
    other = corpus()[chance.randrange(len(corpus()))]
    body[chance.randrange(len(body) + 1) :] = other[chance.randrange(len(other)) :]


_MUTATIONS: Final[tuple[Callable[[bytearray, random.Random], None], ...]] = (
    _flip,
    _flip,
    _put_number,
    _put_number,
    _put_varint,
    _cut,
    _remove,
    _insert,
    _repeat,
    _splice,
)
