"""Prints any file of a log directory as text (``siltstone dump-log``; Kafka: ``DumpLogSegments``).

Indexes are compared with the ``.log`` beside them. Keys and values are printed only on request.
Nothing is written, and the folder may be in use.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from siltstone.protocol.names import uuid_text
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, OffsetCheckpoint
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.dump import indexes as dump_indexes
from siltstone.storage.dump import log_file as dump_log
from siltstone.storage.dump.line import Fault, Line
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.producers.snapshot import CorruptSnapshot, decode

_OFFSETS: Final = (
    files.RECOVERY_POINTS,
    files.LOG_START_OFFSETS,
    files.HIGH_WATERMARKS,
    files.CLEANER_OFFSETS,
)


class DumpOptions(NamedTuple):
    """How much to print of a ``.log``."""

    deep: bool = False
    data: bool = False


SHALLOW: Final = DumpOptions()


def dump_file(path: Path, options: DumpOptions = SHALLOW) -> Iterator[Line]:
    """Yield the lines of one file; a `Fault` says what is wrong with it.

    Raises:
        ValueError: The name is not that of a known file.
        OSError: The file cannot be read.
    """
    dumper = _DUMPERS.get(path.name)
    if dumper is not None:
        yield from dumper(path)
        return
    name = files.parse_name(path.name)
    if name is None:
        raise ValueError(f"{path} is none of a log directory's files")
    if name.kind == files.LOG:
        yield from dump_log.dump_log(path, deep=options.deep, data=options.data)
    elif name.kind == files.SNAPSHOT:
        yield from _dump_snapshot(path)
    else:
        yield from dump_indexes.DUMPERS[name.kind](path, name)


def dump_files(paths: Sequence[Path], options: DumpOptions, write: Callable[[str], object]) -> int:
    """Print files, folders file by file; return the number of faults."""
    faults = 0
    for path in _expand(paths):
        write(f"{path}\n")
        try:
            for line in dump_file(path, options):
                faults += isinstance(line, Fault)
                write(f"  {line}\n")
        except (OSError, ValueError) as error:
            faults += 1
            write(f"  FAULT {error}\n")
    return faults


def dump_as_json(
    paths: Sequence[Path], options: DumpOptions, write: Callable[[str], object]
) -> int:
    """Print an object a line, each with its file; return the number of faults."""
    faults = 0
    for path in _expand(paths):
        try:
            for line in dump_file(path, options):
                faults += isinstance(line, Fault)
                write(json.dumps({"file": str(path), **line.as_json()}) + "\n")
        except (OSError, ValueError) as error:
            faults += 1
            write(json.dumps({"file": str(path), "fault": str(error)}) + "\n")
    return faults


def run(paths: Sequence[Path], *, deep: bool, data: bool, as_json: bool = False) -> int:
    """Print files; return the exit code, 1 if anything is wrong. ``data`` prints records, too."""
    options = DumpOptions(deep=deep or data, data=data)
    dump = dump_as_json if as_json else dump_files
    faults = dump(paths, options, sys.stdout.write)
    if faults:
        sys.stderr.write(f"faults found: {faults}; look for FAULT above\n")
    return 1 if faults else 0


def _expand(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield files as they are; of folders, the files that are known."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for inner in sorted(path.iterdir()):
            known = inner.name in _DUMPERS or files.parse_name(inner.name)
            if inner.is_file() and known:
                yield inner


def _dump_snapshot(path: Path) -> Iterator[Line]:
    try:
        producers = decode(path.read_bytes())
    except CorruptSnapshot as error:
        yield Fault(f"snapshot is corrupt: {error}")
        return
    for producer_id, entry in producers.items():
        batch = entry.last_batch
        yield Line(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            coordinator_epoch=entry.coordinator_epoch,
            transaction_first_offset=entry.transaction_first_offset,
            last_timestamp=entry.last_timestamp,
            first_sequence=batch.first_sequence if batch else -1,
            last_sequence=batch.last_sequence if batch else -1,
            last_offset=batch.last_offset if batch else -1,
        )


def _dump_offsets(path: Path) -> Iterator[Line]:
    try:
        offsets = OffsetCheckpoint(path.parent, path.name).read()
    except MalformedCheckpoint as error:
        yield Fault(str(error))
        return
    for (topic, partition), offset in offsets.items():
        yield Line(topic=topic, partition=partition, offset=offset)


def _dump_epochs(path: Path) -> Iterator[Line]:
    try:
        entries = LeaderEpochs.load(path.parent).entries
    except MalformedCheckpoint as error:
        yield Fault(str(error))
        return
    for entry in entries:
        yield Line(epoch=entry.epoch, start_offset=entry.start_offset)


def _dump_partition_metadata(path: Path) -> Iterator[Line]:
    try:
        metadata = PartitionMetadata.read(path.parent)
    except MalformedCheckpoint as error:
        yield Fault(str(error))
        return
    if metadata is not None:
        yield Line(version=metadata.version, topic_id=uuid_text(metadata.topic_id))


def _dump_meta_properties(path: Path) -> Iterator[Line]:
    try:
        meta = MetaProperties.read(path.parent)
    except MalformedCheckpoint as error:
        yield Fault(str(error))
        return
    if meta is not None:
        yield Line(cluster_id=meta.cluster_id, node_id=meta.node_id, directory_id=meta.directory_id)


_DUMPERS: Final[dict[str, Callable[[Path], Iterator[Line]]]] = {
    **dict.fromkeys(_OFFSETS, _dump_offsets),
    files.LEADER_EPOCHS: _dump_epochs,
    files.PARTITION_METADATA: _dump_partition_metadata,
    files.META_PROPERTIES: _dump_meta_properties,
}
