"""Refuses batches because of single records, and names these records and the reasons (KIP-467)."""

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core import list_bad_records
from siltstone.protocol.core.constants import LOG_APPEND_TIME, NO_TIMESTAMP, NULL_KEY
from siltstone.protocol.errors import InvalidRecord, InvalidTimestamp
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage.appending.refused_batches import NO_KEY_COMPACTED_TOPIC

if TYPE_CHECKING:
    from typing_extensions import Buffer


MAX_RECORD_ERRORS: Final = 10_000
"""How many bad records are named; Kafka names all, but 64 MiB unfold to nine million records."""

_INT64_MAX: Final = (1 << 63) - 1
_INT64_MIN: Final = -(1 << 63)
_NO_KEY = (
    "the record has no key, but the topic is compacted (cleanup.policy); send a key with every"
    " record, or take compact out of the topic's cleanup.policy"
)
_STAMPED = (
    "the batch claims to be stamped with LogAppendTime, which only the broker does; send CreateTime"
)


class Limits(NamedTuple):
    """The smallest and largest timestamp that a record may have; no timestamp is always allowed."""

    low: int
    high: int

    @classmethod
    def of(cls, config: "TopicConfig", now_ms: int, attributes: int) -> "Limits":
        """Return the limits for records; no limits if the broker sets the timestamps."""
        if config.is_log_append_time or attributes & LOG_APPEND_TIME:
            return cls(_INT64_MIN, _INT64_MAX)
        return cls.around(config, now_ms)

    @classmethod
    def around(cls, config: "TopicConfig", now_ms: int) -> "Limits":
        """Return the limits by the topic's settings and the broker's clock."""
        return cls(
            now_ms - config.message_timestamp_before_max_ms,
            min(now_ms + config.message_timestamp_after_max_ms, _INT64_MAX),
        )

    def allow(self, timestamp: int) -> bool:
        """Tell whether a record may have the timestamp."""
        return timestamp == NO_TIMESTAMP or self.low <= timestamp <= self.high

    def explain(self, timestamp: int) -> str:
        """Say which limit the timestamp breaks."""
        if timestamp > self.high:
            return (
                f"timestamp {timestamp} is above {self.high}, the broker's clock plus"
                " message.timestamp.after.max.ms; check the producer's clock and unit (ms)"
            )
        return (
            f"timestamp {timestamp} is below {self.low}, the broker's clock minus"
            " message.timestamp.before.max.ms; check the producer's clock and unit (ms)"
        )


def find_stamp_error(header: "BatchHeader", config: "TopicConfig", now_ms: int) -> str | None:
    """Return the fault of a batch that a client marked with LogAppendTime; None for a sound one.

    Kafka takes the header's max timestamp for that of every record; if it is valid, Kafka clears
    the bit.
    """
    if not header.is_log_append_time:
        return None
    if config.is_log_append_time or header.max_timestamp == NO_TIMESTAMP:
        return _STAMPED
    limits = Limits.around(config, now_ms)
    if limits.allow(header.max_timestamp):
        return None
    return limits.explain(header.max_timestamp)


def refuse_whole(text: str) -> NoReturn:
    """Refuse a batch whose records were not read; the error names its first record.

    Raises:
        InvalidTimestamp: always.
    """
    raise InvalidTimestamp(f"the batch is refused: {text}", record_errors=((0, text),))


def refuse_records(
    header: "BatchHeader",
    data: "Buffer",
    limits: Limits,
    *,
    keys_required: bool,
    stamp_error: str | None,
) -> NoReturn:
    """Refuse a batch and name its bad records; `data` are its records, checked and unpacked.

    Raises:
        InvalidTimestamp: a record's timestamp is not allowed; records may also lack keys.
        InvalidRecord: records lack keys.
    """
    rows = list_bad_records(
        data,
        0,
        memoryview(data).nbytes,
        header.count,
        header.base_timestamp,
        limits.low,
        limits.high,
        keys_required,
        MAX_RECORD_ERRORS,
    )
    errors = {
        index: _NO_KEY if kind == NULL_KEY else limits.explain(timestamp)
        for index, kind, timestamp in rows
    }
    if stamp_error is not None:
        for index in range(min(header.count, MAX_RECORD_ERRORS)):
            errors.setdefault(index, stamp_error)
    listed = tuple(sorted(errors.items()))
    lacks_keys = all(text is _NO_KEY for text in errors.values())
    kind = InvalidRecord if lacks_keys else InvalidTimestamp
    index, text = listed[0]
    raise kind(
        f"{len(listed)} of {header.count} records are refused, first record {index}: {text}",
        record_errors=listed,
        counted_as=NO_KEY_COMPACTED_TOPIC if lacks_keys else "",
    )
