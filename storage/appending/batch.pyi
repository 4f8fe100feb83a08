from typing import Any, Final

from siltstone.config.topic import TopicConfig
from siltstone.storage.producers.entry import AppendedBatch

class ValidatedBatch:
    buffer: memoryview
    error: Exception | None
    log: Any
    attributes: int
    base_offset: int
    base_sequence: int
    count: int
    last_offset_delta: int
    log_append_time_ms: int
    log_start_offset: int
    max_timestamp: int
    partition: int
    producer_epoch: int
    producer_id: int
    size: int
    duplicate: bool
    flush_due: bool
    def __init__(
        self,
        buffer: memoryview,
        size: int,
        last_offset_delta: int,
        count: int,
        attributes: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        log_append_time_ms: int,
    ) -> None: ...
    def repeat(self, first: AppendedBatch, log_start_offset: int) -> None: ...
    last_offset: Final[int]
    is_awaited: Final[bool]

class PlainRules:
    after_ms: int
    before_ms: int
    flush_messages: int
    max_bytes: int
    keys_required: bool
    kept_codecs: int
    def __init__(self, config: TopicConfig) -> None: ...
    def take(self, records: memoryview, now_ms: int) -> ValidatedBatch | None: ...
