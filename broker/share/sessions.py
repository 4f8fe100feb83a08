"""Share sessions: what a member of a share group reads, by epochs (Kafka: ShareSessionCache).

A session belongs to a member and to the connection on which it was opened; when either ends, its
records are released. It keeps its partitions in the order in which they are read: one that has
given records goes to the end.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from siltstone.protocol.errors import (
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
    UnknownServerError,
)

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_INT32: Final = 2**31 - 1


class ReadPartition(NamedTuple):
    """A partition as a request names it, and the name of its topic; None if it is not known."""

    topic_id: bytes
    partition: int
    topic: str | None


class ShareSession:
    """One session: the ``epoch`` of its next request, and its partitions.

    ``news`` are partitions that the next answer names even if nothing was acquired.
    """

    __slots__ = ("connection", "epoch", "group_id", "member_id", "news", "partitions")

    def __init__(self, group_id: str, member_id: str, connection: object) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[ReadPartition, None] = {}
        self.news: set[ReadPartition] = set()

    def update(self, added: Iterable[ReadPartition], forgotten: Iterable[ReadPartition]) -> None:
        """Add partitions and remove others."""
        for each in added:
            if each not in self.partitions:
                self.partitions[each] = None
                self.news.add(each)
        for each in forgotten:
            self.partitions.pop(each, None)
            self.news.discard(each)

    def tells(self, partition: ReadPartition, *, has_records: bool, has_failed: bool) -> bool:
        """Tell whether the answer names a partition, and note that it does."""
        is_news = partition in self.news
        self.news.discard(partition)
        if has_failed:
            self.news.add(partition)
        if has_records and partition in self.partitions:
            del self.partitions[partition]
            self.partitions[partition] = None
        return is_news or has_records or has_failed


class ShareSessions:
    """All share sessions by group and member (loop only).

    ``max_count`` and ``max_partitions`` say how many sessions, and partitions of all of them, there
    may be.
    """

    def __init__(self, max_count: Callable[[], int], max_partitions: Callable[[], int]) -> None:
        self._max_count = max_count
        self._max_partitions = max_partitions
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._groups: dict[str, int] = {}
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, group_id: str, member_id: str) -> ShareSession | None:
        """Return the session of a member; None if it has none."""
        return self._sessions.get((group_id, member_id))

    def get(self, group_id: str, member_id: str) -> ShareSession:
        """Return the session of a member.

        Raises:
            ShareSessionNotFound: It has none.
        """
        session = self.find(group_id, member_id)
        if session is None:
            raise ShareSessionNotFound
        return session

    def has_group(self, group_id: str) -> bool:
        """Tell whether a member of a group has a session."""
        return group_id in self._groups

    def open(
        self, group_id: str, member_id: str, partitions: list[ReadPartition], connection: object
    ) -> ShareSession:
        """Begin a session, in the place of the member's earlier one.

        Raises:
            ShareSessionLimitReached: There are too many sessions, or partitions in them.
            UnknownServerError: A partition is named twice.
        """
        self.close(group_id, member_id)
        session = ShareSession(group_id, member_id, connection)
        session.partitions = dict.fromkeys(partitions)
        count = len(session.partitions)
        if count < len(partitions):
            raise UnknownServerError
        if len(self) >= self._max_count() or self.partition_count + count > self._max_partitions():
            raise ShareSessionLimitReached
        self._sessions[group_id, member_id] = session
        self._groups[group_id] = self._groups.get(group_id, 0) + 1
        self.partition_count += count
        return session

    def advance(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """Return the session of a request that has the next epoch, which it takes.

        Raises:
            ShareSessionNotFound: The member has no session.
            InvalidShareSessionEpoch: Another epoch is next.
        """
        session = self.get(group_id, member_id)
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch
        session.epoch = next_epoch(epoch)
        return session

    def update(
        self,
        session: ShareSession,
        added: list[ReadPartition],
        forgotten: Iterable[ReadPartition],
    ) -> None:
        """Add partitions to a session and remove others.

        Raises:
            ShareSessionLimitReached: There would be too many partitions.
        """
        before = len(session.partitions)
        if added and self.partition_count + len(added) > self._max_partitions():
            raise ShareSessionLimitReached
        session.update(added, forgotten)
        self.partition_count += len(session.partitions) - before

    def close(self, group_id: str, member_id: str) -> ShareSession | None:
        """End the session of a member, and return it; None if it has none."""
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            self.partition_count -= len(session.partitions)
            count = self._groups.pop(group_id) - 1
            if count:
                self._groups[group_id] = count
        return session


def next_epoch(epoch: int) -> int:
    """Return the epoch after another one: after the last one comes 1."""
    return 1 if epoch == _MAX_INT32 else epoch + 1
