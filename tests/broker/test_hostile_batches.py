"""Batches that no honest producer sends: Kafka's error for that partition, and for it alone."""

import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from siltstone.protocol.core.constants import CONTROL, LOG_APPEND_TIME
from siltstone.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    RecordListTooLarge,
    RecordTooLarge,
)
from siltstone.protocol.records import compression
from siltstone.protocol.records.build import frame_batch
from siltstone.protocol.records.record import unfold_records
from tests.support.batches import make_batch
from tests.support.clock import now
from tests.support.produce_requests import request_entity
from tests.support.running import Running, a_broker

CORRUPT, INVALID = CorruptMessage.code, InvalidRecord.code


broker = a_broker(
    topics={
        "plain": (2, {}),
        "short": (1, {"segment.bytes": "20000"}),
        "compacted": (1, {"cleanup.policy": "compact"}),
    }
)


@pytest.fixture
def unpacking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that have opened batches."""
    names: list[str] = []

    def unpack(codec: int, data: memoryview, max_record_bytes: int) -> Iterator[bytes]:
        names.append(threading.current_thread().name)
        return unfold_records(codec, data, max_record_bytes)

    monkeypatch.setattr("siltstone.storage.appending.validation.unfold_records", unpack)
    return names


def good(rows: int = 3, **fields: int) -> bytearray:
    """Return a batch that is taken."""
    return make_batch(rows, timestamp=now(), **fields)


def huge() -> bytes:
    """Return a batch of one record that is larger than a topic takes by default."""
    return bytes(make_batch([(b"k", bytes(1 << 20))], timestamp=now()))


def changed(at: int, layout: str, value: int) -> Callable[[], bytes]:
    """Return what makes a batch with another value at a position, its CRC left as it was."""

    def make() -> bytes:
        batch = good()
        struct.pack_into(layout, batch, at, value)
        return bytes(batch)

    return make


def packed(codec: int, payload: bytes, count: int = 1) -> bytes:
    """Return a batch around bytes that claim to be records."""
    moment = now()
    return bytes(
        frame_batch(payload, count, codec=codec, base_timestamp=moment, max_timestamp=moment)
    )


BAD: dict[str, tuple[Callable[[], bytes | None], Any]] = {
    "null": (lambda: None, INVALID),
    "nothing": (lambda: b"", INVALID),
    "half a header": (lambda: bytes(good()[:30]), INVALID),
    "half a batch": (lambda: bytes(good()[:-1]), INVALID),
    "two batches": (lambda: bytes(good() + good()), INVALID),
    "a wrong CRC": (changed(17, ">I", 1), CORRUPT),
    "a flipped bit in the last record": (lambda: bytes(good()[:-1]) + b"\xff", CORRUPT),
    "a length of zero": (changed(8, ">i", 0), CORRUPT),
    "a negative length": (changed(8, ">i", -1), CORRUPT),
    "a length below the header": (changed(8, ">i", 48), CORRUPT),
    "a length beyond the frame": (changed(8, ">i", 2**31 - 13), INVALID),
    "the largest length": (changed(8, ">i", 2**31 - 1), INVALID),
    "magic 0": (changed(16, ">b", 0), INVALID),
    "magic 1": (changed(16, ">b", 1), INVALID),
    "magic 3": (changed(16, ">b", 3), CORRUPT),
    "a base offset": (lambda: bytes(good(base_offset=7)), INVALID),
    "a count too high": (lambda: packed(0, bytes(good()[61:]), 4), INVALID),
    "a count too low": (lambda: packed(0, bytes(good()[61:]), 2), INVALID),
    "no records": (lambda: packed(0, b"", 0), INVALID),
    "a negative count": (lambda: packed(0, b"", -1), INVALID),
    "the control bit": (lambda: bytes(good(flags=CONTROL)), INVALID),
    "a producer without a sequence": (
        lambda: bytes(good(producer_id=5, base_sequence=-1)),
        INVALID,
    ),
    "an unknown codec": (lambda: packed(7, b"abc"), INVALID),
    "more than max.message.bytes": (huge, RecordTooLarge.code),
}


SNAPPY_HEAD = bytes.fromhex("82534e4150505900 00000001 00000001")


def request(records: dict[tuple[str, int], bytes | None]) -> Any:
    """Return a Produce request."""
    rows = [(topic, [(index, data)]) for (topic, index), data in records.items()]
    return request_entity(9, -1, 5_000, None, rows)


def codes(response: Any) -> list[Any]:
    """Return the error codes of a response in its order."""
    return [each.error_code for topic in response.responses for each in topic.partition_responses]


@pytest.mark.parametrize(("make", "code"), BAD.values(), ids=BAD.keys())
async def test_bad_batch_is_refused_alone(
    broker: Running, make: Callable[[], bytes | None], code: Any
) -> None:
    """The partition gets its error and no byte of it; the others of the request are served."""
    caller = await broker.call()
    answer = await caller.ask(
        request({("plain", 0): make(), ("plain", 1): bytes(good()), ("compacted", 0): make()})
    )

    logs = broker.topics.logs
    assert codes(answer) == [code, 0, code]
    assert logs["plain", 0].size == logs["compacted", 0].size == 0
    assert logs["plain", 1].log_end_offset == 3


@pytest.mark.parametrize(
    "payload",
    [
        SNAPPY_HEAD + bytes.fromhex("7fffffff 00"),
        SNAPPY_HEAD + bytes.fromhex("ffffffff 00"),
        SNAPPY_HEAD + bytes.fromhex("00000006 ffffffff0f 00"),
        bytes.fromhex("ffffffff0f 00"),
    ],
    ids=["chunk", "negative", "unfolded", "raw"],
)
async def test_cve_2023_34455_snappy_that_states_gigabytes_is_refused(
    broker: Running, payload: bytes
) -> None:
    """CORRUPT_MESSAGE, where the broker opens batches; nothing is stored."""
    caller = await broker.call()
    batch = packed(compression.SNAPPY, payload)
    answer = await caller.ask(request({("compacted", 0): batch, ("plain", 0): bytes(good())}))

    assert codes(answer) == [CORRUPT, 0]
    assert broker.topics.logs["compacted", 0].size == 0


TOLD: dict[str, tuple[Callable[[], bytes], bool]] = {
    "a gap in the sequence": (lambda: bytes(good(producer_id=5, base_sequence=9)), True),
    "the control bit": (lambda: bytes(good(flags=CONTROL)), True),
    "a wrong CRC": (changed(17, ">I", 1), False),
    "half a batch": (lambda: bytes(good()[:-1]), False),
    "too many bytes": (huge, False),
}


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize(("make", "is_told"), TOLD.values(), ids=TOLD.keys())
async def test_where_the_log_begins_is_told_when_the_log_refuses(
    broker: Running, make: Callable[[], bytes], others: int, *, is_told: bool
) -> None:
    """As Kafka does; -1 where the batch is not looked into, or cannot be stored by anybody."""
    caller = await broker.call()
    first = bytes(good(producer_id=5, base_sequence=0))
    await caller.ask(request({("plain", 0): first}))
    rest = {("plain", 1): bytes(good())} if others else {}

    answer = await caller.ask(request({("plain", 0): make(), **rest}))

    refused = answer.responses[0].partition_responses[0]
    assert refused.error_code
    assert refused.log_start_offset == (0 if is_told else -1)


COUNTED = {
    "a wrong CRC": ("InvalidMessageCrc", 1),
    "magic 1": ("InvalidMagicNumber", 1),
    "a base offset": ("InvalidOffsetOrSequence", 1),
    "no records": ("InvalidOffsetOrSequence", 1),
    "a producer without a sequence": ("InvalidOffsetOrSequence", 1),
    "records without keys": ("NoKeyCompactedTopic", 2),
}


@pytest.mark.parametrize("fault", COUNTED)
async def test_fault_is_counted_as_kafka_does(broker: Running, fault: str) -> None:
    """Each of Kafka's meters counts its own kind; records without a key one by one."""
    kind, count = COUNTED[fault]
    keyless = make_batch([(b"k", b"v"), (None, b"v"), (None, None)], timestamp=now())
    make = BAD[fault][0] if fault in BAD else lambda: bytes(keyless)
    caller = await broker.call()
    await caller.ask(request({("compacted", 0): make()}))

    counted = broker.requests.invalid_records
    assert {each: number for each, number in counted.items() if number} == {kind: count}


FAILURES = {
    "a wrong CRC": 0,
    "more than max.message.bytes": 0,
    "the control bit": 1,
    "no records": 1,
}


@pytest.mark.parametrize(("fault", "count"), FAILURES.items())
async def test_failed_produces_are_counted_by_topic(
    broker: Running, fault: str, count: int
) -> None:
    """As Kafka does: not what is damaged or too large, which is the producer's own fault."""
    caller = await broker.call()
    await caller.ask(request({("plain", 0): BAD[fault][0](), ("compacted", 0): bytes(good())}))

    topics = broker.topics.topics
    assert topics["plain"].failed_produces == count
    assert topics["compacted"].failed_produces == 0


async def test_batch_larger_than_a_segment(broker: Running) -> None:
    """It could never be stored."""
    caller = await broker.call()
    answer = await caller.ask(request({("short", 0): bytes(good(2000))}))

    assert codes(answer) == [RecordListTooLarge.code]


async def test_log_append_time_bit_is_cleared(broker: Running) -> None:
    """On a topic of CreateTime it is not the producer's to set, and no reason to refuse."""
    caller = await broker.call()
    answer = await caller.ask(request({("plain", 0): bytes(good(flags=LOG_APPEND_TIME))}))

    assert codes(answer) == [0]


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=compression.NAMES[1:])
@pytest.mark.parametrize("junk", [b"", b"\x00", b"\xff" * 100, bytes(range(256))])
async def test_junk_for_a_codec(broker: Running, codec: int, junk: bytes) -> None:
    """Where the records have to be opened, bytes that no codec wrote are refused."""
    caller = await broker.call()
    answer = await caller.ask(request({("compacted", 0): packed(codec, junk)}))

    assert codes(answer) in ([CORRUPT], [INVALID])


_LARGE = {"cleanup.policy": "compact", "max.message.bytes": "10000000"}


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=compression.NAMES[1:])
@pytest.mark.parametrize("unfolded", [1 << 20, 60 << 20, 70 << 20])
async def test_bombs_do_not_hold_the_loop(
    broker: Running, codec: int, unfolded: int, unpacking: list[str]
) -> None:
    """A batch that may become large is opened on a codec thread, however small; 64 MiB at most."""
    await broker.topics.create("bombed", 1, _LARGE)
    payload = compression.compress(codec, bytes(unfolded))
    caller = await broker.call()
    answer = await caller.ask(request({("bombed", 0): packed(codec, payload)}))

    assert codes(answer) == [INVALID]
    assert answer.responses[0].partition_responses[0].log_start_offset == 0
    assert broker.topics.topics["bombed"].failed_produces == 1
    (thread,) = unpacking
    assert thread.startswith("codec")


async def test_small_batches_are_opened_in_place(broker: Running, unpacking: list[str]) -> None:
    """A hop to a thread would cost more than opening what cannot become large."""
    caller = await broker.call()
    answer = await caller.ask(request({("compacted", 0): bytes(good(codec=compression.SNAPPY))}))

    assert codes(answer) == [0]
    assert unpacking == ["MainThread"]
