"""Checkpoint files: a version line, a count line, one entry per line (Kafka: ``CheckpointFile``).

    0
    2
    user-profiles 0 1500
    user-profiles 1 0

A file is always replaced as a whole, atomically. An empty file has no entries: Kafka creates such
files.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from siltstone.storage import files
from siltstone.storage.topic_partition import TopicPartition

VERSION = 0

_logger = logging.getLogger(__name__)


class MalformedCheckpoint(Exception):  # noqa: N818  # what is wrong, in Kafka's word for the file
    """A checkpoint, or another small text file, does not follow its format."""


def read_entries(path: Path, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint as lists of ``fields`` words; a missing file has none.

    Raises:
        MalformedCheckpoint: Version, count or a line is wrong.
    """
    text = read_text(path)
    return [] if text is None else parse_entries(text, fields, path)


def read_text(path: Path) -> str | None:
    """Return the text of a small file, None if the file is missing.

    Raises:
        MalformedCheckpoint: The file is no text.
    """
    try:
        return files.read_text(path)
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise MalformedCheckpoint(f"{path} is not text: {error}") from error


def parse_entries(text: str, fields: int, path: object) -> list[list[str]]:
    """Return the entries in the text of a checkpoint; errors name ``path``.

    Raises:
        MalformedCheckpoint: Version, count or a line is wrong.
    """
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    version = _number(path, lines, 0, "version")
    if version != VERSION:
        raise MalformedCheckpoint(f"{path} line 1: version {version} is not {VERSION}")
    count = _number(path, lines, 1, "count of entries")
    entries = [line.split() for line in lines[2:]]
    for number, entry in enumerate(entries, start=3):
        if len(entry) != fields:
            raise MalformedCheckpoint(f"{path} line {number}: not {fields} words")
    if len(entries) != count:
        raise MalformedCheckpoint(f"{path}: {len(entries)} entries where line 2 says {count}")
    return entries


def write_entries(path: Path, entries: Iterable[str]) -> None:
    """Replace a checkpoint. Blocks."""
    lines = list(entries)
    text = "\n".join([str(VERSION), str(len(lines)), *lines]) + "\n"
    files.replace_file(path, text.encode())


class OffsetCheckpoint:
    """One offset per partition in a file of a log directory (Kafka: ``OffsetCheckpointFile``)."""

    __slots__ = ("path",)

    def __init__(self, directory: Path, name: str = files.RECOVERY_POINTS) -> None:
        self.path = directory / name

    def read(self) -> dict[TopicPartition, int]:
        """Return the offsets; none if the file is missing or empty.

        Raises:
            MalformedCheckpoint: The file cannot be understood.
        """
        return offsets_of(read_entries(self.path, 3), self.path)

    def read_or_empty(self) -> dict[TopicPartition, int]:
        """Return the offsets; warn and return no offsets if the file cannot be understood.

        Without recovery points every log is scanned as a whole. Without start offsets each log
        begins at its first segment. Both are safe.
        """
        try:
            return self.read()
        except MalformedCheckpoint as error:
            _logger.warning(
                "checkpoint is unreadable and counts as empty file=%s error=%s", self.path, error
            )
            return {}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file by these offsets. Blocks."""
        write_entries(
            self.path,
            [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()],
        )


def offsets_of(entries: Iterable[list[str]], path: object) -> dict[TopicPartition, int]:
    """Return the offsets in entries; errors name ``path``.

    Raises:
        MalformedCheckpoint: A word is not a number, or no log can have the offset.
    """
    offsets = {}
    for number, (topic, partition, offset) in enumerate(entries, start=3):
        try:
            known = int(offset)
            offsets[TopicPartition(topic, int(partition))] = known
        except ValueError as error:
            raise MalformedCheckpoint(f"{path} line {number}: {error}") from error
        if not 0 <= known <= files.MAX_OFFSET:
            raise MalformedCheckpoint(f"{path} line {number}: {known} is no offset of a log")
    return offsets


def _number(path: object, lines: list[str], index: int, what: str) -> int:
    try:
        return int(lines[index])
    except (IndexError, ValueError) as error:
        raise MalformedCheckpoint(f"{path} line {index + 1}: no {what}") from error
