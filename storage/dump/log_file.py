"""Prints a ``.log``: its batches, and its records when asked for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records.batch import (
    HEADER_SIZE,
    MAGIC,
    MIN_LENGTH,
    BatchHeader,
    has_valid_crc,
)
from siltstone.protocol.records.compression import UNLIMITED
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage import files
from siltstone.storage.dump.line import Fault, Line
from siltstone.storage.producers.markers import read_marker

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def dump_log(path: Path, *, deep: bool, data: bool) -> Iterator[Line]:
    """Yield a line per batch; ``deep`` adds one per record, ``data`` keys and values to those."""
    name = files.parse_name(path.name)
    expected = name.base_offset if name else 0
    with path.open("rb") as log:
        position = 0
        size = path.stat().st_size
        while size - position >= HEADER_SIZE:
            header = BatchHeader.read(log.read(HEADER_SIZE))
            if header.length < MIN_LENGTH or header.magic != MAGIC:
                yield Fault(
                    f"no batch at position {position}: length {header.length}, magic {header.magic}"
                )
                return
            if header.size > size - position:
                break
            log.seek(position)
            batch = log.read(header.size)
            yield from _dump_batch(position, header, batch, expected)
            if deep:
                yield from _dump_records(batch, header, data=data)
            expected = header.next_offset
            position += header.size
        if position < size:
            yield Fault(f"{size - position} bytes at position {position} are no whole batch")


def _dump_batch(position: int, header: BatchHeader, batch: bytes, expected: int) -> Iterator[Line]:
    codec = _CODECS[header.codec] if header.codec < len(_CODECS) else header.codec
    facts: dict[str, object] = {
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "leader_epoch": header.leader_epoch,
        "codec": codec,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "crc": f"{header.crc:08x}",
    }
    if header.producer_id >= 0:
        facts |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "transactional": header.is_transactional,
        }
    if header.is_control:
        facts["control"] = True
    if header.has_delete_horizon:
        facts["delete_horizon_ms"] = header.base_timestamp
    yield Line(**facts)
    if not has_valid_crc(memoryview(batch), header.crc):
        yield Fault(f"wrong checksum of the batch at position {position}")
    if header.base_offset < expected:
        yield Fault(
            f"offset {header.base_offset} at position {position} is below {expected}, "
            "the end of the batch before"
        )
    if header.last_offset_delta < header.count - 1:
        yield Fault(f"{header.count} records do not fit the offsets of the batch at {position}")


def _dump_records(batch: bytes, header: BatchHeader, *, data: bool) -> Iterator[Line]:
    try:
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None:
                yield Line(
                    **{"| offset": header.last_offset},
                    marker=marker.kind.name,
                    coordinator_epoch=marker.coordinator_epoch,
                )
            return
        for record in iterate_records(batch, UNLIMITED):
            yield Line(**_facts(record, data=data))
    except (CorruptMessage, InvalidRecord) as error:
        yield Fault(f"records of the batch at offset {header.base_offset}: {error}")


def _facts(record: Record, *, data: bool) -> dict[str, object]:
    facts: dict[str, object] = {
        "| offset": record.offset,
        "timestamp": record.timestamp,
        "key_size": -1 if record.key is None else len(record.key),
        "value_size": -1 if record.value is None else len(record.value),
        "headers": len(record.headers),
    }
    if data:
        facts |= {"key": record.key, "value": record.value}
        if record.headers:
            facts["header_data"] = list(record.headers)
    return facts
