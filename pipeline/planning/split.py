"""The work of one task: an offset range of one partition, and the facts for reading it.

A split is sent to another process, maybe on another machine. It names files or a broker, and says
how strictly to check the bytes.
"""

from dataclasses import dataclass, field, replace

from siltstone.pipeline.errors import DataLost
from siltstone.pipeline.options import FIRST_TIME, LAST_TIME
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of whole batches in one segment's file."""

    place: str
    """Path or URI of the ``.log``."""
    segment: int
    """The segment's base offset."""
    position: int
    end: int
    inode: int = 0
    """The inode of the file that was planned; 0: any of that name."""
    first_offset: int = -1
    """The base offset of the batch at ``position``; -1: not looked at."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.position


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The pin that keeps the files, and where to renew it."""

    data: str
    control: str
    pin: str
    lease_ms: int
    cluster_id: str
    """The cluster of the broker; another one may have a folder of that path elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules by which a split is read."""

    skips_corrupt: bool = False
    is_committed: bool = False
    fails_on_data_loss: bool = True
    time_from: int = FIRST_TIME
    time_last: int = LAST_TIME
    deadline_ms: int = 0
    """The time from which records may no longer fit those that were read first; 0: never."""
    unpinned_deadline_ms: int = 0
    """The same for a reader that does not see the pinned files."""
    last_end: int = 0
    """If the log has passed this end, a reader without a pin may lack keys; 0: it does not mind."""
    unpinned_last_end: int = 0
    """The same for a reader that does not see the pinned files."""

    @property
    def is_of_all_times(self) -> bool:
        """Whether no record is left out because of its timestamp."""
        return self.time_from == FIRST_TIME and self.time_last == LAST_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Offsets from ``start_offset`` to below ``end_offset`` of one partition."""

    transport: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    topic_id: str = ""
    folder: str = ""
    """Where the partition's files are; empty if it is read over the network."""
    pieces: tuple[Piece, ...] = ()
    aborted: tuple[AbortedTransaction, ...] = ()
    rules: Rules = field(default_factory=Rules)
    is_compacted: bool = False
    lease: Lease | None = None
    bootstrap: str = ""
    kafka: dict[str, str] = field(default_factory=dict)

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Bytes to read; 0 if that is not known."""
        return sum(piece.size for piece in self.pieces)

    @property
    def is_dense(self) -> bool:
        """Whether every offset must exist: in an archive nothing retains or cleans."""
        rules = self.rules
        is_chosen = rules.is_of_all_times and rules.fails_on_data_loss
        return self.transport == "archive" and not self.is_compacted and is_chosen

    def check_gap(self, expected: int, found: int) -> None:
        """Check that no offset is missing between one that was read and the next.

        Raises:
            DataLost: One is.
        """
        if found > expected and self.is_dense:
            raise DataLost(
                f"the offsets {expected} to {found - 1} of {self.topic_partition} are missing in "
                f"{self.folder}: a segment is gone or cut, or the topic was compacted and the "
                "archive lacks the cleaner's checkpoint; restore it, or set failOnDataLoss=false "
                "to go on with what is left"
            )

    def over_network(self) -> "Split":
        """Return the same offsets for a machine that does not see the pinned files."""
        rules = replace(
            self.rules,
            deadline_ms=self.rules.unpinned_deadline_ms,
            last_end=self.rules.unpinned_last_end,
        )
        return replace(self, folder="", pieces=(), lease=None, rules=rules)
