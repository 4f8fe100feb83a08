"""Journal records that nobody can read: each is skipped with a line, and all else is served.

A client that may write ``__consumer_offsets`` may write anything into it, as in Apache Kafka.
"""

import random
import struct
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.broker.groups.expiry import expire
from siltstone.protocol.coordinator.consumer_group_records import (
    ConsumerGroupKey,
    CurrentAssignment,
    MemberMetadata,
    RecordType,
    ResolvedRegex,
    TargetMetadata,
    encode_key,
    encode_value,
)
from siltstone.protocol.coordinator.consumer_group_records import (
    GroupMetadata as ConsumerGroupMetadata,
)
from siltstone.protocol.coordinator.group_records import group_key, offset_key, put_group
from siltstone.protocol.coordinator.headed import MAX_EPOCH
from siltstone.protocol.messages.consumer_offsets import GroupMetadataValue, OffsetCommitValue
from siltstone.protocol.messages.consumer_offsets import MemberMetadata as ClassicMember
from siltstone.protocol.names import OFFSETS_TOPIC
from siltstone.protocol.records.build import build_batch, frame_batch
from siltstone.protocol.records.journal import Row
from siltstone.protocol.records.record import Record
from siltstone.storage.producers.checks import Origin
from tests.support import group_requests as ask
from tests.support.committed import put_offset
from tests.support.consumer_groups import subscription
from tests.support.logs import validated
from tests.support.running import Running, running

PARTITIONS = 3
SETTINGS = ("group.initial.rebalance.delay.ms=0", f"offsets.topic.num.partitions={PARTITIONS}")
SKIPPED = "record cannot be read and is skipped"
SECRET = b"secret"
TOPIC_ID = UUID(int=7)
COMMITTED = put_offset(OffsetCommitValue(7, -1, "", 0))
UNFOLDED = offset_key("g", "orders", 0)
REPLACED = "\N{REPLACEMENT CHARACTER}"


def classic(*members: ClassicMember, generation: int = 3) -> bytes:
    """Return the value of a classic group."""
    return put_group(
        GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol="range",
            leader="m",
            current_state_timestamp=1,
            members=members,
        )
    )


def member(member_id: str, instance_id: str | None = None) -> ClassicMember:
    """Return a member of a classic group."""
    return ClassicMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout=60_000,
        session_timeout=10_000,
        subscription=subscription("orders"),
        assignment=b"",
    )


def named(kind: RecordType, name: str = "m") -> bytes:
    """Return a key of the consumer group k."""
    return encode_key(ConsumerGroupKey(kind, "k", name))


def offset_of(group: bytes, topic: bytes = b"orders") -> bytes:
    """Return the key of an offset of names that may be anything."""
    sizes = [struct.pack(">h", len(each)) for each in (group, topic)]
    return b"\0\1" + sizes[0] + group + sizes[1] + topic + bytes(4)


METADATA = MemberMetadata(
    instance_id=None,
    rack_id=None,
    client_id="c",
    client_host="/h",
    subscribed_topic_names=("orders",),
    subscribed_topic_regex="o.*",
    rebalance_timeout_ms=9000,
    server_assignor=None,
    classic_member_metadata=None,
)
CURRENT = encode_value(
    RecordType.CURRENT_ASSIGNMENT, CurrentAssignment(5, 4, 0, {TOPIC_ID: {0: 5}}, {})
)
GROUP = encode_value(RecordType.METADATA, ConsumerGroupMetadata(5, 77))
GOOD: list[Row] = [
    (UNFOLDED, COMMITTED),
    (offset_key("g", "orders", 1), put_offset(OffsetCommitValue(7, 1, "text", 1, 1 << 60))),
    (group_key("c"), classic(member("m"), member("n", "i"))),
    (named(RecordType.METADATA), GROUP),
    (named(RecordType.MEMBER_METADATA), encode_value(RecordType.MEMBER_METADATA, METADATA)),
    (
        named(RecordType.TARGET_METADATA),
        encode_value(RecordType.TARGET_METADATA, TargetMetadata(5, 9)),
    ),
    (
        named(RecordType.TARGET_MEMBER),
        encode_value(RecordType.TARGET_MEMBER, {TOPIC_ID: frozenset({0, 1})}),
    ),
    (named(RecordType.CURRENT_ASSIGNMENT), CURRENT),
    (
        named(RecordType.REGULAR_EXPRESSION, "o.*"),
        encode_value(RecordType.REGULAR_EXPRESSION, ResolvedRegex(frozenset({"orders"}), 1, 1)),
    ),
]

UNREADABLE: dict[str, Row] = {
    "a key of one byte": (b"\0", SECRET),
    "a type of key that nobody knows": (b"\x03\xe7" + SECRET, SECRET),
    "a group of a negative length": (b"\0\1\xff\xfe" + SECRET + bytes(9), COMMITTED),
    "a group longer than the key": (b"\0\1\x7f\xff" + SECRET, COMMITTED),
    "a group that is null": (b"\0\2\xff\xff", classic()),
    "a group that is too long as text": (offset_of(b"\xff" * 32_767), COMMITTED),
    "a topic longer than the key": (UNFOLDED[:5] + b"\x7f\xff" + SECRET, COMMITTED),
    "metadata of a negative length": (UNFOLDED, COMMITTED[:14] + b"\xff\xfe" + bytes(6)),
    "metadata that is null": (UNFOLDED, COMMITTED[:14] + b"\xff\xff" + bytes(8)),
    "metadata longer than the value": (UNFOLDED, COMMITTED[:14] + b"\x7f\xff" + SECRET + bytes(8)),
    "an offset cut short": (UNFOLDED, COMMITTED[:-1]),
    "an empty offset": (UNFOLDED, b""),
    "an offset of a version to come": (UNFOLDED, b"\0\5" + COMMITTED[2:]),
    "an offset of a negative version": (UNFOLDED, b"\xff\xff" + COMMITTED[2:]),
    "a group of a version to come": (group_key("c"), b"\0\5" + classic(member("m"))[2:]),
    "a group cut short": (group_key("c"), classic(member("m"))[:-1]),
    "two thousand million members": (group_key("c"), classic()[:-4] + b"\x7f\xff\xff\xff"),
    "the last generation": (group_key("c"), classic(generation=MAX_EPOCH + 1)),
    "a member whose name ends too early": (named(RecordType.MEMBER_METADATA)[:-1], None),
    "metadata of a member of a version to come": (named(RecordType.MEMBER_METADATA), b"\0\1"),
    "an epoch cut short": (named(RecordType.METADATA), GROUP[:4]),
    "the last epoch": (named(RecordType.METADATA), GROUP[:2] + b"\x7f\xff\xff\xff" + GROUP[6:]),
    "two thousand million partitions": (
        named(RecordType.TARGET_MEMBER),
        b"\0\0\2" + bytes(16) + b"\xff\xff\xff\xff\7",
    ),
    "two thousand million tags": (named(RecordType.METADATA), GROUP[:6] + b"\xff\xff\xff\xff\7"),
}


async def write(home: Running, rows: list[Row]) -> None:
    """Write records into every partition of the journal, as they are."""
    await home.topics.create("orders", 2, {})
    journal = home.groups.journal
    await journal.ensure_created()
    for partition in range(PARTITIONS):
        for row in rows:
            journal.append(partition, [row])


async def offsets_of(home: Running, group: str) -> dict[tuple[str, int], int]:
    """Return all that a group has committed, as a client is told; it must be told without error."""
    (answer,) = (await (await home.call()).ask(ask.fetch(group))).groups
    assert answer.error_code.name == "none"
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("name", UNREADABLE)
async def test_a_record_that_can_not_be_read_is_skipped(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line names partition, offset and reason; all groups are served, and so is its own."""
    key, value = UNREADABLE[name]
    good = offset_key("other", "orders", 1), COMMITTED
    async with running(tmp_path, *SETTINGS) as home:
        await write(home, [good, (key, value), (offset_key("last", "orders", 0), COMMITTED)])

    async with running(tmp_path, *SETTINGS) as home:
        await home.groups.loaded.wait()
        lines = [each.getMessage() for each in caplog.records if SKIPPED in each.getMessage()]
        found = [await offsets_of(home, each) for each in ("g", "other", "last")]
        caller = await home.call()
        committed = [await caller.ask(ask.commit("g", {("orders", 0): 3}))]
        listed = await caller.ask(ask.list_groups())

    assert found == [{}, {("orders", 1): 7}, {("orders", 0): 7}]
    assert committed[0].topics[0].partitions[0].error_code.name == "none"
    assert {each.group_id for each in listed.groups} >= {"g", "other", "last"}
    assert [line.partition(" reason=")[0] for line in lines] == [
        f"{SKIPPED} partition={OFFSETS_TOPIC}-{partition} offset=1"
        for partition in range(PARTITIONS)
    ]
    assert not [line for line in lines if SECRET.decode() in line or len(line) > 200]


async def test_names_are_read_as_java_reads_them(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are U+FFFD; a client that asks by that name gets the offset."""
    async with running(tmp_path, *SETTINGS) as home:
        place = home.groups.journal.partition_for
        await write(home, [])
        for name, text in ((b"g\xff", "g" + REPLACED), (b"\xed\xa0\x80h", REPLACED + "h")):
            row = offset_of(name, b"orders\xfe"), COMMITTED[:14] + b"\0\1\xff" + bytes(8)
            home.groups.journal.append(place(text), [row])

    async with running(tmp_path, *SETTINGS) as home:
        await home.groups.loaded.wait()

        assert await offsets_of(home, "g" + REPLACED) == {("orders" + REPLACED, 0): 7}
        assert await offsets_of(home, REPLACED + "h") == {("orders" + REPLACED, 0): 7}


async def test_a_batch_whose_records_can_not_be_told_apart_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its checksum holds, its bytes are junk, packed or not; what comes behind it is read."""
    packed = bytearray(build_batch([Record(0, 0, b"k", b"v")], codec=4))
    async with running(tmp_path, *SETTINGS) as home:
        await write(home, [])
        log = home.topics.logs[OFFSETS_TOPIC, 0]
        for batch in (frame_batch(b"\x7fjunk", 1), frame_batch(b"junk", 1, codec=packed[22])):
            log.append(validated(batch), Origin.COORDINATOR)
        await write_again(home)

    async with running(tmp_path, *SETTINGS) as home:
        await home.groups.loaded.wait()
        groups = home.groups

        assert groups.journal.is_settled
        assert "g" in groups.offsets
        assert groups.journal.skipped == 2


async def write_again(home: Running) -> None:
    """Write an offset behind everything else."""
    home.groups.journal.append(0, [(UNFOLDED, COMMITTED)])


async def test_a_million_such_records_are_not_a_million_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten of a partition, and how many there are besides."""
    async with running(tmp_path, *SETTINGS) as home:
        await write(home, [])
        home.groups.journal.append(1, [(b"\0", b"")] * 500)

    async with running(tmp_path, *SETTINGS) as home:
        await home.groups.loaded.wait()

    lines = [each.getMessage() for each in caplog.records if "skipped" in each.getMessage()]
    assert len(lines) == 11
    assert lines[-1].endswith(f"partition={OFFSETS_TOPIC}-1 records=490")


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_in_the_journal_everybody_is_answered(
    seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Some bytes are changed, cut or added: loads end, and no request ends a connection."""
    chance = random.Random(seed)
    rows = [GOOD[number % len(GOOD)] for number in range(600)]
    async with running(tmp_path, *SETTINGS) as home:
        await write(home, [])
        journal = home.groups.journal
        for number, (key, value) in enumerate(rows):
            changed = mangle(key, chance) or b"" if chance.random() < 0.3 else key
            journal.append(number % PARTITIONS, [(changed, mangle(value, chance))])

    async with running(tmp_path, *SETTINGS) as home:
        groups = home.groups
        await groups.loaded.wait()
        assert groups.journal.is_settled
        caller = await home.call()
        listed = await caller.ask(ask.list_groups())
        for each in listed.groups:
            await caller.ask(ask.fetch(each.group_id))
            await caller.ask(ask.describe(each.group_id))
            await caller.ask(ask.describe_consumer(each.group_id))
            await caller.ask(ask.join(each.group_id))
            await caller.ask(ask.join(each.group_id, "m"))
            await caller.ask(ask.beat(each.group_id, "m", 3))
            await caller.ask(ask.consumer_beat(each.group_id, "m", 5))
            await caller.ask(ask.consumer_beat(each.group_id, "new", 0))
            await caller.ask(ask.leave(each.group_id, ("m", None)))
            await caller.ask(ask.commit(each.group_id, {("orders", 0): 5}))
            await caller.ask(ask.delete_offsets(each.group_id, ("orders", 0)))
        for _ in expire(groups):
            pass
        await caller.ask(ask.delete(*(each.group_id for each in listed.groups)))

    assert not [each.getMessage() for each in caplog.records if each.exc_info]


def mangle(data: bytes | None, chance: random.Random) -> bytes | None:
    """Change some bytes of a key or a value."""
    if data is None or chance.random() < 0.05:
        return None
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0:
                del changed[at:]
            case 1:
                changed[at:at] = chance.randbytes(chance.randrange(1, 5))
            case 2:
                changed[at : at + 4] = chance.choice((b"\xff" * 4, b"\x7f" + b"\xff" * 3, bytes(4)))
            case _ if at < len(changed):
                changed[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed)
