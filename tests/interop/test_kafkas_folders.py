"""Partition folders that Apache Kafka wrote, served by our broker."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.clients.client import Client
from tests.support.clients.confluent import Confluent
from tests.support.clients.kafka_python import KafkaPython
from tests.support.folders import batches
from tests.support.messages import Message, Stored, by_time, sample, stored

pytestmark = pytest.mark.client

DATA = Path(__file__).parents[1] / "data"
KEPT = {"log.retention.ms": "-1"}


def expected(topic: str) -> list[Stored]:
    """Return what Apache Kafka served of a folder."""

    def data(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    rows = map(json.loads, (DATA / f"{topic}.jsonl").read_text().splitlines())
    return [
        Stored(
            row["offset"],
            Message(
                key=data(row["key"]),
                value=data(row["value"]),
                headers=tuple((name, data(value)) for name, value in row["headers"]),
                timestamp=row["timestamp"],
            ),
        )
        for row in rows
    ]


@pytest.fixture
def adopted(siltstone: SiltstoneProcess) -> SiltstoneProcess:
    """A broker that finds Kafka's folders in its log directory and knows nothing of them."""
    for name in ("mixed-0", "transactions-0"):
        shutil.copytree(DATA / name, siltstone.folder / name)
    siltstone.settings.update(KEPT)
    return siltstone.start()


@pytest.mark.parametrize("library", [Confluent, KafkaPython])
def test_every_record_is_served(adopted: SiltstoneProcess, library: type[Client]) -> None:
    """All codecs, all four segments, to the byte what Kafka's own broker served."""
    client = library(adopted.bootstrap)  # type: ignore[call-arg]  # the protocol has no __init__

    assert client.bounds("mixed") == (0, 500)
    assert client.read("mixed", 0, 500) == expected("mixed")
    assert client.read("mixed", 262, 5) == expected("mixed")[262:267]


def test_aborted_transaction_is_not_served(adopted: SiltstoneProcess) -> None:
    """A read_committed reader gets the committed records only, from Kafka's .txnindex."""
    client = Confluent(adopted.bootstrap)

    assert client.read("transactions", 0, 20) == expected("transactions")
    assert client.bounds("transactions") == (0, 33)


def test_times_are_found_in_kafkas_indexes(adopted: SiltstoneProcess) -> None:
    """ListOffsets by time over four segments with Kafka's time indexes is exact."""
    client = Confluent(adopted.bootstrap)
    log = expected("mixed")

    for record in (log[0], log[30], log[124], log[126], log[380], log[499]):
        found = by_time(log, record.message.timestamp - 1)
        assert client.read_from_time("mixed", record.message.timestamp - 1, 1) == [found]
    assert client.read_from_time("mixed", log[-1].message.timestamp + 1, 1) == []


def test_topic_keeps_kafkas_id_and_its_epochs_go_on(adopted: SiltstoneProcess) -> None:
    """The topic id is the one in partition.metadata, and no new batch has an older epoch."""
    client = Confluent(adopted.bootstrap)
    more = sample(10)
    client.produce("mixed", more, codec="lz4", idempotent=True)

    described = (adopted.folder / "mixed-0" / "partition.metadata").read_text()
    epochs = [batch.leader_epoch for batch in batches(adopted.folder / "mixed-0")]
    assert described == (DATA / "mixed-0" / "partition.metadata").read_text()
    assert client.read("mixed", 500, 10) == stored(more, 500)
    assert epochs == sorted(epochs)
    assert epochs[-1] >= 2


def test_folder_is_adopted_after_a_kill_and_without_indexes(siltstone: SiltstoneProcess) -> None:
    """With no clean mark, no index and a torn tail, the whole batches are recovered and served."""
    folder = siltstone.folder / "mixed-0"
    shutil.copytree(DATA / "mixed-0", folder)
    for index in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
        index.unlink()
    last = max(folder.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-7])
    whole = batches(folder)[-1].last_offset + 1
    siltstone.settings.update(KEPT)
    siltstone.start()
    siltstone.kill()
    siltstone.start()

    client = Confluent(siltstone.bootstrap)

    assert client.bounds("mixed") == (0, whole)
    assert client.read("mixed", 0, whole) == expected("mixed")[:whole]
    log = expected("mixed")
    timestamp = log[200].message.timestamp
    assert client.read_from_time("mixed", timestamp, 1) == [by_time(log, timestamp)]
