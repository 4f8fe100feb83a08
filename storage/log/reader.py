"""A partition folder that is only read: for ``dump-log``, tools and jobs beside a broker.

The reader takes no lock and asks no broker. It does not see what a running broker appends after
`PartitionReader.refresh`, and it never sees half a batch.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from siltstone.protocol.errors import OffsetOutOfRange
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage import files
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.readable import ReadableSegment, open_segment
from siltstone.storage.topic_partition import TopicPartition, parse_folder

_MAX_RETRIES: Final = 10


class StoredBatch(NamedTuple):
    """One batch and where it is."""

    segment: ReadableSegment
    position: int
    header: BatchHeader

    def read(self) -> bytes:
        """Return the bytes of the whole batch."""
        return self.segment.read(self.position, self.header.size)


class PartitionReader:
    """The segments of one partition folder as they were at the last `refresh`.

    A cleaner may replace them, and retention may delete them, while they are read. Reading goes by
    offsets and lists the files again if one is gone.
    """

    def __init__(self, directory: Path) -> None:
        """Look into a folder.

        Raises:
            ValueError: It is not named like a partition folder.
            FileNotFoundError: It is missing.
        """
        self.directory = directory
        self.topic_partition: TopicPartition = parse_folder(directory.name).topic_partition
        self.segments: tuple[ReadableSegment, ...] = ()
        self._open_files = OpenFiles()
        self.refresh()

    @property
    def start_offset(self) -> int:
        """Return the base offset of the first segment; records may begin later."""
        return self.segments[0].base_offset if self.segments else 0

    def refresh(self) -> None:
        """Read the list of segments and their sizes again."""
        segments = []
        for base_offset in files.list_bases(self.directory, files.LOG):
            try:
                segments.append(open_segment(self.directory, base_offset, self._open_files))
            except FileNotFoundError:
                continue  # deleted since the folder was listed
        self.segments = tuple(segments)

    def next_offset(self) -> int:
        """Return the offset after the last batch."""
        return self.segments[-1].next_offset() if self.segments else 0

    def batches(
        self, start_offset: int = 0, end_offset: int | None = None
    ) -> Iterator[StoredBatch]:
        """Yield the batches that reach ``start_offset`` and begin below ``end_offset``.

        Raises:
            OffsetOutOfRange: Segments were deleted faster than they could be read.
            CorruptMessage: The log is damaged.
        """
        offset = start_offset
        retries = 0
        while True:
            try:
                for batch in self._batches_from(offset):
                    if end_offset is not None and batch.header.base_offset >= end_offset:
                        return
                    yield batch
                    offset = batch.header.next_offset
                    retries = 0
                return
            except FileNotFoundError as error:
                retries += 1
                if retries > _MAX_RETRIES:
                    raise OffsetOutOfRange(
                        f"{self.topic_partition}: the segments from offset {offset} on go away "
                        "faster than they can be read; begin again at the start"
                    ) from error
                self.refresh()

    def records(self, start_offset: int = 0, end_offset: int | None = None) -> Iterator[Record]:
        """Yield the data records from ``start_offset`` to below ``end_offset``, aborted ones too.

        Raises:
            OffsetOutOfRange: As `batches`.
            CorruptMessage: A batch is damaged; CRCs are not checked.
            InvalidRecord: A record cannot be read.
        """
        for batch in self.batches(start_offset, end_offset):
            if batch.header.is_control:
                continue
            for record in iterate_records(batch.read()):
                if end_offset is not None and record.offset >= end_offset:
                    return
                if record.offset >= start_offset:
                    yield record

    def _batches_from(self, offset: int) -> Iterator[StoredBatch]:
        for segment, following in zip(self.segments, (*self.segments[1:], None), strict=False):
            if following is not None and following.base_offset <= offset:
                continue
            located = segment.locate(offset)
            if located is None:
                continue
            for position, header in segment.batches(located.position):
                yield StoredBatch(segment, position, header)
