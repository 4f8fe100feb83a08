"""The examples of docs/on-disk-format.md are what the code writes."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.protocol.names import parse_uuid
from siltstone.protocol.records.build import build_batch, build_marker
from siltstone.protocol.records.record import Record
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.producers import snapshot as producer_snapshot
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.entry import AppendedBatch
from siltstone.storage.producers.markers import MarkerKind
from siltstone.storage.producers.producer_entry import ProducerEntry
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.index import ActiveIndexes
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import TIMESTAMP

PAGE = Path(__file__).parents[2] / "docs" / "on-disk-format.md"
BLOCK = re.compile(r"<!-- (?P<kind>\w+): (?P<name>\w+) -->\n```\n(?P<text>.*?)\n```", re.DOTALL)
HEX = re.compile(r"(?:[0-9a-f]{2})+")


def examples(kind: str) -> dict[str, str]:
    """Return the blocks of a kind by name."""
    found = BLOCK.finditer(PAGE.read_text(encoding="utf-8"))
    return {each["name"]: each["text"] for each in found if each["kind"] == kind}


def hexadecimal(text: str) -> str:
    """Return the digits of a block; what follows two spaces is a remark."""
    digits = ""
    for line in text.splitlines():
        words = line.split("  ")[0].split()
        assert all(HEX.fullmatch(word) for word in words), line
        digits += "".join(words)
    return digits


def build_log() -> bytes:
    """Return the batch of the page."""
    records = [
        Record(0, TIMESTAMP, b"k1", b"v1", ((b"h", b"x"),)),
        Record(1, TIMESTAMP + 5, b"k2", None),
    ]
    return bytes(build_batch(records, leader_epoch=0))


def build_commit() -> bytes:
    """Return the marker of the page."""
    fields = {"producer_id": 4000, "producer_epoch": 0, "leader_epoch": 0}
    return bytes(build_marker(110, TIMESTAMP + 100, MarkerKind.COMMIT, 5, **fields))


def build_indexes() -> ActiveIndexes:
    """Return the entries of the page."""
    indexes = ActiveIndexes(100)
    for offset, position, timestamp in ((120, 4242, TIMESTAMP), (137, 8400, TIMESTAMP + 952)):
        indexes.add(offset, position)
        indexes.add_time(timestamp, offset)
    return indexes


def build_snapshot() -> bytes:
    """Return the snapshot of the page."""
    entry = ProducerEntry(0)
    entry.add(AppendedBatch(5, 9, 105, 109, TIMESTAMP))
    return producer_snapshot.encode([(4000, entry)])


BUILDERS: dict[str, Callable[[], bytes]] = {
    "log": build_log,
    "marker": build_commit,
    "index": build_indexes().offsets.unwritten,
    "timeindex": build_indexes().times.unwritten,
    "txnindex": lambda: transaction_index.encode(AbortedTransaction(4000, 100, 110, 111)),
    "snapshot": build_snapshot,
}


@pytest.mark.parametrize("name", BUILDERS)
def test_bytes_on_the_page(name: str) -> None:
    """Every hexadecimal block is what our code builds."""
    assert hexadecimal(examples("example")[name]) == BUILDERS[name]().hex()


def test_no_other_example_on_the_page() -> None:
    """Nothing on the page is unchecked."""
    assert set(examples("example")) == set(BUILDERS)
    assert set(examples("text")) == {"offsets", "epochs", "partition", "meta"}


def test_texts_on_the_page(tmp_path: Path) -> None:
    """And so is every text file."""
    partitions = {TopicPartition("orders", 0): 1500, TopicPartition("orders", 1): 0}
    OffsetCheckpoint(tmp_path, "offsets").write(partitions)
    epochs = LeaderEpochs(tmp_path)
    epochs.assign(0, 0)
    epochs.assign(3, 1500)
    PartitionMetadata(topic_id=parse_uuid("7SqBHxP6QkKw0mJ9cU5sYg")).write(tmp_path)
    MetaProperties(
        cluster_id="pQ3vT0m8RrqKcX1yLw5aZg", node_id=1, directory_id="Wj0Gk5bTQ4eCwYxJ8sM3rA"
    ).write(tmp_path, 1_736_157_600_000)

    texts = examples("text")

    for name, file in (
        ("offsets", "offsets"),
        ("epochs", "leader-epoch-checkpoint"),
        ("meta", "meta.properties"),
    ):
        assert (tmp_path / file).read_text() == texts[name] + "\n"
    assert (tmp_path / "partition.metadata").read_text() == texts["partition"]
