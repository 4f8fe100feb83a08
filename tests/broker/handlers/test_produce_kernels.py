"""What nearly every Produce request is: the compiled form and the plain one do the same."""

import errno
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from siltstone.broker.handlers import _produce_kernels as produce_kernels
from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import KafkaStorageError
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.produce import PartitionProduceData, TopicProduceData
from siltstone.protocol.records.batch import TRANSACTIONAL
from siltstone.storage.log.log import Log
from tests.support import faults
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.forms import in_both_forms
from tests.support.logs import LogFolder, validated
from tests.support.uncompiled import load_uncompiled

if TYPE_CHECKING:
    from siltstone.protocol.records.build import BatchFields

PLAIN = load_uncompiled("siltstone.broker.handlers._produce_kernels")
BOTH = in_both_forms("kernel", produce_kernels, PLAIN)
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
    kernel: Any, logs: dict[tuple[str, int], Log], topics: list[TopicProduceData]
) -> tuple[list[Any], list[Log]]:
    """Append until each partition has an answer, and return what was to be flushed, too."""
    produced: list[Any] = []
    unflushed: list[Log] = []
    while not kernel.append_all(logs, topics, TIMESTAMP, produced, unflushed):
        produced[-1][2].append(CLOSER_LOOK)
    return produced, unflushed


@BOTH
def test_what_comes_twice_is_noticed(kernel: Any) -> None:
    """A topic or a partition; a topic without partitions too."""
    once = topic("a", (0, None), (1, None))

    assert kernel.count_once([], 0) == 0
    assert kernel.count_once([once, topic("b", (0, None))], 0) == 3
    assert kernel.count_once([once, topic("b", (0, None))], 1) == -1  # both have no id
    assert kernel.count_once([once, once], 0) == -1
    assert kernel.count_once([topic("a", (4, None), (4, None))], 0) == -1
    assert kernel.count_once([topic("a")], 0) == -1


@BOTH
def test_only_what_breaks_no_rule_is_appended(kernel: Any, tmp_path: Path) -> None:
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

    produced, unflushed = append(kernel, logs, topics)

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


@BOTH
def test_a_log_is_to_be_flushed_once(kernel: Any, tmp_path: Path) -> None:
    """However many batches of a request `flush.messages` wants on the disk."""
    logs = make_logs(tmp_path, ["a"], flush_messages=2)

    topics = [topic("a", (0, make_batch(2)), (1, make_batch(1)), (0, make_batch(1)))]
    _, unflushed = append(kernel, logs, topics)

    assert unflushed == [logs["a", 0]]


@BOTH
def test_a_disk_that_refuses_ends_it_at_its_partition(
    kernel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
def test_both_forms_append_the_same(tmp_path: Path, seed: int) -> None:
    """The same answers to the same requests, and the same bytes in the logs."""
    told: list[Any] = []
    for name, kernel in (("chosen", produce_kernels), ("plain", PLAIN)):
        chance = random.Random(seed)
        logs = make_logs(tmp_path / name, ["a", "b"], flush_messages=9)
        for log in logs.values():
            first = make_batch(producer_id=7, producer_epoch=0, base_sequence=0)
            log.append(validated(first))
        for _ in range(60):
            produced, unflushed = append(kernel, logs, random_request(chance, logs))
            told.append((produced, [log.log_end_offset for log in unflushed]))
        told.append([log.segments[-1].log_path.read_bytes() for log in logs.values()])
    half = len(told) // 2
    assert told[:half] == told[half:]
    assert sum(CLOSER_LOOK in rows for produced, _ in told[: half - 1] for *_, rows in produced) > 9
    assert any(unflushed for _, unflushed in told[: half - 1])
