"""One internal topic as the journal of a coordinator (Kafka: ``CoordinatorRuntime``).

A coordinator writes its new state before it publishes the state, so all that it has acknowledged is
in the log. At the start the journal is read back: io threads read batches, and the loop applies
them in slices. A request for a partition that is not read yet is refused meanwhile.
"""

import asyncio
import gc
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.process.tasks import Tasks
from siltstone.broker.topics.internal import preset_for
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.protocol import errors
from siltstone.protocol.core import pack_rows
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.errors import KafkaError, ProtocolError
from siltstone.protocol.java import partition_for
from siltstone.protocol.parts import FileSlice
from siltstone.protocol.records.journal import (
    NO_PRODUCER,
    Entry,
    Folded,
    LeftOut,
    Producer,
    Row,
    read_entries,
)
from siltstone.storage import files
from siltstone.storage.appending.batch import own_batch
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log
from siltstone.storage.producers.checks import Origin

_logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
_SLICE_ENTRIES = 512
_FREEZE_ENTRIES = 8192  # so many objects do not start a garbage collection
_PROGRESS_SECONDS = 5.0
_SKIPPED_LINES = 10  # for each partition: a client could cause a million lines


class CoordinatorLog:
    """The partitions of one internal topic (loop only); the topics are known when it is built.

    From then on a partition is loading until `load` has applied all of its records; meanwhile
    nothing may be appended to it. The topic is created when it is first needed. The number of its
    partitions is read once, so that an id belongs to the same partition for ever. ``_due`` has the
    ends of partitions that ``flush.messages`` wants on the disk before a client is answered.
    """

    def __init__(
        self,
        name: str,
        topics: TopicRegistry,
        settings: BrokerSettings,
        io: IoThreads,
        clock: Clock,
    ) -> None:
        self.name = name
        self._due: dict[int, int] = {}
        self.entries_loaded = 0
        self.load_seconds = 0.0
        self.skipped = 0
        self._topics = topics
        self._settings = settings
        self._io = io
        self._clock = clock
        self._loading: set[int] = set()
        self._failed: set[int] = set()
        self._count = 0
        self._skipped_before = 0
        self._creation: asyncio.Task[None] | None = None
        self._tasks = Tasks()
        self.begin_loading()

    @property
    def is_created(self) -> bool:
        """Whether the topic exists."""
        return self.name in self._topics.topics

    @property
    def has_failed(self) -> bool:
        """Whether a partition could not be read."""
        return bool(self._failed)

    @property
    def is_settled(self) -> bool:
        """Whether there are partitions, and all of them were read."""
        return not self._loading and not self._failed and self.name in self._topics.topics

    @property
    def count(self) -> int:
        """How many partitions there are, or will be when the topic is created."""
        if not self._count:
            topic = self._topics.topics.get(self.name)
            if topic is None:
                return preset_for(self.name, self._settings.server).partitions
            self._count = topic.partitions
        return self._count

    @property
    def loading_count(self) -> int:
        """How many partitions are not read yet."""
        return len(self._loading)

    def partition_for(self, name: str) -> int:
        """Return the partition that keeps the state of a group or transactional id."""
        return partition_for(name, self.count)

    def is_loading(self, name: str) -> bool:
        """Tell whether the partition of a group or transactional id is not read yet."""
        return bool(self._loading) and self.partition_for(name) in self._loading

    def max_batch_bytes(self, partition: int) -> int:
        """Return how many bytes a batch in a partition may have; 0 for a missing partition."""
        target = self._topics.logs.get((self.name, partition))
        return 0 if target is None else target.config.max_message_bytes

    def check(self, partition: int) -> None:
        """Refuse to serve from a partition whose state is not known.

        Raises:
            CoordinatorLoadInProgress: The partition is being read.
            NotCoordinator: The partition could not be read; the log says why. Or the topic does not
                exist yet: FindCoordinator creates it, as in Kafka.
        """
        if not self.is_created:
            raise errors.NotCoordinator
        if partition in self._loading:
            raise errors.CoordinatorLoadInProgress
        if partition in self._failed:
            raise errors.NotCoordinator(f"partition {partition} of {self.name} could not be read")

    def append(self, partition: int, rows: Sequence[Row], producer: Producer = NO_PRODUCER) -> int:
        """Write records as one batch into the page cache, and return the first record's offset.

        Raises:
            CoordinatorNotAvailable: The topic does not exist.
            NotCoordinator: The disk does not take the batch.
            UnknownServerError: The batch is larger than the topic allows.
            InvalidProducerEpoch: A newer epoch of the producer has written.
        """
        target = self._topics.logs.get((self.name, partition))
        if target is None:
            raise errors.CoordinatorNotAvailable(
                f"partition {partition} of {self.name} does not exist"
            )
        now_ms = self._clock.now_ms()
        batch = pack_rows(rows, now_ms, producer.id, producer.epoch)
        size = len(batch)
        if size > target.config.max_message_bytes:
            # As in Kafka: MESSAGE_TOO_LARGE is not an error code of a group's API.
            raise errors.UnknownServerError(f"{size} bytes are more than {self.name} takes at once")
        try:
            attributes = 0 if producer.id < 0 else TRANSACTIONAL
            written = target.append(
                own_batch(batch, len(rows), attributes, now_ms, producer.id, producer.epoch),
                Origin.COORDINATOR,
            )
        except (errors.KafkaStorageError, errors.NotLeaderOrFollower) as error:
            raise errors.NotCoordinator(error.message) from error
        if written.flush_due:
            self._due[partition] = written.base_offset + len(rows)
        return written.base_offset

    async def ensure_created(self) -> None:
        """Create the topic if it does not exist; concurrent callers wait for the same creation.

        Raises:
            CoordinatorNotAvailable: The disk did not take the topic.
        """
        if self.is_created:
            return
        if self._creation is None:
            self._creation = self._tasks.start(self._create(), self.name)
        creation = self._creation
        try:
            await asyncio.shield(creation)
        except KafkaError as error:
            raise errors.CoordinatorNotAvailable(error.message) from error

    async def _create(self) -> None:
        preset = preset_for(self.name, self._settings.server)
        try:
            await self._topics.create(self.name, preset.partitions, preset.overrides)
        except errors.TopicAlreadyExists:
            pass  # a client has created it meanwhile
        finally:
            self._creation = None

    async def close(self) -> None:
        """Wait until the topic is created, if that was requested."""
        await self._tasks.finish()

    def forget(self) -> None:
        """Forget the number of partitions, because the topic was deleted."""
        self._count = 0
        self._failed.clear()
        self._due.clear()

    def find_unwritten_of(self, name: str) -> dict[Log, None]:
        """Return the log of a group or transactional id, as `find_unwritten` does.

        It stays unwritten until its fsync has ended, whichever request waits for it; so a request
        that changes nothing, since an earlier one has, is answered behind the same fsync.
        """
        return self.find_unwritten(self.partition_for(name)) if self._due else {}

    def find_unwritten(self, partition: int) -> dict[Log, None]:
        """Return the partition's log while a record in it waits for its fsync, or for another's."""
        log = self._topics.logs.get((self.name, partition))
        if log is None or log.recovery_point >= self._due.get(partition, 0):
            return {}
        return {log: None}

    async def flush(self, due: Iterable[Log]) -> None:
        """Wait until logs are on the disk, in the order in which they are given.

        Raises:
            NotCoordinator: The appended records may not be on the disk.
        """
        for log in due:
            try:
                await self._io.run(log.flush)
            except errors.KafkaStorageError as error:
                raise errors.NotCoordinator(error.message) from error

    async def flush_everything(self) -> None:
        """Wait until everything that was appended is on the disk.

        Raises:
            NotCoordinator: Some of it may not be on the disk.
        """
        topic = self._topics.topics.get(self.name)
        logs = (each for each in (topic.logs if topic else ()) if each is not None)
        due = dict.fromkeys(log for log in logs if log.recovery_point < log.log_end_offset)
        await self.flush(due)

    def begin_loading(self) -> None:
        """Make every partition with data refuse requests until it is read."""
        topic = self._topics.topics.get(self.name)
        if topic is None:
            return
        self._count = topic.partitions
        self._loading = {
            index
            for index, each in enumerate(topic.logs)
            if each is not None and each.log_end_offset > each.log_start_offset
        }
        self._failed = {index for index, each in enumerate(topic.logs) if each is None}

    async def load(
        self,
        apply: Callable[[int, list[Entry]], None],
        loaded: Callable[[int], Iterable[None] | None],
        *,
        has_offsets: bool = False,
    ) -> None:
        """Read back every partition: call ``apply`` with its entries in order, then ``loaded``.

        ``loaded`` may return steps. Records that are appended meanwhile are read, too, since the
        log's end is checked last. With ``has_offsets`` each entry has its offset (`read_entries`).
        """
        partitions = sorted(self._loading)
        if not partitions:
            return
        began = said = self._clock.monotonic()
        _logger.info("loading topic=%s partitions=%d", self.name, len(partitions))
        share = LoopShare()
        for done, partition in enumerate(partitions):
            target = self._topics.logs.get((self.name, partition))
            try:
                if target is not None:
                    await self._load_partition(target, partition, apply, has_offsets, share)
            except (KafkaError, ProtocolError, OSError, ValueError) as error:
                self._failed.add(partition)
                _logger.error(  # noqa: TRY400 - the reason says all there is to say
                    "loading failed partition=%s-%d reason=%s", self.name, partition, error
                )
            for _ in loaded(partition) or ():
                await share.rest()
            self._say_how_many_were_skipped(partition)
            gc.freeze()
            self._loading.discard(partition)
            now = self._clock.monotonic()
            if now - said >= _PROGRESS_SECONDS:
                said = now
                _logger.info(
                    "loading topic=%s partitions=%d/%d records=%d",
                    self.name,
                    done + 1,
                    len(partitions),
                    self.entries_loaded,
                )
        self.load_seconds = self._clock.monotonic() - began
        _logger.info(
            "loaded topic=%s partitions=%d records=%d seconds=%.2f",
            self.name,
            len(partitions),
            self.entries_loaded,
            self.load_seconds,
        )

    def skip(self, partition: int, offset: int, reason: object) -> None:
        """Log that a record or batch of the journal cannot be read and is left out."""
        self.skipped += 1
        if self.skipped - self._skipped_before <= _SKIPPED_LINES:
            _logger.warning(
                "record cannot be read and is skipped partition=%s-%d offset=%d reason=%s",
                self.name,
                partition,
                offset,
                reason,
            )

    def _say_how_many_were_skipped(self, partition: int) -> None:
        more = self.skipped - self._skipped_before - _SKIPPED_LINES
        self._skipped_before = self.skipped
        if more > 0:
            _logger.warning(
                "more records cannot be read and are skipped partition=%s-%d records=%d",
                self.name,
                partition,
                more,
            )

    async def _load_partition(
        self,
        target: Log,
        partition: int,
        apply: Callable[[int, list[Entry]], None],
        has_offsets: bool,
        share: LoopShare,
    ) -> None:
        offset = target.log_start_offset
        while offset < target.log_end_offset:
            read = target.read(offset, _CHUNK_BYTES, target.log_end_offset)
            if read is None:
                return
            chunk = memoryview(await self._io.run(_read, read.slice))
            position = 0
            while position < len(chunk):
                entries, end, last = read_entries(
                    chunk, position, _SLICE_ENTRIES, has_offsets=has_offsets
                )
                if isinstance(last, LeftOut):
                    self.skip(partition, *last)
                if end == position:
                    raise errors.CorruptMessage(f"a batch near offset {offset} is cut short")
                position = end
                apply(partition, entries)
                self._count_loaded(len(entries))
                await share.rest()
                if isinstance(last, Folded):
                    await self._unfold(last, partition, apply, share)
            offset = read.next_offset

    async def _unfold(
        self,
        folded: Folded,
        partition: int,
        apply: Callable[[int, list[Entry]], None],
        share: LoopShare,
    ) -> None:
        """Apply a compressed batch as far as it can be read, some entries at a time.

        The batch may unfold to 64 MiB and millions of entries. A codec thread opens it part by
        part.
        """
        parts = folded.unfold()
        try:
            while (part := await self._io.unpack(next, parts, None)) is not None:
                left = folded.read(part)
                is_over = False
                while not is_over:
                    entries: list[Entry] = []
                    try:
                        entries.extend(islice(left, _SLICE_ENTRIES))
                    finally:  # entries before the damaged one are valid
                        apply(partition, entries)
                        self._count_loaded(len(entries))
                    is_over = len(entries) < _SLICE_ENTRIES
                    await share.rest()
            folded.end()
        except KafkaError as error:
            self.skip(partition, folded.offset, error)

    def _count_loaded(self, entries: int) -> None:
        """Count entries, and exempt the objects made from them from garbage collection.

        These objects stay; the collector would go through all of them again and again while all
        clients wait.
        """
        before = self.entries_loaded
        self.entries_loaded = before + entries
        if self.entries_loaded // _FREEZE_ENTRIES > before // _FREEZE_ENTRIES:
            gc.freeze()


def _read(source: FileSlice) -> bytes:
    """Return the bytes of a range. Blocks."""
    return files.read_at(source.file.fileno(), source.size, source.position)
