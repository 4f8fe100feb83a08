"""Partitions as of one moment: their offsets, their segments, and where the files are.

A pin (the broker's answer to ``POST /v1/pins``) is such a manifest, and the archive transport makes
one from a folder. The planner uses only the manifest. As JSON each value is an object with the
names of its fields.
"""

from dataclasses import dataclass
from typing import Any, Final

from siltstone.storage import files
from siltstone.storage.topic_partition import TopicPartition

NO_PIN: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedSegment:
    """The part of one segment that belongs to the moment.

    Of the active segment the first ``size`` bytes belong to it; a ``.log`` only grows. ``files``
    are the kinds of files that it has (``.log``, ``.index``, ``.timeindex``, ``.txnindex``). An
    index may lack entries; that of an active segment without a pin may be empty.
    """

    base_offset: int
    size: int
    is_active: bool = False
    largest_timestamp: int = -1
    files: tuple[str, ...] = (files.LOG,)
    inode: int = 0
    """The inode of the ``.log``, if another file may get its name; 0: any."""

    def file_name(self, kind: str) -> str:
        """Return the name of one of the segment's files."""
        return files.segment_file_name(self.base_offset, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPartition:
    """One partition: readers see ``log_start_offset`` to below ``end_offset``, the high watermark.

    Under read_committed they see no further than ``last_stable_offset``. ``folder`` is where the
    segments' files (links, in a pin) are; empty for a partition that is read over the network.
    """

    topic: str
    partition: int
    log_start_offset: int
    end_offset: int
    last_stable_offset: int
    topic_id: str = ""
    """Base64url without padding, as Kafka prints it; empty if it is not known."""
    folder: str = ""
    is_compacted: bool = False
    delete_retention_ms: int = 86_400_000
    first_dirty_offset: int = 0
    """The cleaner's checkpoint: below it there is one record a key."""
    segments: tuple[PinnedSegment, ...] = ()
    lost_end: str = ""
    """Of an archive, why it is known that the log went on; empty if nothing says so."""
    orphans: tuple[str, ...] = ()
    """Of an archive, the indexes without a ``.log``."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)

    @property
    def safe_ms(self) -> int:
        """How long a read of a compacted partition without a pin may take; tombstones stay longer.

        If an early task saw a key's value, a late one still sees its deletion.
        """
        return self.delete_retention_ms // 2

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All partitions that were asked for, as of one moment; with a pin their files stay."""

    pin: str = NO_PIN
    taken_at_ms: int
    cluster_id: str = ""
    lease_ms: int = 0
    partitions: tuple[PinnedPartition, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all partitions."""
        return sum(partition.size for partition in self.partitions)

    @classmethod
    def from_facts(cls, facts: Any) -> "Manifest":
        """Return the manifest of a broker's answer; fields that are not known here are left out.

        Raises:
            ValueError: it is not a manifest.
        """
        try:
            return cls(**(_known(cls, facts) | {"partitions": _partitions(facts)}))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"that is not a manifest of pinned partitions: {error!r}") from error


def _partitions(facts: dict[str, Any]) -> tuple[PinnedPartition, ...]:
    return tuple(
        PinnedPartition(
            **(
                _known(PinnedPartition, each)
                | {"segments": _segments(each), "orphans": tuple(each.get("orphans", ()))}
            )
        )
        for each in facts["partitions"]
    )


def _segments(facts: dict[str, Any]) -> tuple[PinnedSegment, ...]:
    segments = []
    for each in facts.get("segments", ()):
        known = _known(PinnedSegment, each)
        known["files"] = tuple(each.get("files", (files.LOG,)))
        segments.append(PinnedSegment(**known))
    return tuple(segments)


def _known(kind: type, facts: dict[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in kind.__slots__ if name in facts}  # type: ignore[attr-defined]
