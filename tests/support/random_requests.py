"""Random requests of the APIs that clients send most; most of them are usual ones.

A field nearly always has a client's usual value, else a limit of its type, or the name of a missing
thing. The requests of a member follow the answers before; requests that would wait for others are
left out, so that each is answered at once.
"""

import random
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from struct import pack
from typing import Any, Final
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from siltstone.protocol.core.constants import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from siltstone.protocol.records.build import BatchFields
from tests.support.batches import TIMESTAMP, Row, make_batch
from tests.support.kio_messages import UNKNOWN_TAGS, encode, encode_with_unknown_tags
from tests.support.kio_schemas import EntityField, EntityTupleField, classify_field, get_field_tag

PRODUCE, FETCH, COMMIT, OFFSETS, JOIN, BEAT, LEAVE, SYNC = 0, 1, 8, 9, 11, 12, 13, 14
SERVED: Final = {
    PRODUCE: range(3, 14),
    FETCH: range(4, 19),
    COMMIT: range(2, 11),
    OFFSETS: range(1, 11),
    JOIN: range(10),
    BEAT: range(5),
    LEAVE: range(6),
    SYNC: range(6),
}
MEMBER_ID_REQUIRED: Final = 79
GROUPS: Final = ("g", "é" * 63)
"""The groups that have members, one at a time; the second has the longest name of the short way."""

_KEYS = (
    [PRODUCE] * 6 + [FETCH] * 7 + [COMMIT] * 4 + [BEAT] * 3 + [JOIN, SYNC] * 2 + [OFFSETS, LEAVE]
)
_DAMAGED = frozenset({PRODUCE, FETCH, COMMIT, OFFSETS, BEAT})  # no request that waits for others
_MOST = (1 << 31) - 1
_LEAST = -(1 << 31)
_HOUR_MS = 3_600_000


def _milliseconds(*values: int) -> list[timedelta]:
    return [timedelta(milliseconds=value) for value in values]


# Usual and unusual values of a field.
_USUAL_AND_ODD: Final[dict[str, tuple[list[Any], list[Any]]]] = {
    "transactional_id": ([None], ["", "tx"]),
    "acks": ([-1, 1], [0, 0, 0, 2, -2]),
    "timeout": (_milliseconds(1000), _milliseconds(0, -1, _MOST)),
    "index": ([0, 0, 0, 0, 1], [2, -1, _MOST]),
    "replica_id": ([-1], [0, 1, -2]),
    "replica_epoch": ([-1], [1]),
    "max_wait": (_milliseconds(0), _milliseconds(-1, 1, 2)),
    "min_bytes": ([1], [0, 0, 90, 200, 1 << 20, -1, _LEAST]),
    "max_bytes": ([50 << 20], [0, 1, 100, 300, 1 << 17, _MOST, -1, _LEAST]),
    "isolation_level": ([0, 1], [2, -1]),
    "current_leader_epoch": ([-1, 0], [1, -2]),
    "last_fetched_epoch": ([-1], [0, 1, -2]),
    "fetch_offset": ([0] * 8 + [*range(12)], [*range(12, 200, 7), -1, 1 << 40]),
    "log_start_offset": ([-1], [0, 5]),
    "partition_max_bytes": ([1 << 20], [0, 1, 100, 300, 1 << 17, _MOST, -1, _LEAST]),
    "replica_directory_id": ([None], [UUID(int=5)]),
    "high_watermark": ([None], [3]),
    "rack_id": ([""], ["r"]),
    "cluster_id": ([None], ["", "c"]),
    "retention_time": (_milliseconds(-1), _milliseconds(0, 5000, 1 << 50)),
    "committed_offset": ([7], [0, -1, 1 << 40]),
    "committed_leader_epoch": ([-1], [0, 3]),
    "committed_metadata": (["", None], ["m", "é" * 63, "é" * 64, "m" * 61, "m" * 4097]),
    "require_stable": ([False], [True]),
    "session_timeout": (_milliseconds(10_000), _milliseconds(0, -1, _MOST)),
    "rebalance_timeout": (_milliseconds(20_000), _milliseconds(_MOST)),
    "protocol_type": (["consumer"], ["", "connect"]),
    "protocol": (["range"], ["sticky"]),
    "protocol_name": (["range", None], [""]),
    "metadata": ([b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff"], [b""]),
    "reason": ([None], ["", "why"]),
    "assignment": ([b"mine"], [b"", b"a" * 300]),
    "member_epoch": ([-1], [0]),
    "partitions": ([(0,)], [(0, 1), (), (9,)]),
}
_SAME = {"partition": "index", "partition_index": "index", "partition_indexes": "partitions"}


class RandomRequests:
    """Makes frames, and learns from the answers which members exist and which session is open."""

    def __init__(self, chance: random.Random, topics: Mapping[str, bytes]) -> None:
        self.chance = chance
        first = next(iter(topics))
        ids = [UUID(bytes=each) for each in (*[topics[first]] * 8, *topics.values())]
        self._usual_and_odd = _USUAL_AND_ODD | {
            "topic": ([first] * 8 + [*topics], ["missing", "", "no/name", "n" * 127, "é"]),
            "topic_id": (ids, [UUID(int=0), UUID(int=1 << 70)]),
        }
        self._oddness = 0.0
        self._sequences = dict.fromkeys((7, 8), 0)
        self._members: dict[str, tuple[str, int]] = {}
        self._pending: dict[str, str] = {}
        self._session = (0, -1)
        self._correlation_id = 0
        self._said: dict[str, Any] = {}

    def make(self) -> tuple[Any, bytes]:
        """Return the class of the next request, and its frame."""
        chance = self.chance
        key = chance.choice(_KEYS)
        versions = SERVED[key]
        kind = load_request_schema(key, chance.choice([*versions, *versions[len(versions) // 2 :]]))
        self._oddness = chance.choice([0.01, 0.03, 0.1, 0.3])
        self._said = self._say(key)
        entity = self._entity(kind)
        is_tagged = kind.__flexible__ and self._is_odd()
        body = bytearray((encode_with_unknown_tags if is_tagged else encode)(entity))
        if self._is_odd():
            self._damage(body, only_cut=key not in _DAMAGED)
        return kind, self._frame(kind, body)

    def learn(self, kind: Any, answer: bytes) -> None:
        """Keep what the next requests need from the answer to the last one."""
        if kind.__api_key__ not in {FETCH, JOIN, LEAVE} or not answer:
            return
        response = load_response_schema(kind.__api_key__, kind.__version__)
        told: Any = entity_reader(response)(answer[9 if kind.__flexible__ else 8 :], 0)[0]
        if kind.__api_key__ == FETCH:
            self._learn_session(told)
        elif self._said["group_id"] in GROUPS:
            self._learn_member(kind.__api_key__, told)

    def _learn_session(self, told: Any) -> None:
        session_id, epoch = self._said["session_id"], self._said["session_epoch"]
        if told.error_code if hasattr(told, "error_code") else False:
            self._session = (0, -1)
        elif getattr(told, "session_id", 0):
            self._session = told.session_id, epoch + 1 if session_id == told.session_id else 1
        elif session_id == self._session[0]:
            self._session = (0, -1)

    def _learn_member(self, key: int, told: Any) -> None:
        group = self._said["group_id"]
        if key == LEAVE:
            left = [each.error_code for each in getattr(told, "members", (told,))]
            if not told.error_code and not all(left) and self._said["is_member"]:
                self._members.pop(group, None)
                self._pending.pop(group, None)
        elif told.error_code == MEMBER_ID_REQUIRED:
            self._pending[group] = told.member_id
        elif not told.error_code:
            self._pending.pop(group, None)
            self._members[group] = told.member_id, told.generation_id

    def _say(self, key: int) -> dict[str, Any]:
        """Return the values that must match each other."""
        chance = self.chance
        session_id, epoch = self._session
        if not session_id or chance.random() < 0.7:
            session_id, epoch = chance.choice([(0, -1)] * 20 + [(0, 0)] * 3 + [(0, 1), (5, 1)])
        elif chance.random() < 0.2:
            epoch = chance.choice([-1, 0, epoch + 1])
        group = chance.choice(GROUPS)
        member_id, generation = self._members.get(group, ("", -1))
        member_id = self._pending.get(group, member_id)
        is_member = True
        if key != JOIN and chance.random() < 0.3:
            is_member = False
            group, member_id, generation = chance.choice(
                [
                    ("simple", "", -1),
                    ("s" * 126, "", -1),
                    ("s" * 127, "", -1),
                    ("", "", -1),
                    (group, "nobody", generation),
                    (group, member_id, generation + 1),
                    (group, "é" * 63, -1),
                    (group, "é" * 64, 0),
                ]
            )
        elif key == JOIN and chance.random() < 0.1:
            is_member = False
            member_id = "nobody"
        instance = None
        if chance.random() < (0.1 if key == JOIN else 0.03):
            instance = chance.choice(["", "instance"])
        if key == JOIN and not member_id and group in self._members:
            is_member = False
            member_id = "nobody"
        return {
            "session_id": session_id,
            "session_epoch": epoch,
            "group_id": group,
            "member_id": member_id,
            "generation_id": generation,
            "generation_id_or_member_epoch": generation,
            "group_instance_id": instance,
            "is_member": is_member,
        }

    def _entity(self, kind: Any) -> Any:
        """Return an entity whose fields are as they are named."""
        values = {}
        for field in fields(kind):
            is_tagged = get_field_tag(field) is not None
            match classify_field(field):
                case EntityField(nested):
                    if not is_tagged or self._is_odd():
                        values[field.name] = self._entity(nested)
                case EntityTupleField(nested):
                    values[field.name] = tuple(
                        self._entity(nested) for _ in range(self._count(field.name))
                    )
                case _:
                    value = self._value(field.name, kind)
                    if value is not None or not is_tagged:
                        values[field.name] = value
        return kind(**values)

    def _is_odd(self) -> bool:
        return self.chance.random() < self._oddness

    def _count(self, name: str) -> int:
        if name == "forgotten_topics_data":
            return self.chance.choice([1, 2]) if self._is_odd() else 0
        fewest = 1 if name == "members" else 0  # nobody at all would leave, and it would succeed
        return self.chance.choice([fewest, 2, 3]) if self._is_odd() else 1

    def _value(self, name: str, kind: Any) -> Any:
        """Return a value for a field."""
        if name in self._said:
            return self._said[name]
        if name == "records":
            return self._records()
        if name == "name":
            name = "protocol" if kind.__name__.startswith("JoinGroup") else "topic"
        usual, odd = self._usual_and_odd[_SAME.get(name, name)]
        return self.chance.choice(odd if self._is_odd() else usual)

    def _records(self) -> bytes | None:
        """Return a producer's records for a partition: nearly always one valid batch."""
        chance = self.chance
        rows: list[Row] = [
            (b"k%d" % chance.randrange(9), chance.randbytes(chance.choice([0, 5, 40])))
            for _ in range(chance.choice([1, 1, 2, 5]))
        ]
        if self._is_odd():
            return self._odd_records(rows)
        codec = chance.choice([0] * 12 + [1, 2, 3, 4])
        if chance.random() < 0.04:
            rows = [(b"k", chance.randbytes(chance.choice([8, 70, 150, 300]) << 10))]
        of_producer = self._of_producer(len(rows)) if chance.random() < 0.2 else {}
        return bytes(make_batch(rows, codec=codec, **of_producer))

    def _odd_records(self, rows: list[Row]) -> bytes | None:
        chance = self.chance
        good = make_batch(rows)
        damaged = bytearray(good)
        damaged[chance.randrange(len(good))] ^= 1 << chance.randrange(8)
        moved = chance.choice([-30 * 24 * _HOUR_MS, -_HOUR_MS, 2 * _HOUR_MS, -TIMESTAMP - 1])
        odd: list[bytes | bytearray | None] = [
            None,
            b"",
            bytes(61),
            good * 2,
            good[: -chance.randrange(1, 40)],
            good + b"tail",
            make_batch([(None, b"v"), (b"k", None)]),
            *[damaged] * 3,
            *[make_batch(rows, timestamp=TIMESTAMP + moved)] * 2,
            *[make_batch(rows, **self._odd_fields())] * 5,
        ]
        chosen = chance.choice(odd)
        return None if chosen is None else bytes(chosen)

    def _odd_fields(self) -> BatchFields:
        chance = self.chance
        odd: list[BatchFields] = [
            {"flags": LOG_APPEND_TIME},
            {"flags": CONTROL},
            {"flags": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0},
            {"flags": 0x40},
            {"flags": 7},
            {"last_offset_delta": 9},
            {"max_timestamp": TIMESTAMP + 77},
            {"base_timestamp": TIMESTAMP - 5},
            {"leader_epoch": 4},
            {"producer_id": 9, "producer_epoch": -1, "base_sequence": -1},
            {"producer_id": 9, "producer_epoch": 0, "base_sequence": -1},
        ]
        return chance.choice(odd)

    def _of_producer(self, count: int) -> BatchFields:
        """Return the fields of a batch that is the next one, a repeated one, or too early."""
        producer_id = self.chance.choice([*self._sequences])
        sequence = self._sequences[producer_id]
        wrong = self.chance.choice([0] * 8 + [-count, 1])
        self._sequences[producer_id] = sequence + count + wrong
        return {
            "producer_id": producer_id,
            "producer_epoch": self.chance.choice([0] * 20 + [1]),
            "base_sequence": max(0, sequence + wrong),
        }

    def _damage(self, body: bytearray, *, only_cut: bool) -> None:
        chance = self.chance
        how = 0 if only_cut else chance.randrange(4)
        if not body:
            return
        if how == 0:
            del body[chance.randrange(len(body)) :]
        elif how == 1:
            body += chance.randbytes(chance.randrange(1, 9))
        else:
            at = chance.randrange(min(len(body), 90))
            body[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, body[at] ^ 1, body[at] ^ 2])

    def _frame(self, kind: Any, body: bytearray) -> bytes:
        """Return a frame whose head is as clients write it, and sometimes longer."""
        self._correlation_id += 1
        name = self.chance.choice(
            [None, b"", b"client", b"client", b"c" * 200, "é".encode(), b"caf\xe9"]
        )
        size = -1 if name is None else len(name)
        head = pack(">hhih", kind.__api_key__, kind.__version__, self._correlation_id, size)
        head += name or b""
        if kind.__flexible__:
            head += b"\2" + UNKNOWN_TAGS if self._is_odd() else b"\0"
        return pack(">i", len(head) + len(body)) + head + body
