"""Reading for share fetches: whole stored batches as a range of a file, and their offsets.

Only headers are read. Batches of aborted transactions are named, for a group that reads committed
records only; nothing is decompressed (Kafka: ShareFetchUtils and its helpers in SharePartition).
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from siltstone.broker.share.partition import Stored
from siltstone.protocol.messages.share_fetch import AcquiredRecords
from siltstone.protocol.parts import FileSlice
from siltstone.storage.log.log import Log
from siltstone.storage.segment.batch_walk import iterate_batches


class ShareRead(NamedTuple):
    """The result of a read: a range of a file, its batches in order, and the aborted ones."""

    slice: FileSlice
    stored: list[Stored]
    aborted: list[Stored]

    def cut(self, acquired: Sequence[AcquiredRecords]) -> FileSlice:
        """Return the range from the first batch with acquired records to the last one."""
        first_of = attrgetter("first")
        begin = bisect_right(self.stored, acquired[0].first_offset, key=first_of) - 1
        last = self.stored[bisect_right(self.stored, acquired[-1].last_offset, key=first_of) - 1]
        position = self.stored[max(0, begin)].position
        return FileSlice(self.slice.file, position, last.position + last.size - position)


def read(
    log: Log,
    offset: int,
    max_bytes: int,
    *,
    beyond: int,
    max_records: int,
    is_committed: bool,
    at_least_one: bool,
) -> ShareRead | None:
    """Read from an offset on, as far as a queue that ends at ``beyond`` can give ``max_records``.

    Raises:
        KafkaError: As `Log.read` does.
    """
    upto = log.last_stable_offset if is_committed else log.high_watermark
    found = log.read(offset, max_bytes, upto, at_least_one=at_least_one)
    if found is None:
        return None
    file, position, size = found.slice.file, found.slice.position, found.slice.size
    open_since = sorted(
        (first, producer)
        for producer, first in (
            log.aborted_transactions(offset, found.next_offset) if is_committed else ()
        )
    )
    aborting: set[int] = set()
    stored: list[Stored] = []
    aborted: list[Stored] = []
    for place, header in iterate_batches(file.fileno(), position, position + size):
        if stored and header.base_offset > beyond + max_records:
            break
        beyond = max(beyond, header.base_offset - 1) if not stored else beyond
        batch = Stored(header.base_offset, header.last_offset, place, header.size)
        stored.append(batch)
        while open_since and open_since[0][0] <= header.last_offset:
            aborting.add(open_since.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in aborting:
            aborted.append(batch)
    return ShareRead(found.slice, stored, aborted)
