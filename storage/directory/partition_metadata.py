"""``partition.metadata``: the topic id of a partition folder (Kafka: ``PartitionMetadataFile``).

    version: 0
    topic_id: 7SqBHxP6QkKw0mJ9cU5sYg

The file has two lines without a line feed at the end. It is written before the first record.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from siltstone.protocol.names import parse_uuid, uuid_text
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, read_text

_ZERO_ID = UUID(int=0)
_TEXT = re.compile(r"version: (?P<version>\d+)\ntopic_id: (?P<topic_id>\S+)\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """The content of the file."""

    topic_id: UUID
    version: int = 0

    @classmethod
    def read(cls, partition_directory: Path) -> "PartitionMetadata | None":
        """Return the content of the folder's file, None if the file is missing.

        Raises:
            MalformedCheckpoint: The file exists but cannot be understood.
        """
        path = partition_directory / files.PARTITION_METADATA
        text = read_text(path)
        return None if text is None else cls.parse(text, path)

    @classmethod
    def parse(cls, text: str, path: object) -> "PartitionMetadata":
        """Return the content of a file's text; errors name ``path``.

        Raises:
            MalformedCheckpoint: The text cannot be understood.
        """
        match = _TEXT.fullmatch(text)
        if not match:
            raise MalformedCheckpoint(f"{path} is not the two lines `version: 0`, `topic_id: …`")
        try:
            topic_id = parse_uuid(match["topic_id"])
        except ValueError as error:
            raise MalformedCheckpoint(f"{path} line 2: {error}") from error
        if topic_id == _ZERO_ID:
            raise MalformedCheckpoint(f"{path} line 2: the topic id is all zeros")
        return cls(topic_id=topic_id, version=int(match["version"]))

    def write(self, partition_directory: Path) -> None:
        """Replace the folder's file. Blocks."""
        text = f"version: {self.version}\ntopic_id: {uuid_text(self.topic_id)}"
        files.replace_file(partition_directory / files.PARTITION_METADATA, text.encode())
