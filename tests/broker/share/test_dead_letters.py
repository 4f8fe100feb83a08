"""Dead letters: the topic and its rules, headers, copies of records, and what is given up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.broker.share.dead_letters import DeadLetters
from siltstone.broker.share.key import Letters, ShareKey
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.compression import ZSTD
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage import files
from siltstone.storage.appending.validation import validate
from siltstone.storage.log.log import Log
from tests.broker.share.test_states import key_of, open_home
from tests.support.appending import append
from tests.support.services import ServicesOnDisk
from tests.support.share_members import GROUP, ShareMember, make_queue
from tests.support.waiting import give_turns_until

COPY = {"errors.deadletterqueue.copy.record.enable": "true"}
TOO_OFTEN = b"Offset delivery count exceeded the threshold."
RELEASE, ACCEPT, REJECT = 2, 1, 3
AUTO = "errors.deadletterqueue.auto.create.topics.enable"


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """Return a broker whose group has a topic for dead letters that may be made."""
    home = await open_home(tmp_path, **{AUTO.replace(".", "_"): "true"}, num_partitions="2")
    await settle(home)
    yield home
    await home.close()


async def settle(home: ServicesOnDisk, name: str = "dlq.g", group: str = "g", **more: str) -> None:
    """Give a group its settings."""
    own = {"errors.deadletterqueue.topic.name": name, **more}
    await home.services.settings.alter_group(group, own)


def store(home: ServicesOnDisk, partition: int, *values: bytes, codec: int = 0) -> None:
    """Write records with keys and values, as one batch."""
    log = home.services.topics.find_log("t", partition)
    now_ms = home.clock.now_ms()
    records = [Record(at, now_ms, b"k%d" % at, value) for at, value in enumerate(values)]
    batch = build_batch(records, codec=codec)
    log.append(validate(memoryview(batch), log.config, now_ms))


async def send(
    home: ServicesOnDisk, first: int, last: int, partition: int = 0, *, is_rejected: bool = False
) -> None:
    """Return when letters are written or given up."""
    done = asyncio.Event()
    letters = Letters(key_of(home, partition), first, last, 5, is_rejected)
    letters_of(home).send(letters, done.set)
    await asyncio.wait_for(done.wait(), 10)


def letters_of(home: ServicesOnDisk) -> DeadLetters:
    """Return the writer."""
    return home.services.coordinators.get().dead_letters.get()


def stored(home: ServicesOnDisk, topic: str = "dlq.g", partition: int = 0) -> list[Record]:
    """Return the letters of a partition."""
    log = home.services.topics.find_log(topic, partition)
    read = log.read(0, 1 << 24, log.high_watermark)
    assert read is not None
    source = read.slice
    data = memoryview(files.read_at(source.file.fileno(), source.size, source.position))
    found: list[Record] = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        found += iterate_records(data[:size])
        data = data[size:]
    return found


async def test_headers_say_which_record_it_was(home: ServicesOnDisk) -> None:
    """Kafka's names, in its order; the topic is made with its settings."""
    store(home, 3, b"a", b"b")
    await send(home, 1, 1, 3, is_rejected=True)

    [letter] = stored(home, partition=1)
    assert (letter.key, letter.value) == (None, None)
    assert letter.headers == (
        (b"__dlq.errors.topic", b"t"),
        (b"__dlq.errors.partition", b"3"),
        (b"__dlq.errors.offset", b"1"),
        (b"__dlq.errors.group", b"g"),
        (b"__dlq.errors.delivery.count", b"5"),
        (b"__dlq.errors.message", b"Offset rejected by client."),
    )
    topic = home.services.topics.topics["dlq.g"]
    assert topic.partitions == 2
    assert topic.config.errors_deadletterqueue_group_enable
    assert letters_of(home).written == {"g": 1}


@pytest.mark.parametrize("codec", [0, ZSTD])
async def test_keys_and_values_are_copied_if_wanted(home: ServicesOnDisk, codec: int) -> None:
    """Of whole batches; an offset that the log has no more is a letter with headers alone."""
    await settle(home, **COPY)
    store(home, 0, *(b"v%d" % number for number in range(6)), codec=codec)
    store(home, 0, b"w", codec=codec)
    await send(home, 2, 8)

    letters = stored(home)
    assert [each.value for each in letters] == [b"v2", b"v3", b"v4", b"v5", b"w", None, None]
    assert [each.key for each in letters][:2] == [b"k2", b"k3"]
    assert [dict(each.headers)[b"__dlq.errors.offset"] for each in letters] == [
        b"%d" % offset for offset in range(2, 9)
    ]
    assert dict(letters[0].headers)[b"__dlq.errors.message"] == (TOO_OFTEN)


async def test_letters_are_as_many_batches_as_they_need(home: ServicesOnDisk) -> None:
    """By max.message.bytes of their topic; a record that does not fit has its headers alone."""
    own = {"errors.deadletterqueue.group.enable": "true", "max.message.bytes": "5000"}
    await home.services.topics.create("dlq.g", 1, own)
    await settle(home, **COPY)
    store(home, 0, *(bytes(1500) for _ in range(10)), bytes(6000))
    await send(home, 0, 10)

    assert [len(each.value or b"") for each in stored(home)] == [1500] * 10 + [0]


async def test_many_letters(home: ServicesOnDisk) -> None:
    """Two thousand, which are more than are made at once."""
    await send(home, 0, 1999)

    assert len(stored(home)) == 2000


@pytest.mark.parametrize("fault", ["auto", "topic", "prefix", "name"])
async def test_what_is_given_up(home: ServicesOnDisk, fault: str) -> None:
    """The settings do not fit: the letters are lost, and counted."""
    name = "dlq.g"
    match fault:
        case "auto":
            await home.services.settings.alter(cluster={AUTO: "false"})
        case "topic":
            await home.services.topics.create(name, 1, {})
        case "prefix":
            name = "letters"
        case _:
            name = "dlq.*"
    await settle(home, name)
    await send(home, 0, 0)

    assert letters_of(home).failed == {"g": 1}
    assert letters_of(home).written == {}
    assert (name in home.services.topics.topics) == (fault == "topic")


async def test_what_wants_letters(home: ServicesOnDisk) -> None:
    """A group with a topic, from level 2 of share.version on."""
    letters, settings = letters_of(home), home.services.settings

    assert letters.is_wanted(settings.group_config("g"))
    assert not letters.is_wanted(settings.group_config("h"))


async def worker(home: ServicesOnDisk) -> tuple[ShareMember, Log]:
    """Return a member of a group whose records are delivered twice at most."""
    await settle(home, group=GROUP, **{"share.delivery.count.limit": "2"})
    topic, log = await make_queue(home)
    append(log, 6)
    return ShareMember(home, [topic]), log


async def test_rejected_records_and_those_at_their_limit(home: ServicesOnDisk) -> None:
    """They are among the dead letters before they are archived, and the queue goes on."""
    member, _ = await worker(home)
    topic = member.topics[0]
    assert await member.acquire() == [(0, 5, 1)]
    assert await member.acknowledge(0, 1, [REJECT]) == 0
    assert await member.acknowledge(2, 5, [RELEASE]) == 0
    assert await member.acquire() == [(2, 5, 2)]
    assert await member.acknowledge(2, 3, [RELEASE]) == 0
    assert await member.acknowledge(4, 5, [ACCEPT]) == 0
    await give_turns_until(lambda: letters_of(home).written.get(GROUP) == 4, "four letters")
    await member.acquire()

    told = [dict(each.headers) for each in stored(home)]
    assert [each[b"__dlq.errors.offset"] for each in told] == [b"0", b"1", b"2", b"3"]
    assert [each[b"__dlq.errors.delivery.count"] for each in told] == [b"1", b"1", b"2", b"2"]
    rejected, too_often = b"Offset rejected by client.", TOO_OFTEN
    assert [each[b"__dlq.errors.message"] for each in told] == [
        rejected, rejected, too_often, too_often
    ]  # fmt: skip
    states = home.services.share_states()
    state = states.read(ShareKey(GROUP, UUID(bytes=topic.key), 0), 0)
    assert {each.delivery_state for each in state.batches} <= {2, 4}


async def test_letters_that_a_stop_left_unwritten(tmp_path: Path) -> None:
    """The records are still on the way after the next start, which writes their letters."""
    home = await open_home(tmp_path, **{AUTO.replace(".", "_"): "true"})
    member, _ = await worker(home)
    await member.acquire()
    assert await member.acknowledge(0, 1, [REJECT]) == 0  # the letters wait for a turn
    await home.services.coordinators.get().close()
    home.crash()

    again = await open_home(tmp_path, **{AUTO.replace(".", "_"): "true"})
    topic = again.services.topics.topics["jobs"]
    other = ShareMember(again, [topic], "other")
    assert await other.acquire() == [(2, 5, 1)]
    await give_turns_until(lambda: letters_of(again).written.get(GROUP) == 2, "two letters")
    assert len(stored(again)) == 2
    await again.close()
