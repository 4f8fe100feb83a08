"""A random history of appends, with which the fast check and the full one must agree."""

import hashlib
import random
from pathlib import Path

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.records.build import ABORT, BatchFields, build_marker
from siltstone.protocol.records.compression import LZ4, NONE
from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.appending.validation import validate
from siltstone.storage.producers.checks import Origin
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.logs import LogFolder, validated

_STEPS = 400


def _config(chance: random.Random) -> TopicConfig:
    return TopicConfig(
        cleanup_policy=chance.choice([("delete",), ("compact",)]),
        segment_bytes=chance.choice([1500, 5000, 1 << 30]),
        segment_index_bytes=chance.choice([48, 1 << 20]),
        segment_ms=chance.choice([300, 1 << 40]),
        index_interval_bytes=chance.choice([0, 300]),
        flush_messages=chance.choice([7, (1 << 63) - 1]),
        message_timestamp_type=chance.choice(["CreateTime"] * 3 + ["LogAppendTime"]),
        message_timestamp_after_max_ms=chance.choice([500, (1 << 63) - 1]),
    )


def _outcome(batch: ValidatedBatch) -> str:
    return (
        f"{batch.base_offset} {batch.last_offset} {batch.log_append_time_ms} "
        f"{batch.log_start_offset} {batch.duplicate} {batch.flush_due}"
    )


class History:
    """Appends in sequence, repeated and out of order, of three producers and without a producer.

    ``is_short`` says whether batches that break no rule may take the fast check.
    """

    def __init__(self, seed: int, folder: Path, *, is_short: bool) -> None:
        self.is_short = is_short
        self.taken = 0
        self.chance = random.Random(seed)
        self.folder = LogFolder(folder, _config(self.chance))
        self.sequences = {7: 0, 8: (1 << 31) - 3, 9: 0}
        self.epochs = dict.fromkeys(self.sequences, 3)

    def append(self) -> str:
        """Append a client's batch, and note the result."""
        chance = self.chance
        log = self.folder.log
        rows = chance.randint(1, 4)
        fields: BatchFields = {}
        producer = chance.choice([-1, -1, *self.sequences])
        sequence = -1
        if producer >= 0:
            sequence = (self.sequences[producer] + chance.choice([0] * 8 + [-rows, 1])) & 0x7FFFFFFF
            epoch = self.epochs[producer] + chance.choice([0] * 30 + [1, -1])
            if epoch > self.epochs[producer]:
                sequence = 0
            fields = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
            fields["flags"] = TRANSACTIONAL if producer == 9 else 0
        batch = make_batch(
            [(b"k", b"v" * chance.randint(1, 90))] * rows,
            timestamp=TIMESTAMP + chance.choice([-1000, 0, 10, 400, 900]),
            codec=chance.choice([NONE, NONE, LZ4]),
            **fields,
        )
        now_ms = self.folder.clock.now_ms()
        try:
            plain = log.end.rules.take(memoryview(batch), now_ms) if self.is_short else None
            self.taken += plain is not None
            taken = plain or validate(memoryview(batch), log.config, now_ms)
            log.append(taken)
        except KafkaError as error:
            return f"{type(error).__name__}: {error.message}"
        if producer >= 0 and not taken.duplicate:
            self.sequences[producer] = (taken.base_sequence + rows) & 0x7FFFFFFF
            self.epochs[producer] = taken.producer_epoch
        return _outcome(taken)

    def abort(self) -> str:
        """End the transaction of the third producer."""
        marker = build_marker(0, TIMESTAMP, ABORT, 0, producer_id=9, producer_epoch=self.epochs[9])
        return _outcome(self.folder.log.append(validated(marker), Origin.COORDINATOR))

    def step(self) -> str:
        """Do something, and note the result."""
        self.folder.clock.advance(self.chance.randint(0, 50))
        what = self.chance.random()
        if what < 0.9:
            return self.append()
        if what < 0.94:
            return self.abort()
        if what < 0.98:
            self.folder.log.roll()
            return "rolled"
        self.folder.close()
        self.folder.reopen(is_clean=self.chance.random() < 0.5)
        return "opened again"

    def state(self) -> list[str]:
        """Return the log's state at the end, and a checksum of every file."""
        log = self.folder.log
        said = [
            log.config.message_timestamp_type,
            f"{log.last_stable_offset} {log.log_end_offset} {log.size}",
            f"{log.end.bytes_in} {log.end.records_in} {log.end.batches_in}",
            *(
                f"{producer} {entry.epoch} {entry.next_sequence} {entry.last_timestamp} "
                f"{entry.transaction_first_offset} {entry.batches}"
                for producer, entry in log.producers.producers.items()
            ),
            *(
                f"{segment.size} {segment.max_timestamp} {segment.offset_of_max_timestamp}"
                for segment in log.segments
            ),
        ]
        self.folder.close()
        return said + [
            f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            for path in sorted(self.folder.path.iterdir())
        ]

    def live(self) -> list[str]:
        """Play the history, and return the noted results and the final state."""
        return [*(self.step() for _ in range(_STEPS)), *self.state()]
