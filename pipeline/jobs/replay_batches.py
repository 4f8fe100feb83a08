"""The batches of a part, ready to be sent again; a replay of segment files reads these."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from siltstone.pipeline.errors import CorruptLog, SnapshotExpired
from siltstone.pipeline.jobs.replay_source import Part
from siltstone.pipeline.planning.split import Piece, Split
from siltstone.pipeline.reading.aborted import AbortedIndex
from siltstone.pipeline.sinks.batches import again
from siltstone.pipeline.stores import open_store
from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.records.batch import BatchHeader, has_valid_crc

CHUNK_BYTES: Final = 4 << 20


class SentBatch(NamedTuple):
    """A batch as a producer would send it; ``following`` is the offset after it in the source."""

    data: bytearray
    records: int
    following: int


def read_batches(part: Part, start: int) -> Iterator[SentBatch]:
    """Yield the batches of a part from an offset on, without markers and aborted data.

    Raises:
        CorruptLog: A batch is damaged.
        DataLost: Offsets of an archive are missing.
        SnapshotExpired: A file is not the one that was planned.
    """
    for split in part.splits:
        if split.end_offset <= start:
            continue
        is_aborted = AbortedIndex(split.aborted if split.rules.is_committed else ())
        first = following = max(start, split.start_offset)
        for header, data in _batches(split):
            split.check_gap(following, header.base_offset)
            following = max(following, header.next_offset)
            is_wanted = first <= header.last_offset and header.base_offset < split.end_offset
            if not is_wanted or header.is_control or not header.count:
                continue
            if header.is_transactional and is_aborted(header.producer_id, header.base_offset):
                continue
            batch, records = again(header, data, first, split.end_offset)
            if records:
                yield SentBatch(batch, records, min(header.last_offset + 1, split.end_offset))
        split.check_gap(following, split.end_offset)


def _batches(split: Split) -> Iterator[tuple[BatchHeader, memoryview]]:
    for piece in split.pieces:
        yield from _of_piece(split, piece)


def _of_piece(split: Split, piece: Piece) -> Iterator[tuple[BatchHeader, memoryview]]:
    store, path = open_store(piece.place)
    opened = store.open(path)
    try:
        if piece.inode and opened.inode != piece.inode:
            raise SnapshotExpired(f"{piece.place} is another file than was planned; run it again")
        position, size = piece.position, CHUNK_BYTES
        while position < piece.end:
            chunk = memoryview(opened.read(position, min(size, piece.end - position)))
            at = 0
            while at + HEADER_SIZE <= len(chunk):
                header = BatchHeader.read(chunk, at)
                if header.size < HEADER_SIZE:
                    raise _damage(split, piece, position + at)
                if at + header.size > len(chunk):
                    break
                data = chunk[at : at + header.size]
                if not has_valid_crc(data, header.crc):
                    raise _damage(split, piece, position + at)
                yield header, data
                at += header.size
            if not at and size > piece.end - position:
                raise _damage(split, piece, position)
            position += at
            size = CHUNK_BYTES if at else size * 2
    finally:
        opened.close()


def _damage(split: Split, piece: Piece, position: int) -> CorruptLog:
    return CorruptLog(
        f"the batch at position {position} of {piece.place} is damaged; audit {split.topic} to see "
        "what else is"
    )
