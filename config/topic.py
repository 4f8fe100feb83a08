"""Every topic setting that the code obeys, with the broker settings that give its default.

Kafka's classes: TopicConfig, LogConfig, ServerTopicConfigSynonyms. All of them can be changed while
the broker runs.
"""

from dataclasses import dataclass

from siltstone.config import keys

FOREVER = (1 << 63) - 1
DAY_MS = 86_400_000
KAFKA_SEGMENT_FLOOR = 1 << 20
NO_LIMIT = (1 << 31) - 9
"""The largest array of Java's, which no record is larger than."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings of one topic; without arguments, it has Kafka's defaults.

    An object never changes: a change puts a new object into the topic's logs.
    """

    # fmt: off
    cleanup_policy: tuple[str, ...] = keys.key(("delete",),
        "What happens to old data: delete drops whole segments by age and size, compact keeps the "
        "last value of every key. Both may be given; an empty list keeps everything.",
        check=keys.some_of("compact", "delete"), server="log.cleanup.policy")
    compression_type: str = keys.key("producer",
        "The codec of batches on disk. producer keeps what the client sent; anything else "
        "recompresses what arrives in another codec.",
        check=keys.one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        server="compression.type")
    compression_gzip_level: int = keys.key(-1,
        "The level when the broker compresses with gzip; -1 is the library's own choice.",
        check=keys.between_or(1, 9, -1), server="compression.gzip.level")
    compression_lz4_level: int = keys.key(9,
        "The level when the broker compresses with lz4.",
        check=keys.between(1, 17), server="compression.lz4.level")
    compression_zstd_level: int = keys.key(3,
        "The level when the broker compresses with zstd.",
        check=keys.between(-131072, 22), server="compression.zstd.level")
    delete_retention_ms: int = keys.long_key(DAY_MS,
        "How long a compacted topic keeps tombstones and transaction markers, so that a reader "
        "from the start still sees the deletes.",
        check=keys.at_least(0), server="log.cleaner.delete.retention.ms")
    errors_deadletterqueue_group_enable: bool = keys.key(False,
        "Whether share groups may write their dead letters to this topic (KIP-1191). No setting of "
        "the broker gives the default.")
    file_delete_delay_ms: int = keys.long_key(60_000,
        "How long a file lives on after it was renamed to .deleted, for readers that are in it.",
        check=keys.at_least(0), server="log.segment.delete.delay.ms")
    flush_messages: int = keys.long_key(FOREVER,
        "fsync after this many records. The default leaves it to the operating system.",
        check=keys.at_least(1), server="log.flush.interval.messages")
    flush_ms: int = keys.long_key(FOREVER,
        "fsync what is older than this. It is looked at every log.flush.scheduler.interval.ms.",
        check=keys.at_least(0), server=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"))
    index_interval_bytes: int = keys.key(4096,
        "How many bytes of log lie between two entries of the offset index, about.",
        check=keys.at_least(0), server="log.index.interval.bytes")
    max_compaction_lag_ms: int = keys.long_key(FOREVER,
        "A record of a compacted topic is cleaned no later than this after it was written; the "
        "active segment rolls in time for it.",
        check=keys.at_least(1), server="log.cleaner.max.compaction.lag.ms")
    max_decompressed_message_bytes: int = keys.key(NO_LIMIT,
        "The largest record of a compressed batch, opened: a batch with a larger one is refused, "
        "not cleaned, and not looked into for a time. Below the default every compressed batch is "
        "opened when it is produced, and no further than its first record that is too large.",
        check=keys.between(1, NO_LIMIT), server="max.decompressed.message.bytes")
    max_message_bytes: int = keys.key(1_048_588,
        "The largest record batch that is accepted, compressed, with its header.",
        check=keys.at_least(0), server="message.max.bytes")
    message_timestamp_type: str = keys.key("CreateTime",
        "Whose clock a record carries: the producer's (CreateTime) or the broker's "
        "(LogAppendTime).",
        check=keys.one_of("CreateTime", "LogAppendTime"), server="log.message.timestamp.type")
    message_timestamp_before_max_ms: int = keys.long_key(FOREVER,
        "How far a record's timestamp may lie before the broker's clock; older ones are refused. "
        "Only with CreateTime.",
        check=keys.at_least(0), server="log.message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = keys.long_key(3_600_000,
        "How far a record's timestamp may lie after the broker's clock; newer ones are refused. "
        "Only with CreateTime.",
        check=keys.at_least(0), server="log.message.timestamp.after.max.ms")
    min_cleanable_dirty_ratio: float = keys.key(0.5,
        "The share of a compacted log that must be new before cleaning it is worth the work.",
        check=keys.between(0, 1), server="log.cleaner.min.cleanable.ratio")
    min_compaction_lag_ms: int = keys.long_key(0,
        "A record of a compacted topic stays at least this long, whatever follows it.",
        check=keys.at_least(0), server="log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = keys.key(1,
        "How many replicas acks=all waits for. With one node there is one.",
        check=keys.at_least(1), server="min.insync.replicas")
    preallocate: bool = keys.key(False,
        "Create segment files at their full size, and cut them when they are rolled.",
        server="log.preallocate")
    retention_bytes: int = keys.long_key(-1,
        "Drop the oldest segments while a partition is larger than this. Negative: no limit.",
        server="log.retention.bytes")
    retention_ms: int = keys.long_key(7 * DAY_MS,
        "Drop segments whose newest record is older than this. -1: no limit.",
        check=keys.at_least(-1),
        server=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        server_check=keys.UNLIMITED_OR_POSITIVE)
    segment_bytes: int = keys.key(1 << 30,
        "Start a new segment when the next batch would make the file larger than this.",
        check=keys.at_least(14), advice=keys.at_least(KAFKA_SEGMENT_FLOOR),
        server="log.segment.bytes")
    segment_index_bytes: int = keys.key(10_485_760,
        "The largest offset index of a segment; a full one starts a new segment.",
        check=keys.at_least(4), server="log.index.size.max.bytes")
    segment_jitter_ms: int = keys.long_key(0,
        "Roll by time up to this much earlier, at random, so that partitions do not roll together.",
        check=keys.at_least(0), server=("log.roll.jitter.ms", "log.roll.jitter.hours"))
    segment_ms: int = keys.long_key(7 * DAY_MS,
        "Start a new segment when the active one is this old, by the timestamps in it.",
        check=keys.at_least(1), server=("log.roll.ms", "log.roll.hours"))
    # fmt: on

    @property
    def is_compacted(self) -> bool:
        """Whether the topic is compacted by the cleaner, so that its records need keys."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention by time and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def limits_records(self) -> bool:
        """Whether the size of records counts, so that compressed batches are opened."""
        return self.max_decompressed_message_bytes < NO_LIMIT

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker stamps batches with its own clock."""
        return self.message_timestamp_type == "LogAppendTime"
