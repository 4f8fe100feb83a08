"""Reads a split's records from segment files.

A file is the planned one if its inode is the same, it is long enough and a batch begins where the
split begins. If not, the cleaner or retention has replaced it: the split's offsets, not its
positions, are searched again.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from siltstone.pipeline.client.watch import Watch
from siltstone.pipeline.errors import CorruptLog, DataLost, PipelineError, SnapshotExpired
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.archive_view import read_topic_id, view_partition
from siltstone.pipeline.planning.partition_plan import PartitionPlan
from siltstone.pipeline.planning.ranges import check_start
from siltstone.pipeline.planning.split import Piece, Split
from siltstone.pipeline.reading.aborted import AbortedIndex
from siltstone.pipeline.reading.decoder import Decoder, Fault
from siltstone.pipeline.reading.resync import find_batch_after
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.pipeline.stores import StoredFile, open_store

CHUNK_BYTES: Final = 4 << 20
_MAX_RELOCATIONS: Final = 10


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
        with self._watch:
            yield from self._pieces(self._split)

    def _pieces(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the records, and search their offsets again if files were replaced.

        A reader whose pin has ended does so, too, except in a compacted topic: there a value that
        was the last of its key at the moment of the pin may be gone.
        """
        relocations = 0
        while True:
            try:
                check_identity(split)
                for piece in split.pieces:
                    self._check_gap(piece.segment)
                    yield from self._piece(piece)
                self._check_gap(split.end_offset)
                return
            except (Replaced, FileNotFoundError) as error:
                relocations += 1
                if split.lease is not None and (split.is_compacted or isinstance(error, Replaced)):
                    raise _unpinned(split, error) from error
                if relocations > _MAX_RELOCATIONS:
                    raise DataLost(
                        f"segments of {split.topic_partition} go away faster than they can be "
                        f"read, the last time at offset {self._decoder.next_offset}: {error}"
                    ) from error
                split = relocate(self._split.at_home(), self._decoder.next_offset)
                self._decoder.restart(split.start_offset)

    def _check_gap(self, offset: int) -> None:
        """Check that nothing is missing before an offset, except offsets that were skipped.

        Raises:
            DataLost: Offsets are missing.
        """
        if not self._has_passed_over:
            self._split.check_gap(self._decoder.next_offset, offset)

    def _piece(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        store, path = open_store(piece.place)
        opened = store.open(path)
        try:
            if piece.inode and opened.inode != piece.inode:
                raise Replaced(f"{piece.place} is another file than before")
            if opened.size < piece.end:
                raise Replaced(
                    f"{piece.place} is {opened.size} bytes long and had {piece.end} before"
                )
            if piece.first_offset >= 0 and first_offset_at(opened, piece) != piece.first_offset:
                raise Replaced(f"no batch of offset {piece.first_offset} is in {piece.place} now")
            self._decoder.segment = piece.segment
            yield from self._batches(piece, opened)
        finally:
            opened.close()

    def _batches(self, piece: Piece, opened: StoredFile) -> Iterator[pa.RecordBatch]:
        decoder, position = self._decoder, piece.position
        while position < piece.end:
            self._watch.look()
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
            raise Replaced(f"a file of {self._split.topic_partition} became shorter")
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


def _unpinned(split: Split, error: Exception) -> PipelineError:
    """Return the error for pinned files that are gone or replaced."""
    if isinstance(error, Replaced):
        return DataLost(f"{split.topic_partition} was cut since it was pinned: {error}; read again")
    return SnapshotExpired(
        f"files of {split.topic_partition} that were pinned are gone: {error}; the pin has ended, "
        "so read again, with a longer pinLeaseMs if a job pauses"
    )


class Replaced(Exception):  # noqa: N818 - what became of the file
    """A file is not the one that was planned."""


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


def relocate(split: Split, offset: int) -> Split:
    """Return the rest of a split, from an offset on, planned with the present files.

    Raises:
        DataLost: the offsets are gone, or the topic is another one of the same name.
        SourceUnavailable: the folder is gone.
    """
    check_identity(split)
    partition = view_partition(split.folder)
    start = check_start(partition, offset, fails=split.rules.fails_on_data_loss)
    if split.rules.fails_on_data_loss and partition.end_offset < split.end_offset:
        raise DataLost(
            f"{split.topic_partition} ends at {partition.end_offset} and reached "
            f"{split.end_offset} before: it was cut or made again; begin again"
        )
    rest = replace(split, start_offset=min(start, split.end_offset), pieces=())
    options = ReadOptions(subscribe=(split.topic,))
    found = PartitionPlan(partition, rest, options).cut(1 << 62)
    pieces = tuple(piece for each in found for piece in each.pieces)
    return replace(rest, pieces=pieces)
