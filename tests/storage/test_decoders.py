"""Every decoder of a file: whatever the bytes are, a value or its own exception, and soon."""

import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records.build import ABORT, build_marker
from siltstone.storage import files
from siltstone.storage.directory import catalog
from siltstone.storage.directory.catalog import CatalogState, CatalogTopic
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, OffsetCheckpoint
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.producers import snapshot as producer_snapshot
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.entry import AppendedBatch
from siltstone.storage.producers.markers import read_marker
from siltstone.storage.producers.producer_entry import ProducerEntry
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.topic_partition import TopicPartition, parse_folder

TOPIC_ID = uuid.UUID(int=0x1234)
ORDERS = TopicPartition("orders", 3)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder whose files each example replaces."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def _entry() -> ProducerEntry:
    entry = ProducerEntry(3)
    entry.add(AppendedBatch(5, 7, 100, 102, 1_700_000_000_000))
    return entry


def _good(write: Callable[[Path], object]) -> bytes:
    """Return what is written into the one file of an empty folder."""
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        (path,) = Path(name).iterdir()
        return path.read_bytes()


def _write_epochs(folder: Path) -> None:
    epochs = LeaderEpochs(folder)
    epochs.assign(0, 0, write=False)
    epochs.assign(4, 100)


def _catalog() -> bytes:
    topics = {"orders": CatalogTopic(id=TOPIC_ID, partitions=3, overrides={"a": "b"})}
    return catalog.encode(CatalogState(topics=topics, deleted=frozenset([uuid.UUID(int=79)])))


FILES: dict[str, tuple[str, bytes, Callable[[Path], object], Any]] = {
    "offset checkpoint": (
        files.RECOVERY_POINTS,
        _good(
            lambda folder: OffsetCheckpoint(folder).write(
                {ORDERS: 5, ORDERS._replace(partition=4): 9}
            )
        ),
        lambda folder: OffsetCheckpoint(folder).read(),
        MalformedCheckpoint,
    ),
    "leader epochs": (
        files.LEADER_EPOCHS,
        _good(_write_epochs),
        LeaderEpochs.load,
        MalformedCheckpoint,
    ),
    "partition.metadata": (
        files.PARTITION_METADATA,
        _good(PartitionMetadata(topic_id=TOPIC_ID).write),
        PartitionMetadata.read,
        MalformedCheckpoint,
    ),
    "meta.properties": (
        files.META_PROPERTIES,
        _good(
            lambda folder: MetaProperties(cluster_id="c", node_id=1, directory_id="d").write(
                folder, 0
            )
        ),
        MetaProperties.read,
        MalformedCheckpoint,
    ),
    "transaction index": (
        "0.txnindex",
        b"".join(
            transaction_index.encode(AbortedTransaction(number, 5, 9, 10)) for number in range(3)
        ),
        lambda folder: (
            transaction_index.read(folder / "0.txnindex"),
            transaction_index.find_damage(folder / "0.txnindex", 0),
        ),
        (),
    ),
}
BYTES: dict[str, tuple[bytes, Callable[[bytes], object], Any]] = {
    "producer snapshot": (
        producer_snapshot.encode([(4000, _entry()), (4001, _entry())]),
        producer_snapshot.decode,
        producer_snapshot.CorruptSnapshot,
    ),
    "catalogue": (_catalog(), catalog.decode, ValueError),
    "marker": (bytes(build_marker(5, 0, ABORT, 3)), read_marker, (InvalidRecord, CorruptMessage)),
    "folder name": (
        b"orders-3.0123456789abcdef0123456789abcdef-delete",
        lambda data: parse_folder(data.decode("latin-1")),
        ValueError,
    ),
    "file name": (
        b"00000000000000000042.timeindex.swap",
        lambda data: files.parse_name(data.decode("latin-1")),
        (),
    ),
}


def damaged(good: bytes) -> st.SearchStrategy[bytes]:
    """Return bytes of any kind, and good ones that were cut, stretched or changed."""
    place = st.integers(0, max(0, len(good) - 1))
    changed = st.builds(
        lambda at, piece, gone: good[:at] + piece + good[at + gone :],
        place,
        st.binary(max_size=9)
        | st.sampled_from([b"-1", b"9" * 30, b"\xff\xff\xff\xff", b"\x7f", b"\n"]),
        st.integers(0, 9),
    )
    return st.binary(max_size=200) | changed | place.map(lambda at: good[:at])


@pytest.mark.parametrize("what", FILES)
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_files(folder: Path, what: str, data: st.DataObject) -> None:
    """A file that is not what its format says is refused by the one exception, or read."""
    name, good, read, refusal = FILES[what]
    (folder / name).write_bytes(good)
    assert read(folder)
    (folder / name).write_bytes(data.draw(damaged(good)))

    with suppress(refusal):
        read(folder)


@pytest.mark.parametrize("what", BYTES)
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_bytes(what: str, data: st.DataObject) -> None:
    """Bytes that are not what their format says are refused by the one exception, or read."""
    good, read, refusal = BYTES[what]
    assert read(good)

    with suppress(refusal):
        read(data.draw(damaged(good)))
