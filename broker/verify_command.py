"""``siltstone verify``: holds the folders of a stopped broker against the rules of compaction."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.cleaner_commands import Channel, NobodyAnswers, Refusal, Which, meant_by
from cleaner.checkpoints import CleanerCheckpoints
from cleaner.history import read_history
from cleaner.verify import MOST_FAULTS, Report, verify_partition
from protocol.errors import CorruptMessage
from storage.checkpoint import MalformedCheckpoint
from storage.partition_metadata import PartitionMetadata
from storage.topic_partition import FolderState, TopicPartition, parse_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from config.layers import Layers


def run_verify(layers: Layers, name: str | None) -> int:
    """Verify a topic, a partition or all that was cleaned; 1 if anything is wrong."""
    try:
        Channel(layers).get("/v1/status", Which())
    except (NobodyAnswers, Refusal):
        pass
    else:
        sys.stderr.write(
            "siltstone: the broker runs and changes these folders; stop it first, or verify a copy "
            "of them with --set log.dirs=…\n"
        )
        return 1
    directories = [Path(each).absolute() for each in layers.server().log_dirs]
    there = [each for each in directories if each.is_dir()]
    checkpoints = CleanerCheckpoints(there)
    histories = {each: list(read_history(each)) for each in there}
    found = 0
    faults = 0
    for topic_partition, path in _folders(there, name):
        checkpoint = checkpoints.get(path.parent, topic_partition)
        events = _events_of(topic_partition, path, histories[path.parent])
        if checkpoint is None and not events and name is None:
            continue  # never cleaned
        found += 1
        report = _verify(topic_partition, path, checkpoint, events)
        faults += len(report.faults)
        sys.stdout.writelines(f"{line}\n" for line in _lines(report, checkpoint))
    if not found:
        what = "has been compacted" if name is None else f"is called {name}"
        sys.stderr.write(f"siltstone: no partition here {what}\n")
        return 0 if name is None else 1
    return 1 if faults else 0


def _verify(
    topic_partition: TopicPartition,
    path: Path,
    checkpoint: int | None,
    events: list[dict[str, Any]],
) -> Report:
    try:
        return verify_partition(path, checkpoint, events)
    except (OSError, CorruptMessage, KeyError) as error:
        report = Report(topic_partition)
        report.fault(f"it cannot be read to its end: {error}")
        return report


def _folders(directories: list[Path], name: str | None) -> Iterator[tuple[TopicPartition, Path]]:
    meant = meant_by(name)
    for directory in directories:
        for path in sorted(directory.iterdir()):
            try:
                folder = parse_folder(path.name)
            except ValueError:
                continue
            each = folder.topic_partition
            if folder.state is FolderState.LIVE and any(
                which.topic in {"", each.topic} and which.partition in {None, each.partition}
                for which in meant
            ):
                yield each, path


def _events_of(
    topic_partition: TopicPartition, path: Path, history: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the events of a partition, but not those of a deleted topic of the same name."""
    try:
        metadata = PartitionMetadata.read(path)
    except MalformedCheckpoint:
        metadata = None
    topic_id = None if metadata is None else str(metadata.topic_id)
    return [
        event
        for event in history
        if (event.get("topic"), event.get("partition")) == topic_partition
        and topic_id in {None, event.get("topic_id")}
    ]


def _lines(report: Report, checkpoint: int | None) -> Iterator[str]:
    count = len(report.faults)
    verdict = "fine" if not count else f"{count} faults"
    clean = "never cleaned" if checkpoint is None else f"{report.keys} keys below {checkpoint}"
    yield f"{report.topic_partition}: {verdict}; {report.records} records, {clean}"
    for note in report.notes:
        yield f"  {note}"
    for fault in report.faults[:MOST_FAULTS]:
        yield f"  FAULT {fault}"
    if count > MOST_FAULTS:
        yield f"  FAULT and {count - MOST_FAULTS} more"
