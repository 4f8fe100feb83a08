"""The options of the data source, named as in Spark's Kafka source.

    subscribe, subscribePattern, assign      which topics or partitions; exactly one of them
    startingOffsets, endingOffsets           earliest, latest, or JSON with an offset a partition
    startingTimestamp, endingTimestamp       the offset of the first record at or after a time
    startingOffsetsByTimestamp, ending…      likewise by partition, as JSON
    startingOffsetsByTimestampStrategy       what if no record is so late: error or latest
    includeHeaders, failOnDataLoss, kafka.isolation.level, kafka.bootstrap.servers
    minPartitions, maxRecordsPerPartition    cut finer than by bytes
    maxOffsetsPerTrigger                     how much one micro-batch reads

Options of this source alone:

    maxBytesPerTrigger  about how many bytes of log one micro-batch reads; without files, where
                   these are not known, a record counts as 1 KiB
    untilNow       true: a stream goes no further than the end of the log at its start, for which
                   ``processAllAvailable`` waits; on Spark 4.1 availableNow is one batch
    transport      auto, pinned, fetch or archive: how to come to the bytes
    data           the broker's first log directory, as this machine sees it
    control        host:port of the broker's HTTP port, if it is not noted in ``data``; with
                   https:// before it where that encrypts
    archive        a log directory that no broker serves, or a URI of one that pyarrow.fs opens
    columns        the columns to read, by comma; the DataFrame's schema says it as well
    timestampFrom  records from this time on; timestampTo: before this time. Exact, record by record
    timestampOrder any, or batch: no record of a batch is older than its first one
    splitBytes     about how many bytes one task reads: 64m, and 256m where batch headers say all
    onCorrupt      fail or skip, at a batch whose CRC is wrong
    pinLeaseMs     how long a pin waits for its readers, or for a sign of life of theirs
    filterPushdown false: take no filters from Spark, even where its session allows it
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from siltstone.pipeline import settings
from siltstone.pipeline.errors import BadOption
from siltstone.storage.topic_partition import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
READ_COMMITTED: Final = "read_committed"
TRANSPORTS: Final = ("auto", "pinned", "fetch", "archive")
FIRST_TIME: Final = -(1 << 63)
LAST_TIME: Final = (1 << 63) - 1

Offsets = int | dict[TopicPartition, int]
"""EARLIEST or LATEST for all, or an offset (or one of these two) a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options, checked one by one and against each other; `parse` makes them from text."""

    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str = ""
    assign: tuple[TopicPartition, ...] = ()
    starting_offsets: Offsets = EARLIEST
    ending_offsets: Offsets = LATEST
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    starting_offsets_by_timestamp: dict[TopicPartition, int] = field(default_factory=dict)
    ending_offsets_by_timestamp: dict[TopicPartition, int] = field(default_factory=dict)
    by_timestamp_strategy: str = "error"
    include_headers: bool = False
    fail_on_data_loss: bool = True
    isolation: str = "read_uncommitted"
    bootstrap: str = ""
    min_partitions: int = 0
    max_records_per_partition: int = 0
    max_offsets_per_trigger: int = 0
    max_bytes_per_trigger: int = 0
    until_now: bool = False
    transport: str = "auto"
    data: str = ""
    control: str = ""
    archive: str = ""
    columns: tuple[str, ...] = ()
    time_from: int = FIRST_TIME
    time_to: int = LAST_TIME
    """Exclusive; LAST_TIME is no bound."""
    timestamp_order: str = "any"
    split_bytes: int = 0
    """0: the planner chooses."""
    on_corrupt: str = "fail"
    pin_lease_ms: int = 60_000
    filter_pushdown: bool = True
    kafka: dict[str, str] = field(default_factory=dict)
    """Other options that begin with ``kafka.``; the fetch transport obeys those that it knows."""

    @property
    def is_committed(self) -> bool:
        """Whether aborted and open transactions are left out."""
        return self.isolation == READ_COMMITTED

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Return options from their names, in any case, and texts; all faults at once.

        Raises:
            BadOption: with a sentence for each fault.
        """
        if "provider" in options:
            raise BadOption(
                "Spark hands the options of a table in its catalog to no source in Python: say "
                "CREATE TEMPORARY VIEW ... USING siltstone OPTIONS (...)"
            )
        values: dict[str, Any] = {}
        kafka: dict[str, str] = {}
        faults = []
        for name, text in options.items():
            spelling = _SPELLINGS.get(name.lower())
            if spelling is None:
                if name.lower().startswith("kafka."):
                    kafka[name.lower().removeprefix("kafka.")] = text
                elif name.lower() not in _IGNORED:
                    faults.append(f"there is no option {name}{_nearest(name)}")
                continue
            attribute, read = _KNOWN[spelling]
            try:
                values[attribute] = read(spelling, str(text))
            except BadOption as error:
                faults.append(str(error))
        faults += [
            f"kafka.{name} has no effect here: {_INSTEAD[name]}; leave it out"
            for name in kafka.keys() & _INSTEAD.keys()
        ]
        parsed = cls(**values, kafka=kafka)
        faults += parsed._faults()
        if faults:
            raise BadOption("; ".join(faults))
        return parsed

    def _faults(self) -> list[str]:
        ways = [bool(self.subscribe), bool(self.subscribe_pattern), bool(self.assign)]
        faults = []
        if sum(ways) != 1:
            faults.append("name the topics by exactly one of subscribe, subscribePattern, assign")
        if self.starting_offsets == LATEST and self.ending_offsets == EARLIEST:
            faults.append("startingOffsets latest with endingOffsets earliest leaves nothing")
        return faults


def _names(_name: str, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _text(_name: str, text: str) -> str:
    return text.strip()


def _offsets(name: str, text: str) -> Offsets:
    plain = text.strip().lower()
    if plain in {"earliest", "latest"}:
        return EARLIEST if plain == "earliest" else LATEST
    found = settings.per_partition(name, text)
    wrong = [value for value in found.values() if value < EARLIEST]
    if wrong:
        raise BadOption(f"option {name} has offset {wrong[0]}; -2 is earliest, -1 is latest")
    return found


def _among(*words: str) -> Callable[[str, str], str]:
    return lambda name, text: settings.choice(name, text, words)


_KNOWN: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
    "subscribe": ("subscribe", _names),
    "subscribePattern": ("subscribe_pattern", _text),
    "assign": ("assign", settings.assignment),
    "startingOffsets": ("starting_offsets", _offsets),
    "endingOffsets": ("ending_offsets", _offsets),
    "startingTimestamp": ("starting_timestamp", settings.time),
    "endingTimestamp": ("ending_timestamp", settings.time),
    "startingOffsetsByTimestamp": ("starting_offsets_by_timestamp", settings.per_partition),
    "endingOffsetsByTimestamp": ("ending_offsets_by_timestamp", settings.per_partition),
    "startingOffsetsByTimestampStrategy": ("by_timestamp_strategy", _among("error", "latest")),
    "includeHeaders": ("include_headers", settings.flag),
    "failOnDataLoss": ("fail_on_data_loss", settings.flag),
    "kafka.isolation.level": ("isolation", _among("read_uncommitted", READ_COMMITTED)),
    "isolation": ("isolation", _among("read_uncommitted", READ_COMMITTED)),
    "kafka.bootstrap.servers": ("bootstrap", _text),
    "bootstrap": ("bootstrap", _text),
    "minPartitions": ("min_partitions", settings.number),
    "maxRecordsPerPartition": ("max_records_per_partition", settings.number),
    "maxOffsetsPerTrigger": ("max_offsets_per_trigger", settings.number),
    "maxBytesPerTrigger": ("max_bytes_per_trigger", settings.size),
    "untilNow": ("until_now", settings.flag),
    "transport": ("transport", _among(*TRANSPORTS)),
    "data": ("data", _text),
    "control": ("control", _text),
    "archive": ("archive", _text),
    "columns": ("columns", _names),
    "timestampFrom": ("time_from", settings.time),
    "timestampTo": ("time_to", settings.time),
    "timestampOrder": ("timestamp_order", _among("any", "batch")),
    "splitBytes": ("split_bytes", settings.size),
    "onCorrupt": ("on_corrupt", _among("fail", "skip")),
    "pinLeaseMs": ("pin_lease_ms", settings.duration),
    "filterPushdown": ("filter_pushdown", settings.flag),
}
_SPELLINGS: Final = {name.lower(): name for name in _KNOWN}
_INSTEAD: Final = {
    "auto.offset.reset": "startingOffsets says where to begin",
    "enable.auto.commit": "offsets are kept by Spark's checkpoint",
    "key.deserializer": "keys are binary, and Spark casts them",
    "value.deserializer": "values are binary, and Spark casts them",
    "interceptor.classes": "no consumer is at work",
}
"""Options that Spark's own source refuses, too, and why."""
_IGNORED: Final = {
    "path",
    "groupidprefix",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
    "kafkaconsumer.polltimeoutms",
    "kafkaconsumer.polltimeout.ms",
    "kafka.group.id",
    "minoffsetspertrigger",
    "maxtriggerdelay",
}
"""Options that only the connector uses; without the last two micro-batches may be smaller."""


def _nearest(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - for a mistake only

    found = get_close_matches(name.lower(), _SPELLINGS, 1)
    return f"; did you mean {_SPELLINGS[found[0]]}?" if found else ""
