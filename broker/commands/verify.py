"""``siltstone verify``: checks all files of a stopped broker."""

import argparse
import heapq
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from siltstone.broker.commands.asking import meant_by
from siltstone.broker.commands.explain_text import counted
from siltstone.broker.commands.internal_records import find_reader
from siltstone.broker.commands.options import read_settings
from siltstone.broker.commands.stopped import find_folders
from siltstone.broker.commands.terminal import Progress, fail, write_json, write_lines
from siltstone.broker.topics.settings.stored import with_stored
from siltstone.cleaner.checkpoints import CleanerCheckpoints
from siltstone.cleaner.history.history import read_history
from siltstone.cleaner.verify import MAX_FAULTS, verify_partition
from siltstone.config.errors import ConfigError
from siltstone.config.layers import Layers
from siltstone.protocol.errors import CorruptMessage
from siltstone.storage import files
from siltstone.storage.directory.catalog import Catalog, CatalogTopic
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, OffsetCheckpoint
from siltstone.storage.directory.found_folders import find_moved
from siltstone.storage.directory.lock import is_held
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.directory.opening import find_readable, live_folders
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.dump.any_file import FILES_OF_DIRECTORY, find_faults
from siltstone.storage.dump.whole_partition import REMEDIES, UNREADABLE, Known, Report
from siltstone.storage.topic_partition import TopicPartition

_UNCLEAN = "was not stopped cleanly: what the next start mends by itself is only noted"


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the option for the partitions."""
    which = "a topic or one of its partitions (default: all)"
    parser.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=which)


def run_verify(options: argparse.Namespace) -> int:
    """Verify a topic, a partition or everything; return 1 if anything is wrong."""
    layers = read_settings(options)
    name, as_json = options.name, options.json
    try:
        there = find_readable([Path(each).absolute() for each in layers.server().log_dirs])
        _refuse_live(there)
        _, folders = find_folders(there, meant_by(name))
        stopped = _Stopped(layers, there)
    except LookupError:
        return fail(f"no partition here is called {name}")
    except (LogDirError, OSError) as error:
        return fail(str(error))
    faults, kinds = [], set()
    for directory in there:
        for kind, sentence in _check_directory(directory):
            faults.append(f"{directory}: {sentence}")
            kinds.add(kind)
    faults += stopped.faults
    faults += _find_twice(there, folders)
    if name is None:
        faults += stopped.find_missing(folders)
    progress = Progress()
    found: list[tuple[Report, int | None]] = []
    for number, (topic_partition, path) in enumerate(folders.items(), start=1):
        progress.show(f"{number} of {len(folders)} partitions: {topic_partition}")
        report, checkpoint = stopped.verify(topic_partition, path)
        found.append((report, checkpoint))
        kinds |= report.kinds
        if not as_json:
            progress.clear()
            write_lines(_lines(report, checkpoint))
    progress.clear()
    remedies = {kind: REMEDIES[kind] for kind in sorted(kinds)}
    notes = [f"{each} {_UNCLEAN}" for each in there if each not in stopped.clean]
    if as_json:
        partitions = [_facts(*each) for each in found]
        facts = {"partitions": partitions, "faults": faults, "remedies": remedies, "notes": notes}
        write_json(facts)
    else:
        write_lines(f"FAULT {each}" for each in faults)
        write_lines(f"TO DO {kind}: {remedy}" for kind, remedy in remedies.items())
        write_lines(notes)
    if not found:
        sys.stderr.write("siltstone: there is no partition here\n")
    return 1 if faults or any(report.count for report, _ in found) else 0


class _Stopped:
    """The files of the log directories, and the facts about each partition in them."""

    def __init__(self, layers: Layers, directories: Sequence[Path]) -> None:
        """Read the files of the log directories."""
        self.faults: list[str] = []
        self.clean = {each for each in directories if files.exists(each / files.CLEAN_SHUTDOWN)}
        self._checkpoints = CleanerCheckpoints(directories)
        self._recovery_points = _read_offsets(directories, files.RECOVERY_POINTS)
        self._high_watermarks = _read_offsets(directories, files.HIGH_WATERMARKS)
        self._log_starts = _read_offsets(directories, files.LOG_START_OFFSETS)
        # By time: partitions move between directories, and come back.
        histories = map(read_history, directories)
        self._history = list(heapq.merge(*histories, key=lambda event: int(event["started_ms"])))
        catalog = Catalog(directories)
        try:
            catalog.load()
        except LogDirError as error:
            self.faults.append(str(error))
        self._topics = catalog.state.topics
        self._layers = with_stored(layers, catalog.state)

    def find_missing(self, folders: Container[TopicPartition]) -> Iterator[str]:
        """Yield a sentence for each partition that has no folder, of the catalogue or of a file.

        A clean stop writes the offsets of the partitions that there are, and of no other.
        """
        for directory in self.clean:
            for each in self._log_starts[directory]:
                if each not in folders:
                    yield f"{directory / files.LOG_START_OFFSETS}: {each} has no folder"
        for topic, entry in self._topics.items():
            for each in (TopicPartition(topic, number) for number in range(entry.partitions)):
                if each not in folders:
                    yield f"{each} has no folder: put it back; the next start makes it again, empty"

    def verify(self, topic_partition: TopicPartition, path: Path) -> tuple[Report, int | None]:
        """Verify one folder; return the result and the partition's checkpoint."""
        checkpoint = self._checkpoints.get(path.parent, topic_partition)
        events = _events_of(topic_partition, path, self._history)
        entry = self._topics.get(topic_partition.topic)
        known = Known(
            recovery_point=self._recovery_points[path.parent].get(topic_partition, 0),
            high_watermark=self._high_watermarks[path.parent].get(topic_partition, 0),
            log_start_offset=self._log_starts[path.parent].get(topic_partition),
            is_clean=path.parent in self.clean,
            has_gaps=checkpoint is not None or bool(events) or self._may_be_compacted(entry),
            topic_id=None if entry is None else entry.id,
        )
        return _verify(topic_partition, path, checkpoint, events, known), checkpoint

    def _may_be_compacted(self, entry: CatalogTopic | None) -> bool:
        try:
            return entry is None or self._layers.topic(entry.overrides).is_compacted
        except ConfigError:
            return True


def _read_offsets(directories: Iterable[Path], name: str) -> dict[Path, dict[TopicPartition, int]]:
    return {each: OffsetCheckpoint(each, name).read_or_empty() for each in directories}


def _check_directory(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield name and fault of the small files of a log directory."""
    for name in FILES_OF_DIRECTORY:
        if files.exists(directory / name):
            for sentence in find_faults(directory / name):
                yield name, sentence


def _find_twice(
    directories: Iterable[Path], folders: Mapping[TopicPartition, Path]
) -> Iterator[str]:
    """Yield a sentence for each partition of which the next start refuses two folders."""
    for each, path in live_folders(directories):
        known = folders.get(each, path)
        if known != path:
            try:
                find_moved(each, known, path)
            except LogDirError as error:
                yield str(error)


def _refuse_live(directories: Iterable[Path]) -> None:
    """Raise LogDirError if Siltstone or Apache Kafka has one of the directories open."""
    for directory in directories:
        if is_held(directory):
            raise LogDirError(
                f"the broker runs and changes {directory}; stop it first, or verify a copy with "
                "--set log.dirs=…"
            )


def _verify(
    topic_partition: TopicPartition,
    path: Path,
    checkpoint: int | None,
    events: list[dict[str, Any]],
    known: Known,
) -> Report:
    reader = find_reader(topic_partition.topic)
    report = Report(topic_partition)
    kind = files.LOG
    try:
        return verify_partition(path, checkpoint, events, known, reader, report)
    except (KeyError, TypeError) as error:
        fault = f"its receipt in the history cannot be read: {error!r}"
    except (OSError, CorruptMessage, MalformedCheckpoint) as error:
        fault = f"it cannot be read to its end: {error}"
        kind = UNREADABLE if isinstance(error, OSError) else kind
    report.fault(fault, kind)
    return report


def _events_of(
    topic_partition: TopicPartition, path: Path, history: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the events of a partition, but not those of a deleted topic of the same name."""
    try:
        metadata = PartitionMetadata.read(path)
    except (MalformedCheckpoint, OSError):
        metadata = None
    topic_id = None if metadata is None else str(metadata.topic_id)
    return [
        event
        for event in history
        if (event.get("topic"), event.get("partition")) == topic_partition
        and topic_id in {None, event.get("topic_id")}
    ]


def _facts(report: Report, checkpoint: int | None) -> dict[str, Any]:
    return {
        "topic": report.topic_partition.topic,
        "partition": report.topic_partition.partition,
        "checkpoint": checkpoint,
        "records": report.records,
        "keys": report.keys,
        "faults": report.faults,
        "fault_count": report.count,
        "notes": report.notes,
    }


def _lines(report: Report, checkpoint: int | None) -> Iterator[str]:
    count = report.count
    verdict = "fine" if not count else counted(count, "fault")
    clean = "never cleaned" if checkpoint is None else f"{report.keys} keys below {checkpoint}"
    yield f"{report.topic_partition}: {verdict}; {counted(report.records, 'record')}, {clean}"
    for note in report.notes:
        yield f"  {note}"
    for fault in report.faults[:MAX_FAULTS]:
        yield f"  FAULT {fault}"
    if count > MAX_FAULTS:
        yield f"  FAULT and {count - MAX_FAULTS} more"
