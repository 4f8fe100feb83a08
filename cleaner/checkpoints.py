"""``cleaner-offset-checkpoint`` of every log directory: how far each partition is clean.

After a crash between the swap of new segments and the write of this file, the offset in the file
is too low. The next pass then does the same work again, which changes nothing.
"""

from collections.abc import Container, Iterable
from pathlib import Path

from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.topic_partition import TopicPartition


class CleanerCheckpoints:
    """The files and their offsets in memory; both change under the manager's lock.

    An offset gets into memory only after it was written to the file.
    """

    def __init__(self, directories: Iterable[Path]) -> None:
        """Read the files; one that cannot be understood counts as empty. Blocks."""
        self._files = {path: OffsetCheckpoint(path, files.CLEANER_OFFSETS) for path in directories}
        self._offsets = {path: file.read_or_empty() for path, file in self._files.items()}

    def get(self, directory: Path, topic_partition: TopicPartition) -> int | None:
        """Return the first dirty offset of a partition, None if no offset was noted."""
        return self._offsets.get(directory, {}).get(topic_partition)

    def update(
        self,
        directory: Path,
        offsets: dict[TopicPartition, int],
        present: Container[TopicPartition],
    ) -> None:
        """Note offsets, and drop the partitions that are not ``present`` any more. Blocks.

        Raises:
            OSError: The file could not be written; it is as it was.
        """
        kept = {each: at for each, at in self._offsets[directory].items() if each in present}
        self._replace(directory, kept | offsets)

    def move(self, topic_partition: TopicPartition, source: Path, target: Path) -> None:
        """Move a partition's offset to the directory of its log (Kafka: ``alterCheckpointDir``).

        Blocks.

        Raises:
            OSError: A file could not be written and is as it was. A log whose offset is missing
                is dirty from its start.
        """
        offset = self.get(source, topic_partition)
        others = self._without(target, {topic_partition})
        self._replace(target, others if offset is None else others | {topic_partition: offset})
        self._replace(source, self._without(source, {topic_partition}))

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions. Blocks.

        Raises:
            OSError: A file could not be written; it is as it was.
        """
        gone = set(topic_partitions)
        for directory in list(self._offsets):
            self._replace(directory, self._without(directory, gone))

    def _without(
        self, directory: Path, gone: Container[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return {each: at for each, at in self._offsets[directory].items() if each not in gone}

    def _replace(self, directory: Path, offsets: dict[TopicPartition, int]) -> None:
        if offsets != self._offsets[directory]:
            self._files[directory].write(offsets)
            self._offsets[directory] = offsets
