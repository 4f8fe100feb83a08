"""``siltstone verify``: checks the folders of a stopped broker by the rules of compaction."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siltstone.broker.commands.asking import meant_by
from siltstone.broker.commands.explain_text import counted
from siltstone.broker.commands.options import read_settings
from siltstone.broker.commands.stopped import find_folders
from siltstone.broker.commands.terminal import fail, write_json, write_lines
from siltstone.cleaner.checkpoints import CleanerCheckpoints
from siltstone.cleaner.history.history import read_history
from siltstone.cleaner.verify import MAX_FAULTS, Report, verify_partition
from siltstone.protocol.errors import CorruptMessage
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, OffsetCheckpoint
from siltstone.storage.directory.lock import is_held
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.directory.opening import find_readable
from siltstone.storage.directory.partition_metadata import PartitionMetadata

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from siltstone.storage.topic_partition import TopicPartition


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the option for the partitions."""
    which = "a topic or one of its partitions (default: all)"
    parser.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=which)


def run_verify(options: argparse.Namespace) -> int:
    """Verify a topic, a partition or all cleaned partitions; return 1 if anything is wrong."""
    layers = read_settings(options)
    name, as_json = options.name, options.json
    try:
        there = find_readable([Path(each).absolute() for each in layers.server().log_dirs])
        _refuse_live(there)
        _, folders = find_folders(there, meant_by(name))
        checkpoints = CleanerCheckpoints(there)
        recovery_points = {each: OffsetCheckpoint(each).read_or_empty() for each in there}
        histories = {each: list(read_history(each)) for each in there}
    except LookupError:
        return fail(f"no partition here is called {name}")
    except (LogDirError, OSError) as error:
        return fail(str(error))
    found: list[tuple[Report, int | None]] = []
    for topic_partition, path in folders.items():
        checkpoint = checkpoints.get(path.parent, topic_partition)
        events = _events_of(topic_partition, path, histories[path.parent])
        if checkpoint is None and not events and name is None:
            continue  # never cleaned
        recovery_point = recovery_points[path.parent].get(topic_partition, 0)
        report = _verify(topic_partition, path, checkpoint, events, recovery_point)
        found.append((report, checkpoint))
        if not as_json:
            write_lines(_lines(report, checkpoint))
    if as_json:
        partitions = [_facts(*each) for each in found]
        write_json({"partitions": partitions})
    if not found:
        sys.stderr.write("siltstone: no partition here has been compacted\n")
    return 1 if any(report.faults for report, _ in found) else 0


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
    recovery_point: int,
) -> Report:
    try:
        return verify_partition(path, checkpoint, events, recovery_point=recovery_point)
    except (KeyError, TypeError) as error:
        fault = f"its receipt in the history cannot be read: {error!r}"
    except (OSError, CorruptMessage, MalformedCheckpoint) as error:
        fault = f"it cannot be read to its end: {error}"
    report = Report(topic_partition)
    report.fault(fault)
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
        "notes": report.notes,
    }


def _lines(report: Report, checkpoint: int | None) -> Iterator[str]:
    count = len(report.faults)
    verdict = "fine" if not count else counted(count, "fault")
    clean = "never cleaned" if checkpoint is None else f"{report.keys} keys below {checkpoint}"
    yield f"{report.topic_partition}: {verdict}; {counted(report.records, 'record')}, {clean}"
    for note in report.notes:
        yield f"  {note}"
    for fault in report.faults[:MAX_FAULTS]:
        yield f"  FAULT {fault}"
    if count > MAX_FAULTS:
        yield f"  FAULT and {count - MAX_FAULTS} more"
