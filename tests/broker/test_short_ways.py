"""Short ways through the broker answer as the general ones do, and leave the same bytes."""

import random
import shutil
import uuid
from pathlib import Path
from struct import pack

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest

from siltstone.broker.fetching import sessions as fetch_sessions
from siltstone.broker.groups.classic import group as classic_group
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.records.build import ABORT, COMMIT, BatchFields, build_marker
from siltstone.storage.log.log import Log
from siltstone.storage.producers.checks import Origin
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.kio_messages import encode
from tests.support.logs import validated
from tests.support.produce_requests import request_entity
from tests.support.random_requests import RandomRequests
from tests.support.services import ServicesOnDisk
from tests.support.talks import Stand, Talk, hold, repeat

REQUESTS = 500
COMPARED = (
    "*.log",
    "*.index",
    "*.timeindex",
    "*.txnindex",
    "*.snapshot",
    "leader-epoch-checkpoint",
)
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compact": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "small": {"segment.bytes": "2000", "max.message.bytes": "1000", "index.interval.bytes": "0"},
    "gzip": {"compression.type": "gzip"},
    "flushed": {"flush.messages": "1"},
    "unsettled": {},
    "n" * 126: {},
    "m" * 127: {},
}


def make_home(root: Path) -> ServicesOnDisk:
    """Return a broker that gathers groups at once."""
    return ServicesOnDisk(
        root, group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="3"
    )


def settle_some_transactions(log: Log) -> None:
    """Write one that is aborted and one that is committed; a topic may have one that goes on."""

    def write(producer_id: int) -> None:
        who = BatchFields(
            producer_id=producer_id, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL
        )
        log.append(validated(make_batch(2, **who)))

    for producer_id, kind in ((70, ABORT), (71, COMMIT)):
        write(producer_id)
        log.append(validated(make_batch(1)))
        marker = build_marker(0, TIMESTAMP, kind, 0, producer_id=producer_id, producer_epoch=0)
        log.append(validated(marker), Origin.COORDINATOR)
    if log.topic_partition.topic == "unsettled":
        write(72)


async def make_folders(tmp_path: Path) -> tuple[Path, Path, dict[str, bytes]]:
    """Return two folders with the same topics, and the ids of these."""
    home = await make_home(tmp_path / "first").open()
    for name, overrides in TOPICS.items():
        await home.services.topics.create(name, 2, overrides)
    for name in ("plain", "unsettled"):
        settle_some_transactions(home.services.topics.find_log(name, 0))
    ids = {name: topic.id.bytes for name, topic in home.services.topics.topics.items()}
    await home.close()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    return tmp_path / "first", tmp_path / "second", ids


def repeat_chances(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Have the ids of members and sessions come in the same order each time."""
    chance = random.Random(seed)
    ids = random.Random(seed)
    monkeypatch.setattr(classic_group, "random_uuid", lambda: uuid.UUID(int=ids.getrandbits(128)))
    monkeypatch.setattr(fetch_sessions, "random_session_id", lambda: chance.randint(1, 2**31 - 1))


def close_short_ways_of_logs(home: ServicesOnDisk) -> None:
    """Have the logs check batches rule by rule, and search for what is read."""
    for log in home.services.topics.logs.values():
        log.end.rules.max_bytes = 0
        log.reader.forget()


def files_below(root: Path) -> dict[Path, bytes]:
    """Return the bytes of what an append writes."""
    return {
        path.relative_to(root): path.read_bytes()
        for pattern in COMPARED
        for path in sorted(root.rglob(pattern))
    }


@pytest.mark.parametrize("seed", range(4))
async def test_short_ways_answer_as_general_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """One by one and judged rule by rule; then at once, cut at any byte."""
    first, second, ids = await make_folders(tmp_path)
    with monkeypatch.context() as patched:
        repeat_chances(patched, seed)
        home = make_home(first)
        async with Stand(home) as stand:
            requests = RandomRequests(random.Random(seed), ids)
            talks = await hold(stand, requests, REQUESTS, lambda: close_short_ways_of_logs(home))
    repeat_chances(monkeypatch, seed)
    home = make_home(second)
    async with Stand(home, sender_count=1) as again:
        await repeat(again, talks, random.Random(seed))

    assert again.errors == stand.errors
    assert files_below(second) == files_below(first)


async def test_a_talk_that_ends_with_what_has_no_answer_is_said_whole(tmp_path: Path) -> None:
    """Nothing is asked into the middle of a Produce request with acks=0, however it is cut."""
    produce = request_entity(9, 0, 1000, None, [("plain", [(0, bytes(make_batch(1)))])])
    body = pack(">hhihx", 0, 9, 1, -1) + encode(produce)
    frames = [pack(">ihhih", 10, 18, 0, 0, -1), pack(">i", len(body)) + body]
    home = make_home(tmp_path)
    async with Stand(home) as stand:
        await home.services.topics.create("plain", 1, {})
        client = stand.connect()
        await client.send(frames[0])
        talk = Talk([ApiVersionsRequest, type(produce)], frames, [await client.receive(), b""])
        await repeat(stand, [talk] * 20, random.Random(0))

        assert home.services.topics.find_log("plain", 0).log_end_offset == 20
