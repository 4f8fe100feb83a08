"""A manifest of a log directory, made from its folders, without a broker.

The last segment is walked to its last whole batch: a torn tail does not count. Checkpoints say
where the log starts and how far it was cleaned. All of it works on object storage, too.
"""

import os
from collections.abc import Iterable

from siltstone.pipeline.errors import SourceUnavailable
from siltstone.pipeline.planning.manifest import PinnedPartition, PinnedSegment
from siltstone.pipeline.planning.segments import SegmentView
from siltstone.pipeline.stores import Store, join, open_store
from siltstone.protocol.names import uuid_text
from siltstone.storage import files
from siltstone.storage.directory import catalog, checkpoint
from siltstone.storage.directory.checkpoint import MalformedCheckpoint
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.producers.snapshot import CorruptSnapshot
from siltstone.storage.producers.snapshot import decode as decode_snapshot
from siltstone.storage.topic_partition import FolderState, TopicPartition, parse_folder


class ArchiveView:
    """The partitions of one log directory."""

    def __init__(self, place: str) -> None:
        """Read a log directory.

        Raises:
            SourceUnavailable: it is missing, or its catalog is damaged.
        """
        self.place = place
        self._store, self._path = open_store(place)
        self._starts = self._offsets(files.LOG_START_OFFSETS)
        self._cleaned = self._offsets(files.CLEANER_OFFSETS)
        self._known_ends = [
            self._offsets(name) for name in (files.RECOVERY_POINTS, files.HIGH_WATERMARKS)
        ]
        self._overrides = self._topic_overrides()

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that have a folder.

        Raises:
            SourceUnavailable: the directory is missing.
        """
        found = []
        for name in list_folder(self._store, self._path):
            try:
                folder = parse_folder(name)
            except ValueError:
                continue
            if folder.state is FolderState.LIVE:
                found.append(folder.topic_partition)
        return sorted(found)

    def view(self, key: TopicPartition, *, is_committed: bool = False) -> PinnedPartition:
        """Return the present segments and offsets of a partition's folder.

        With ``is_committed`` open transactions are searched, which reads batch headers.

        Raises:
            SourceUnavailable: the folder is missing.
        """
        folder = join(self._path, str(key))
        names = list_folder(self._store, folder)
        segments = [self._segment(folder, base, names) for base in _bases(names)]
        first = segments[0].base_offset if segments else 0
        start = max(first, self._starts.get(key, 0))
        end = start
        lost_end = ""
        if segments:
            last, end, lost_end = self._bounded(folder, segments[-1])
            segments[-1] = last
        lost_end = lost_end or self._lost_end(key, names, end)
        stable = end
        if is_committed:
            stable = self._first_open(folder, names, segments, end)
        policy = self._overrides.get(key.topic, {})
        return PinnedPartition(
            topic=key.topic,
            partition=key.partition,
            topic_id=read_topic_id(join(self.place, str(key))),
            folder=join(self.place, str(key)),
            log_start_offset=start,
            end_offset=max(start, end),
            last_stable_offset=max(start, stable),
            is_compacted=key in self._cleaned or "compact" in policy.get("cleanup.policy", ""),
            delete_retention_ms=int(policy.get("delete.retention.ms", 86_400_000)),
            first_dirty_offset=self._cleaned.get(key, 0),
            segments=tuple(segments),
            lost_end=lost_end,
            orphans=_orphans(names),
        )

    def _segment(self, folder: str, base: int, names: dict[str, int]) -> PinnedSegment:
        kinds = tuple(
            kind for kind in files.SEGMENT_KINDS if files.segment_file_name(base, kind) in names
        )
        inode = 0
        if self._store.is_local:
            inode = files.find_identity(join(folder, files.segment_file_name(base)))[1]
        size = names[files.segment_file_name(base)]
        return PinnedSegment(base_offset=base, size=size, files=kinds, inode=inode)

    def _bounded(self, folder: str, segment: PinnedSegment) -> tuple[PinnedSegment, int, str]:
        """Return the last segment without its torn tail, the next offset, and the tail's fault."""
        view = SegmentView(self._store, folder, segment)
        try:
            size, end = view.find_end()
            lost_end = ""
            if view.has_bytes_at(size):
                lost_end = (
                    f"the end of {join(folder, segment.file_name(files.LOG))} is cut off: the "
                    f"bytes from {size} on are no whole batch"
                )
        finally:
            view.close()
        bounded = PinnedSegment(
            base_offset=segment.base_offset,
            size=size,
            is_active=True,
            files=segment.files,
            inode=segment.inode,
        )
        return bounded, end, lost_end

    def _lost_end(self, key: TopicPartition, names: Iterable[str], end: int) -> str:
        """Return why it is known that a log was longer; empty if nothing shows it."""
        known = max((offsets.get(key, 0) for offsets in self._known_ends), default=0)
        if known > end:
            return f"{key} ends at offset {end}, and the directory's checkpoints know of {known}"
        stopped = max(_offsets_of(names, files.SNAPSHOT), default=0)
        if stopped > end:
            return f"{key} ends at offset {end}, and a snapshot of its producers is of {stopped}"
        return ""

    def _first_open(
        self, folder: str, names: dict[str, int], segments: list[PinnedSegment], end: int
    ) -> int:
        """Return the first offset of the earliest open transaction, or the end without one."""
        start, opened = self._snapshot(folder, names, end)
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            if following is not None and following.base_offset <= start:
                continue
            view = SegmentView(self._store, folder, segment)
            located = view.locate(start)
            for batch in view.batches(located.position) if located else ():
                header = batch.header
                if header.is_control:
                    opened.pop(header.producer_id, None)
                elif header.is_transactional:
                    opened.setdefault(header.producer_id, header.base_offset)
            view.close()
        return min(opened.values(), default=end)

    def _snapshot(self, folder: str, names: dict[str, int], end: int) -> tuple[int, dict[int, int]]:
        """Return the offset of the newest usable snapshot, and the transactions open then."""
        for offset in sorted(_offsets_of(names, files.SNAPSHOT), reverse=True):
            name = files.segment_file_name(offset, files.SNAPSHOT)
            data = self._store.read(join(folder, name)) if offset <= end else None
            try:
                producers = decode_snapshot(data) if data else {}
            except CorruptSnapshot:
                continue
            if data:
                return offset, {
                    producer_id: entry.transaction_first_offset
                    for producer_id, entry in producers.items()
                    if entry.transaction_first_offset >= 0
                }
        return 0, {}

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        """Return a checkpoint's offsets; a broken one counts as empty, as at a broker's start."""
        path = join(self._path, name)
        data = self._store.read(path)
        try:
            entries = checkpoint.parse_entries((data or b"").decode(), 3, path)
            return checkpoint.offsets_of(entries, path)
        except (MalformedCheckpoint, UnicodeDecodeError):
            return {}

    def _topic_overrides(self) -> dict[str, dict[str, str]]:
        data = self._store.read(join(self._path, catalog.FILE_NAME))
        try:
            state = catalog.decode(data) if data else None
        except ValueError as error:
            raise SourceUnavailable(
                f"{join(self.place, catalog.FILE_NAME)} cannot be read, so which topics are "
                f"compacted is not known: {error}; restore it, or take it away"
            ) from error
        return {name: dict(each.overrides) for name, each in state.topics.items()} if state else {}


def read_topic_id(place: str) -> str:
    """Return the topic id in a partition's folder, empty if it cannot be read."""
    store, folder = open_store(place)
    path = join(folder, files.PARTITION_METADATA)
    data = store.read(path)
    if data is None:
        return ""
    try:
        return uuid_text(PartitionMetadata.parse(data.decode(), path).topic_id)
    except (MalformedCheckpoint, UnicodeDecodeError):
        return ""


def list_folder(store: Store, path: str) -> dict[str, int]:
    """Return the names in a folder.

    Raises:
        SourceUnavailable: it is missing or cannot be read.
    """
    try:
        return store.list(path)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        raise SourceUnavailable(
            f"{path} cannot be read ({why}); name a log directory that exists, or read from the "
            "broker with transport=fetch"
        ) from error


def _bases(names: Iterable[str]) -> list[int]:
    return sorted(_offsets_of(names, files.LOG))


def _offsets_of(names: Iterable[str], kind: str) -> set[int]:
    """Return the offsets in the names of the files of a kind."""
    parsed = (files.parse_name(name) for name in names)
    return {each.base_offset for each in parsed if each and each.kind == kind and not each.suffix}


def _orphans(names: Iterable[str]) -> tuple[str, ...]:
    """Return the indexes whose segment has no ``.log``."""
    names = tuple(names)
    logs = _offsets_of(names, files.LOG)
    return tuple(
        files.segment_file_name(base, kind)
        for kind in files.SEGMENT_KINDS
        for base in sorted(_offsets_of(names, kind) - logs)
    )
