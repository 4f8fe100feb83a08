"""Reads a split's records from segment files.

A file is the planned one if its inode is the same, it is long enough and a batch begins where the
split begins.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from siltstone.pipeline.client.watch import Watch
from siltstone.pipeline.errors import CorruptLog, DataLost, SnapshotExpired
from siltstone.pipeline.planning.archive_view import read_topic_id
from siltstone.pipeline.planning.split import Piece, Split
from siltstone.pipeline.reading.aborted import AbortedIndex
from siltstone.pipeline.reading.decoder import Decoder, Fault
from siltstone.pipeline.reading.resync import find_batch_after
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.pipeline.stores import StoredFile, open_store

CHUNK_BYTES: Final = 4 << 20


class FileScan:
    """Reads one split. One thread, once."""

    def __init__(self, split: Split, columns: tuple[str, ...], scanned: Scanned) -> None:
        self._split = split
        self._scanned = scanned
        self._watch = Watch(split)
        self._decoder = Decoder(
            split,
            columns,
            scanned,
            AbortedIndex(split.aborted) if split.rules.is_committed else None,
        )
        self._buffer = memoryview(bytearray(CHUNK_BYTES))
        self._has_passed_over = False

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records.

        Raises:
            PipelineError: they cannot be read, or not as of one moment, or some are missing.
        """
        split = self._split
        with self._watch:
            check_identity(split)
            try:
                for piece in split.pieces:
                    self._check_gap(piece.segment)
                    yield from self._piece(piece)
            except FileNotFoundError as error:
                raise SnapshotExpired(
                    f"files of {split.topic_partition} are gone since the read was planned: "
                    f"{error}; read again"
                ) from error
            self._check_gap(split.end_offset)

    def _check_gap(self, offset: int) -> None:
        """Check that nothing is missing before an offset, except offsets that were skipped.

        Raises:
            DataLost: Offsets are missing.
        """
        if not self._has_passed_over:
            self._split.check_gap(self._decoder.next_offset, offset)

    def _replaced(self, why: str) -> DataLost:
        return DataLost(
            f"{self._split.topic_partition} was cut or made again since the read was planned: "
            f"{why}; read again"
        )

    def _piece(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        store, path = open_store(piece.place)
        opened = store.open(path)
        try:
            if piece.inode and opened.inode != piece.inode:
                raise self._replaced(f"{piece.place} is another file than before")
            if opened.size < piece.end:
                raise self._replaced(
                    f"{piece.place} is {opened.size} bytes long and had {piece.end} before"
                )
            if piece.first_offset >= 0 and first_offset_at(opened, piece) != piece.first_offset:
                raise self._replaced(
                    f"no batch of offset {piece.first_offset} is in {piece.place} now"
                )
            self._decoder.segment = piece.segment
            yield from self._batches(piece, opened)
        finally:
            opened.close()

    def _batches(self, piece: Piece, opened: StoredFile) -> Iterator[pa.RecordBatch]:
        decoder, position = self._decoder, piece.position
        while position < piece.end:
            chunk = self._read(opened, position, piece.end)
            yield from decoder.decode(chunk, position)
            fault = decoder.fault
            if fault is None and decoder.consumed == 0:
                size = int.from_bytes(chunk[8:12], "big", signed=True) + 12
                fault = Fault(position=position, size=size, reason="it runs past its segment's end")
            if fault is None:
                position += decoder.consumed
            else:
                position = self._after(piece, opened, fault)

    def _read(self, opened: StoredFile, position: int, end: int) -> memoryview:
        size = min(max(CHUNK_BYTES, self._decoder.needed), end - position)
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        count = opened.read_into(self._buffer[:size], position)
        self._scanned.bytes_read += count
        if count < size:
            raise self._replaced(f"a file of {self._split.topic_partition} became shorter")
        return self._buffer[:size]

    def _after(self, piece: Piece, opened: StoredFile, fault: Fault) -> int:
        """Return where to go on after a fault, if the rules allow that.

        Raises:
            CorruptLog: they do not.
        """
        sentence = (
            f"{piece.place} at position {fault.position}: {fault.reason} (offsets "
            f"{self._decoder.next_offset} and on of {self._split.topic_partition})"
        )
        if not self._split.rules.skips_corrupt:
            raise CorruptLog(f"{sentence}; onCorrupt=skip goes on without it")
        end = find_batch_after(opened, fault.position, fault.size, piece.end)
        self._scanned.corrupt += 1
        self._has_passed_over = True
        self._decoder.pass_over()
        return end


def first_offset_at(opened: StoredFile, piece: Piece) -> int:
    """Return the base offset of the first batch of a piece, if there is one."""
    return int.from_bytes(opened.read(piece.position, 8), "big", signed=True)


def check_identity(split: Split) -> None:
    """Refuse the folder of another topic that has the name now; a pin's links need no check.

    Raises:
        DataLost: the topic was deleted and made again.
    """
    if split.lease is not None or not split.topic_id:
        return
    topic_id = read_topic_id(split.folder)
    if topic_id and topic_id != split.topic_id:
        raise DataLost(
            f"topic {split.topic} was deleted and made again since the read was planned (topic id "
            f"{split.topic_id}, now {topic_id}); begin again"
        )
