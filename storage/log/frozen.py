"""A partition as of one moment, for a pin: values in memory, no file touched yet."""

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.storage.log.name_gate import NameGate
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from siltstone.storage.segment.segment import LogSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenLog:
    """The segments that a pin will link, how far each is read, and the offsets of that moment.

    Its owner calls ``names.release()`` once, when the files are linked or will not be. The last of
    ``sizes`` is the present end of the active segment, to which more may be appended.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    path: Path
    directory: Path
    segments: "tuple[LogSegment, ...]"
    sizes: tuple[int, ...]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    first_dirty_offset: int
    is_compacted: bool
    delete_retention_ms: int
    names: NameGate
