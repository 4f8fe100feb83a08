"""Logs of every kind of batch that a cleaner meets, made from a seed."""

import random
from dataclasses import dataclass, field
from pathlib import Path

from siltstone.cleaner.one_pass.log_to_clean import LastOfProducer, LogToClean
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.build import ABORT, COMMIT, build_batch, build_marker
from siltstone.protocol.records.record import Record
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import TIMESTAMP
from tests.support.segments import append

NOW = TIMESTAMP + 100_000
HOUR = 3_600_000


@dataclass
class Producer:
    """A producer of the log that is being built."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0
    first_offset: int = -1
    last_data_offset: int = -1


@dataclass
class RandomLog:
    """Writes segments into a folder; `finish` returns them as what a pass goes over."""

    path: Path
    seed: int
    config: TopicConfig
    codecs: tuple[int, ...] = (0, 0, 0, 1, 2, 3, 4)
    keys: int = 12
    chance: random.Random = field(init=False)
    offset: int = 0
    segments: list[LogSegment] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    producers: list[Producer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.offset = self.chance.choice([0, 0, 1 << 33])
        self.producers = [Producer(4000 + number) for number in range(4)]
        self.roll()

    def roll(self) -> None:
        """Begin a segment, perhaps some offsets further, or too many for one segment."""
        self.begin_segment(self.offset + self.chance.choice([*[0] * 15, *[3] * 5, 1 << 31]))

    def begin_segment(self, offset: int) -> None:
        """Begin a segment at an offset, unless one begins there already."""
        self.offset = offset
        if not self.segments or self.offset > self.segments[-1].base_offset:
            self.segments.append(
                LogSegment(
                    self.path, self.offset, self.config, now_ms=NOW, open_files=OpenFiles()
                ).create()
            )

    def write(self, batch: bytearray) -> None:
        """Append a batch whose offsets are right, to a new segment where an index is full."""
        header = BatchHeader.read(batch)
        segment = self.segments[-1]
        if segment.size and segment.end.is_index_full:
            self.begin_segment(header.base_offset)
        append(self.segments[-1], batch)
        self.offset = header.next_offset + self.chance.choice([0, 0, 0, 0, 2])

    def step(self) -> None:
        """Append something, or roll."""
        what = self.chance.random()
        if what < 0.1:
            self.roll()
        elif what < 0.5:
            self.data()
        elif what < 0.65:
            self.data(producer=self.chance.choice(self.producers[:2]))
        elif what < 0.85:
            self.data(producer=self.chance.choice(self.producers[2:]), is_transactional=True)
        else:
            self.marker(self.chance.choice(self.producers[2:]))

    def data(self, producer: Producer | None = None, *, is_transactional: bool = False) -> None:
        """Append a batch of records."""
        chance = self.chance
        count = chance.choice([0, 1, 1, 2, 5, 40])
        records = []
        for _ in range(count):
            records.append(self._record())
            self.offset += chance.choice([1, 1, 1, 4])
        base_offset = records[0].offset - chance.choice([0, 0, 0, 1]) if records else self.offset
        base_offset = max(base_offset, self._least())
        flags = chance.choice([0, 0, 0, LOG_APPEND_TIME])
        if chance.random() < 0.15 and count:
            flags |= DELETE_HORIZON
        fields: dict[str, int] = {"leader_epoch": chance.choice([0, 0, 3])}
        if flags & DELETE_HORIZON:
            fields["base_timestamp"] = NOW + chance.choice([-HOUR, -1, 0, 1, HOUR])
        if records:
            span = records[-1].offset - base_offset
            fields["last_offset_delta"] = span + chance.choice([0, 0, 2])
        else:
            fields["last_offset_delta"] = chance.choice([0, 3])
            fields["max_timestamp"] = TIMESTAMP
            flags &= ~DELETE_HORIZON
        if producer is not None:
            fields |= {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "base_sequence": producer.sequence,
            }
            producer.sequence += 1 + fields["last_offset_delta"]
            producer.last_data_offset = base_offset + fields["last_offset_delta"]
            if is_transactional:
                flags |= TRANSACTIONAL
                if producer.first_offset < 0:
                    producer.first_offset = base_offset
        codec = chance.choice(self.codecs) if records else 0
        self.write(
            build_batch(records, base_offset=base_offset, codec=codec, flags=flags, **fields)
        )

    def marker(self, producer: Producer) -> None:
        """Append a marker, also of a transaction without data."""
        kind = self.chance.choice([ABORT, COMMIT])
        if self.chance.random() < 0.1:  # fenced: the coordinator's marker has the next epoch
            producer.epoch += 1
            producer.sequence = 0
            producer.last_data_offset = -1
        fields: dict[str, int] = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "leader_epoch": 0,
        }
        first_offset, producer.first_offset = producer.first_offset, -1
        offset = self.offset
        self.write(build_marker(offset, TIMESTAMP, kind, 0, **fields))
        if kind == ABORT and first_offset >= 0:
            others = [each.first_offset for each in self.producers if each.first_offset >= 0]
            stable_offset = min(others, default=offset + 1)
            aborted = AbortedTransaction(producer.producer_id, first_offset, offset, stable_offset)
            self.aborted.append(aborted)
            self.segments[-1].append_aborted(aborted)

    def seal(self) -> None:
        """Leave the files as a closed log leaves them."""
        for segment in self.segments:
            segment.seal()
            segment.flush()

    def finish(self, first_dirty_offset: int | None = None) -> LogToClean:
        """End all transactions and return the log, all of it cleanable."""
        for producer in self.producers:
            if producer.first_offset >= 0:
                self.marker(producer)
        self.seal()
        end_offset = self.offset
        if first_dirty_offset is None:
            first = self.segments[0].base_offset
            first_dirty_offset = self.chance.choice(
                [first, first, self.chance.randint(first, end_offset)]
            )
        known = self.chance.sample(self.producers, 3)
        return LogToClean(
            topic_partition=TopicPartition("orders", 0),
            path=self.path,
            config=self.config,
            open_files=OpenFiles(),
            segments=tuple(self.segments),
            first_dirty_offset=first_dirty_offset,
            first_uncleanable_offset=end_offset,
            high_watermark=end_offset + self.chance.choice([0, 5]),
            aborted=tuple(sorted(self.aborted, key=lambda each: each.first_offset)),
            producers=tuple(
                sorted(
                    LastOfProducer(each.producer_id, each.epoch, each.last_data_offset)
                    for each in known
                )
            ),
        )

    def _least(self) -> int:
        """Return the least base offset that the next batch may have."""
        segment = self.segments[-1]
        return max(segment.base_offset, segment.next_offset())

    def _record(self) -> Record:
        chance = self.chance
        key = None if chance.random() < 0.05 else b"key-%d" % chance.randrange(self.keys)
        value = None if chance.random() < 0.2 else b"v" * chance.choice([0, 1, 20, 200])
        timestamp = chance.choice([-1, TIMESTAMP, TIMESTAMP + chance.randrange(-HOUR, HOUR)])
        headers = ((b"h", b"x"), (b"n", None)) if chance.random() < 0.1 else ()
        return Record(self.offset, timestamp, key, value, headers)


def make_log(
    path: Path, seed: int, *, steps: int = 30, config: TopicConfig | None = None, **named: int
) -> LogToClean:
    """Return a log of some steps."""
    settings = config or TopicConfig(
        cleanup_policy=("compact",),
        segment_bytes=3000,
        index_interval_bytes=300,
        delete_retention_ms=HOUR,
    )
    log = RandomLog(path, seed, settings, **named)  # type: ignore[arg-type]
    for _ in range(steps):
        log.step()
    return log.finish()
