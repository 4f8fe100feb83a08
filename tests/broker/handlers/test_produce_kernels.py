"""What nearly every Produce request is."""

import errno
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from siltstone.broker.handlers import _produce_kernels as kernel
from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import KafkaStorageError
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.produce import PartitionProduceData, TopicProduceData
from siltstone.protocol.records.batch import TRANSACTIONAL, BatchHeader
from siltstone.storage.log.log import Log
from tests.support import faults
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.logs import LogFolder, bytes_of, validated

if TYPE_CHECKING:
    from siltstone.protocol.records.build import BatchFields

CLOSER_LOOK = "a closer look"


def topic(name: str, *partitions: tuple[int, bytearray | None]) -> TopicProduceData:
    """Return a topic of a request, with records that a log may stamp."""
    rows = [
        PartitionProduceData(index, None if batch is None else memoryview(bytearray(batch)))
        for index, batch in partitions
    ]
    return TopicProduceData(name, NO_ID, rows)


def make_logs(root: Path, names: list[str], **settings: Any) -> dict[tuple[str, int], Log]:
    """Return the logs of two partitions of each topic, each in a folder of its own."""
    logs = {}
    for name in names:
        for index in range(2):
            folder = root / name / str(index)
            folder.mkdir(parents=True)
            logs[name, index] = LogFolder(folder, TopicConfig(**settings)).log
    return logs


def append(
    logs: dict[tuple[str, int], Log], topics: list[TopicProduceData]
) -> tuple[list[Any], list[Log]]:
    """Append until each partition has an answer, and return what was to be flushed, too."""
    produced: list[Any] = []
    unflushed: list[Log] = []
    while not kernel.append_all(logs, topics, TIMESTAMP, produced, unflushed):
        produced[-1][2].append(CLOSER_LOOK)
    return produced, unflushed


def test_what_comes_twice_is_noticed() -> None:
    """A topic or a partition; a topic without partitions too."""
    once = topic("a", (0, None), (1, None))

    assert kernel.count_once([], 0) == 0
    assert kernel.count_once([once, topic("b", (0, None))], 0) == 3
    assert kernel.count_once([once, topic("b", (0, None))], 1) == -1  # both have no id
    assert kernel.count_once([once, once], 0) == -1
    assert kernel.count_once([topic("a", (4, None), (4, None))], 0) == -1
    assert kernel.count_once([topic("a")], 0) == -1


def test_only_what_breaks_no_rule_is_appended(tmp_path: Path) -> None:
    """The caller is asked about each of the others, and nothing of them is in a log."""
    logs = make_logs(tmp_path, ["a", "b", "__consumer_offsets"])
    damaged = make_batch()
    damaged[-1] ^= 1
    transactional = make_batch(
        flags=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0
    )
    topics = [
        topic("a", (0, make_batch(2)), (1, damaged), (2, make_batch())),
        topic("b", (1, make_batch(3)), (0, transactional)),
        topic("unknown", (0, make_batch())),
        topic("__consumer_offsets", (0, make_batch())),
        topic("a", (0, None), (1, bytearray()), (0, make_batch())),
    ]

    produced, unflushed = append(logs, topics)

    rest = (-1, 0, (), None, (-1, -1))
    assert produced == [
        ("a", NO_ID, [(0, 0, 0, *rest), CLOSER_LOOK, CLOSER_LOOK]),
        ("b", NO_ID, [(1, 0, 0, *rest), CLOSER_LOOK]),
        ("unknown", NO_ID, [CLOSER_LOOK]),
        ("__consumer_offsets", NO_ID, [CLOSER_LOOK]),
        ("a", NO_ID, [CLOSER_LOOK, CLOSER_LOOK, (0, 0, 2, *rest)]),
    ]
    assert [log.log_end_offset for log in logs.values()] == [3, 0, 0, 3, 0, 0]
    assert unflushed == []


def test_a_log_is_to_be_flushed_once(tmp_path: Path) -> None:
    """However many batches of a request `flush.messages` wants on the disk."""
    logs = make_logs(tmp_path, ["a"], flush_messages=2)

    topics = [topic("a", (0, make_batch(2)), (1, make_batch(1)), (0, make_batch(1)))]
    _, unflushed = append(logs, topics)

    assert unflushed == [logs["a", 0]]


def test_a_disk_that_refuses_ends_it_at_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was appended before has its answer; the caller goes on behind the one that failed."""
    logs = make_logs(tmp_path, ["a"])
    topics = [topic("a", (0, make_batch()), (1, make_batch()))]
    produced: list[Any] = []
    disk = faults.install(monkeypatch)
    disk.fail("pwrite", errno.ENOSPC, str(logs["a", 1].path))

    with pytest.raises(KafkaStorageError):
        kernel.append_all(logs, topics, TIMESTAMP, produced, [])

    assert produced == [("a", NO_ID, [(0, 0, 0, -1, 0, (), None, (-1, -1))])]
    assert [log.log_end_offset for log in logs.values()] == [1, 0]


def random_request(
    chance: random.Random, logs: dict[tuple[str, int], Log]
) -> list[TopicProduceData]:
    """Return batches of a producer that goes on, repeats and skips, and of nobody."""
    topics = []
    for name in chance.sample(["a", "b"], chance.randint(1, 2)):
        rows = []
        for index in chance.sample([0, 1, 2], chance.randint(1, 3)):
            fields: BatchFields = {}
            if (name, index) in logs and chance.random() < 0.7:
                following = logs[name, index].producers.producers[7].next_sequence
                sequence = following + chance.choice([0, 0, 0, 1, -1])
                fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
            rows.append((index, make_batch(chance.randint(1, 3), **fields)))
        topics.append(topic(name, *rows))
    return topics


@pytest.mark.parametrize("seed", range(5))
def test_a_log_takes_what_follows(tmp_path: Path, seed: int) -> None:
    """Of batches that go on, repeat and skip; offsets and sequences have no gap, and no answer."""
    chance = random.Random(seed)
    logs = make_logs(tmp_path, ["a", "b"], flush_messages=9)
    ends = dict.fromkeys(logs, 1)
    for log in logs.values():
        log.append(validated(make_batch(producer_id=7, producer_epoch=0, base_sequence=0)))
    left = flushed = 0
    for _ in range(60):
        produced, unflushed = append(logs, random_request(chance, logs))
        flushed += len(unflushed)
        for name, _, rows in produced:
            for row in rows:
                if row == CLOSER_LOOK:
                    left += 1
                    continue
                assert row[1:3] == (0, ends[name, row[0]])
                ends[name, row[0]] = next_end(logs[name, row[0]], row[2])

    assert left > 9
    assert flushed
    assert ends == {each: log.log_end_offset for each, log in logs.items()}
    for log in logs.values():
        sequences = [header for header in headers_of(log) if header.producer_id == 7]
        assert [header.base_sequence for header in sequences] == [
            0,
            *(header.last_sequence + 1 for header in sequences[:-1]),
        ]


def headers_of(log: Log) -> list[BatchHeader]:
    """Return the headers of what a log has."""
    data = bytes_of(log, 0)
    found: list[BatchHeader] = []
    position = 0
    while position < len(data):
        found.append(BatchHeader.read(data, position))
        position += found[-1].size
    return found


def next_end(log: Log, base_offset: int) -> int:
    """Return the offset behind the batch at an offset."""
    (header,) = [each for each in headers_of(log) if each.base_offset == base_offset]
    return header.next_offset
