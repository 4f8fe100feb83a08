"""The name of a partition, which is also that of its folder (Kafka: ``TopicPartition``)."""

import re
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

MAX_FOLDER_NAME = 255
MAX_PARTITIONS = 1_000_000
"""Partitions that one topic may have: more folders no disk serves."""

_LIVE = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)", re.ASCII)
_MARKED = re.compile(
    r"(?P<live>[a-zA-Z0-9._-]+-\d+)\.[0-9a-zA-Z]+(?P<state>-delete|-stray|-future)", re.ASCII
)


class FolderState(StrEnum):
    """The meaning of a folder's suffix for the partition in it."""

    LIVE = ""
    DELETE = "-delete"
    STRAY = "-stray"
    FUTURE = "-future"


class TopicPartition(NamedTuple):
    """One partition of a topic; prints as its folder's name, ``orders-3``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class FolderName(NamedTuple):
    """The parts of a folder's name."""

    topic_partition: TopicPartition
    state: FolderState


def most_partitions(topic: str) -> int:
    """Return how many partitions a topic may have so that the names of its folders fit."""
    digits = MAX_FOLDER_NAME - len(topic) - 1
    return min(int(10**digits), MAX_PARTITIONS)


def parse_folder(name: str) -> FolderName:
    """Return the partition that a folder of this name holds.

    The topic ends at the last dash, since topic names may contain dashes and dots; a mark for
    deletion begins at the last dot (KAFKA-5232).

    Raises:
        ValueError: The name is not that of a partition folder.
    """
    state = FolderState.LIVE
    if name.endswith((FolderState.DELETE, FolderState.STRAY, FolderState.FUTURE)):
        marked = _MARKED.fullmatch(name)
        if marked:
            name, state = marked["live"], FolderState(marked["state"])
    live = _LIVE.fullmatch(name)
    if not live:
        raise ValueError(f"{name!r} is not the name of a partition folder, <topic>-<number>")
    return FolderName(TopicPartition(live["topic"], int(live["partition"])), state)


def folder_name(
    topic_partition: TopicPartition,
    state: FolderState = FolderState.LIVE,
    unique_id: UUID | None = None,
) -> str:
    """Return the folder name of a partition.

    A state other than LIVE needs a ``unique_id``, so that a topic of one name may be deleted twice.
    The topic's name is then cut so that the folder's name fits into 255 characters.
    """
    if state is FolderState.LIVE:
        return str(topic_partition)
    if unique_id is None:
        raise ValueError(f"a {state} folder of {topic_partition} needs a unique id in its name")
    tail = f"-{topic_partition.partition}.{unique_id.hex}{state}"
    return topic_partition.topic[: MAX_FOLDER_NAME - len(tail)] + tail
