"""The part of fetched batches that a client with ``isolation.level=read_committed`` sees."""

from collections.abc import Iterable, Iterator

from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.parts import Buffer
from siltstone.protocol.records.batch import BatchHeader


def find_committed(
    records: Buffer, aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[BatchHeader, memoryview | None]]:
    """Yield each whole batch of a range, without its bytes if it has no records for a client.

    These are markers and the batches of aborted transactions. ``aborted`` has the producer id and
    the first offset of each transaction that ended so, as in an answer to Fetch.

    Raises:
        CorruptMessage: A header is damaged.
    """
    coming = sorted(aborted, key=lambda each: -each[1])
    open_ids: set[int] = set()
    view = memoryview(records)
    while len(view) >= HEADER_SIZE:
        header = BatchHeader.read(view)
        if header.size > len(view):
            return
        batch, view = view[: header.size], view[header.size :]
        while coming and coming[-1][1] <= header.last_offset:
            open_ids.add(coming.pop()[0])
        if header.is_control:
            open_ids.discard(header.producer_id)
        is_aborted = header.is_transactional and header.producer_id in open_ids
        yield header, None if header.is_control or is_aborted else batch
