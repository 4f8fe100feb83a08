"""Topics' settings and partitions from the metadata log in a folder that came from Apache Kafka.

``__cluster_metadata-0`` is a log like any other, with snapshots in it
(``OFFSET-EPOCH.checkpoint``). A snapshot has the state from all records below its offset. The value
of a record begins with three varints, the version of its frame, its kind and its version; a message
follows. The kinds have Kafka's names. Records of a transaction of the controller that was aborted
or never ended do not count (KIP-868).
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, NamedTuple
from uuid import UUID

from siltstone.protocol.errors import KafkaError, ProtocolError
from siltstone.protocol.messages import NO_ID, Message
from siltstone.protocol.records.batch import has_valid_crc
from siltstone.protocol.records.record import iterate_records
from siltstone.storage import files
from siltstone.storage.files import disk
from siltstone.storage.segment.batch_walk import iterate_batches

FOLDER: Final = "__cluster_metadata-0"

_SNAPSHOT: Final = re.compile(r"(\d{20})-\d{10}\.checkpoint")
_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_FRAME: Final = 1
_PARTITION: Final = 3  # PartitionRecord; in each version it begins with its number and topic id
_PARTITION_BYTES: Final = 20
_OF_TOPIC: Final = 2  # ConfigResource.Type.TOPIC
_BEGIN: Final = 23  # BeginTransactionRecord
_END: Final = 24
_ABORT: Final = 25

_logger = logging.getLogger(__name__)


class TopicRecord(NamedTuple):
    """A topic was created."""

    name: Annotated[str, "string"] = ""
    id: Annotated[bytes, "uuid"] = NO_ID


class ConfigRecord(NamedTuple):
    """A setting of a resource was set or removed."""

    kind: Annotated[int, "int8"] = 0
    resource: Annotated[str, "string"] = ""
    name: Annotated[str, "string"] = ""
    value: Annotated[str | None, "string null"] = None


class RemoveTopicRecord(NamedTuple):
    """A topic was deleted."""

    id: Annotated[bytes, "uuid"] = NO_ID


_MESSAGES: Final = {
    message.key: message
    for message in (
        Message(2, 0, 0, 0, TopicRecord),
        Message(4, 0, 0, 0, ConfigRecord),
        Message(9, 0, 0, 0, RemoveTopicRecord),
    )
}


@dataclass(slots=True)
class _Topics:
    """The topics according to the records read so far, with their own settings.

    ``counts`` are the numbers of partitions by topic id, also of deleted topics.
    """

    ids: dict[str, bytes] = field(default_factory=dict)
    counts: dict[bytes, int] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    _open: list[tuple[int, bytes]] | None = None  # the records of a transaction

    def take(self, value: bytes) -> None:
        """Apply a record; records of a transaction count when the transaction ends."""
        frame, at = _read_varint(value, 0)
        kind, at = _read_varint(value, at)
        version, at = _read_varint(value, at)
        if frame != _FRAME:
            raise ValueError(f"a record has frame version {frame}")
        if kind == _BEGIN:
            self._open = []
        elif kind == _ABORT:
            self._open = None
        elif kind == _END:
            records, self._open = self._open or (), None
            for each, body in records:
                self._apply(each, body)
        elif kind in _MESSAGES or kind == _PARTITION:
            if version and kind != _PARTITION:
                raise ValueError(f"a record of kind {kind} has version {version}")
            if self._open is None:
                self._apply(kind, value[at:])
            else:
                self._open.append((kind, value[at:]))

    def _apply(self, kind: int, body: bytes) -> None:
        if kind == _PARTITION:
            if len(body) < _PARTITION_BYTES:
                raise ValueError(f"the record of a partition has {len(body)} bytes")
            number, topic_id = int.from_bytes(body[:4], signed=True), body[4:_PARTITION_BYTES]
            self.counts[topic_id] = max(self.counts.get(topic_id, 0), number + 1)
            return
        row, _ = _MESSAGES[kind].read(0, body, 0, len(body))
        if isinstance(row, TopicRecord):
            self.ids[row.name] = row.id
        elif isinstance(row, RemoveTopicRecord):
            for name in [name for name, id_ in self.ids.items() if id_ == row.id]:
                del self.ids[name]
                self.settings.pop(name, None)
        elif row.kind == _OF_TOPIC and row.value is None:
            self.settings.get(row.resource, {}).pop(row.name, None)
        elif row.kind == _OF_TOPIC:
            self.settings.setdefault(row.resource, {})[row.name] = row.value


def read_topic_settings(directories: "Sequence[Path]") -> "Mapping[UUID, Mapping[str, str]]":
    """Return the own settings of the topics in a metadata log, by topic id. Blocks.

    The result is empty if no directory has a metadata log. If the log is damaged, the records
    before the damage count, and a line is logged.
    """
    topics = _read(directories)
    return {UUID(bytes=id_): topics.settings.get(name, {}) for name, id_ in topics.ids.items()}


def count_partitions(directories: "Sequence[Path]") -> "Mapping[UUID, int]":
    """Return how many partitions the topics have in a metadata log, likewise. Blocks."""
    return {UUID(bytes=id_): count for id_, count in _read(directories).counts.items()}


def _read(directories: "Sequence[Path]") -> _Topics:
    topics = _Topics()
    for directory in directories:
        folder = directory / FOLDER
        if not files.is_folder(folder):
            continue
        try:
            for value in _read_values(folder):
                topics.take(value)
        except (OSError, KafkaError, ProtocolError, ValueError) as error:
            _logger.warning(
                "metadata log of Apache Kafka is read up to a damage: settings of topics that were "
                "changed later are not known, set them again folder=%s reason=%r",
                folder,
                error.message if isinstance(error, KafkaError) else str(error),
            )
    return topics


def _read_values(folder: "Path") -> "Iterator[bytes]":
    """Yield the values of the newest snapshot's records, then of the records after the snapshot."""
    names = sorted(disk.listdir(folder))
    snapshots = [found for found in map(_SNAPSHOT.fullmatch, names) if found]
    segments = [found for found in map(_SEGMENT.fullmatch, names) if found]
    start = 0
    if snapshots:
        start = int(snapshots[-1][1])
        yield from _read_file(folder / snapshots[-1][0], 0)
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        if is_last or int(segments[index + 1][1]) > start:
            yield from _read_file(folder / segment[0], start)


def _read_file(path: "Path", start: int) -> "Iterator[bytes]":
    """Yield the values of a file's records from an offset on, without control records."""
    with files.opened(path) as file:
        for position, header in iterate_batches(file, 0, files.size_of(file)):
            if header.last_offset < start or header.is_control:
                continue
            batch = files.read_at(file, header.size, position)
            if not has_valid_crc(memoryview(batch), header.crc):
                raise ValueError(f"the batch at position {position} of {path.name} has a wrong CRC")
            for record in iterate_records(batch):
                if record.offset >= start and record.value is not None:
                    yield record.value


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after it."""
    value = shift = 0
    for at in range(position, min(position + 5, len(data))):
        value |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return value, at + 1
        shift += 7
    raise ValueError("a record ends in its head")
