"""Prints any file of a log directory as text (``siltstone dump-log``; Kafka: ``DumpLogSegments``).

Indexes are compared with the ``.log`` beside them. Keys and values are printed only on request.
Nothing is written, and the folder may be in use.
"""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from siltstone.protocol.errors import visible
from siltstone.protocol.names import uuid_text
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, OffsetCheckpoint
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.dump.indexes import dump_index
from siltstone.storage.dump.line import Fault, Line
from siltstone.storage.dump.log_file import EVERYTHING, INT64_MAX, LogLines, Wanted, dump_log
from siltstone.storage.files import disk
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.producers.snapshot import CorruptSnapshot, decode
from siltstone.storage.segment.check import find_checksum

_OFFSETS: Final = (
    files.RECOVERY_POINTS,
    files.LOG_START_OFFSETS,
    files.HIGH_WATERMARKS,
    files.CLEANER_OFFSETS,
)
FILES_OF_DIRECTORY: Final = (*_OFFSETS, files.META_PROPERTIES)
"""The files of a log directory itself that can be printed."""


def dump_file(path: Path, wanted: Wanted = EVERYTHING) -> Iterator[Line]:
    """Yield the lines of one file; a `Fault` says what is wrong with the file.

    Raises:
        ValueError: The name is not that of a known file.
        OSError: The file cannot be read.
    """
    dumper = _DUMPERS.get(path.name)
    if dumper is not None:
        try:
            yield from dumper(path)
        except MalformedCheckpoint as error:
            yield Fault(str(error))
        return
    name = files.parse_name(path.name)
    if name is None:
        if not files.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        raise ValueError(f"{path} is not a file of a log directory")
    if name.kind == files.LOG:
        yield from dump_log(path, wanted)
    elif name.kind == files.SNAPSHOT:
        yield from _dump_snapshot(path, name.base_offset)
    else:
        yield from dump_index(path, name)


def find_faults(path: Path) -> Iterator[str]:
    """Yield a sentence with the file's name for each fault of one file."""
    for line in _dump_whatever(path):
        if isinstance(line, Fault):
            yield line.text if path.name in line.text else f"{path.name}: {line.text}"


def dump_files(
    paths: Sequence[Path],
    wanted: Wanted,
    write: Callable[[str], object],
    *,
    as_json: bool = False,
) -> int:
    """Print files, and the files of folders; return the number of faults.

    As JSON each line is an object, which names its file.
    """
    faults = 0
    for path in _expand(paths, wanted):
        if not as_json:
            write(f"{path}\n")
        for line in _dump_whatever(path, wanted):
            faults += isinstance(line, Fault)
            write(_shown(path, line, as_json=as_json))
    return faults


def _dump_whatever(path: Path, wanted: Wanted = EVERYTHING) -> Iterator[Line]:
    """Yield the lines of one file; the last is a `Fault` if the file cannot be read further."""
    try:
        yield from dump_file(path, wanted)
    except (OSError, ValueError) as error:
        yield Fault(_why(error))


def _shown(path: Path, line: Line, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"file": str(path), **line.as_json()}) + "\n"
    return f"  {visible(str(line))}\n"


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return str(error)


def run(
    paths: Sequence[Path],
    wanted: Wanted = EVERYTHING,
    *,
    as_json: bool = False,
    wait: Callable[[], object] | None = None,
) -> int:
    """Print files; return the exit code, 1 if anything is wrong.

    With ``wait`` the first path is followed: ``wait`` is called whenever the path has nothing new.
    """
    if wait is not None:
        return follow(paths[0], wanted, wait, _writer(sys.stdout.write, as_json=as_json))
    faults = dump_files(paths, wanted, sys.stdout.write, as_json=as_json)
    if faults:
        sys.stderr.write(f"faults found: {faults}; look for FAULT above\n")
    return 1 if faults else 0


def _writer(write: Callable[[str], object], *, as_json: bool) -> Callable[[Path, Line], None]:
    shown: list[Path] = []

    def one(path: Path, line: Line) -> None:
        if not as_json and shown[-1:] != [path]:
            shown[:] = [path]
            write(f"{path}\n")
        write(_shown(path, line, as_json=as_json))

    return one


def follow(
    path: Path, wanted: Wanted, wait: Callable[[], object], write: Callable[[Path, Line], None]
) -> int:
    """Write the lines of a ``.log``, or of a folder's logs, and then the lines that are added.

    Ends with an exception of ``wait``, or returns 1 where nothing can follow: at a broken batch, or
    if the file is missing.
    """
    first = next(_expand_logs(path, wanted), None)
    tail = None if first is None else LogLines(first, wanted)
    while tail is None or not tail.is_broken:
        if tail is not None:
            try:
                for line in tail.read():
                    write(tail.path, line)
            except FileNotFoundError as error:
                if not files.is_folder(path):
                    write(path, Fault(str(error)))
                    return 1
                tail.rest = 0  # the log was compacted or deleted: new batches are in the next one
        newer = [each for each in _logs(path) if tail is None or each.name > tail.path.name]
        if newer and (tail is None or not tail.rest):
            tail = LogLines(newer[0], wanted)
        else:
            wait()
    return 1


def _expand_logs(path: Path, wanted: Wanted) -> Iterator[Path]:
    return _logs_with(path, wanted) if files.is_folder(path) else iter([path])


def _logs(path: Path) -> list[Path]:
    """Return the logs of a folder, the oldest first; of a file, only the file itself."""
    if not files.is_folder(path):
        return [path]
    return [path / name for name in sorted(disk.listdir(path)) if name.endswith(files.LOG)]


def _expand(paths: Sequence[Path], wanted: Wanted = EVERYTHING) -> Iterator[Path]:
    """Yield paths of files as they are; for a folder, its known files, or the logs with offsets."""
    for path in paths:
        if not files.is_folder(path):
            yield path
        elif wanted.is_part:
            yield from _logs_with(path, wanted)
        else:
            yield from _known_files(path)


def _known_files(folder: Path) -> Iterator[Path]:
    for name in sorted(disk.listdir(folder)):
        path = folder / name
        if (name in _DUMPERS or files.parse_name(name)) and files.is_file(path):
            yield path


def _logs_with(folder: Path, wanted: Wanted) -> Iterator[Path]:
    """Yield the logs of a folder that may have wanted offsets."""
    logs = _logs(folder)
    bases = [name.base_offset for each in logs if (name := files.parse_name(each.name))]
    for each, base, following in zip(logs, bases, [*bases[1:], INT64_MAX], strict=True):
        if following > wanted.first_offset and base <= wanted.last_offset:
            yield each


def _dump_snapshot(path: Path, end_offset: int) -> Iterator[Line]:
    try:
        producers = decode(files.read_bytes(path), end_offset, find_checksum())
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
    for (topic, partition), offset in OffsetCheckpoint(path.parent, path.name).read().items():
        yield Line(topic=topic, partition=partition, offset=offset)


def _dump_epochs(path: Path) -> Iterator[Line]:
    for entry in LeaderEpochs.load(path.parent).entries:
        yield Line(epoch=entry.epoch, start_offset=entry.start_offset)


def _dump_partition_metadata(path: Path) -> Iterator[Line]:
    metadata = PartitionMetadata.read(path.parent)
    if metadata is not None:
        yield Line(version=metadata.version, topic_id=uuid_text(metadata.topic_id))


def _dump_meta_properties(path: Path) -> Iterator[Line]:
    meta = MetaProperties.read(path.parent)
    if meta is not None:
        yield Line(cluster_id=meta.cluster_id, node_id=meta.node_id, directory_id=meta.directory_id)


_DUMPERS: Final[dict[str, Callable[[Path], Iterator[Line]]]] = {
    **dict.fromkeys(_OFFSETS, _dump_offsets),
    files.LEADER_EPOCHS: _dump_epochs,
    files.PARTITION_METADATA: _dump_partition_metadata,
    files.META_PROPERTIES: _dump_meta_properties,
}
