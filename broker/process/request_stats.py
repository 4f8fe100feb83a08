"""Counts requests, errors and time of each API in plain integers.

The counters are Kafka's RequestMetrics (requests, errors, total time). A histogram is a list of
integers with fixed bounds, because each request is observed, and the objects of an exporter library
take several microseconds for that.
"""

from collections import Counter
from collections.abc import Iterable

from siltstone.broker.process.histogram import Histogram
from siltstone.protocol.errors import KafkaError
from siltstone.storage.appending.refused_batches import COUNTED


class ApiStats(Histogram):
    """The figures of one API; the time is from the complete frame to the response passed on."""

    __slots__ = ("errors", "name")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.errors: dict[int, int] = {}

    def failed(self, error_code: int, times: int = 1) -> None:
        """Count a response, or a part of one, that carries a Kafka error code."""
        self.errors[error_code] = self.errors.get(error_code, 0) + times

    def all_failed(self, error_codes: list[int]) -> None:
        """Count many error codes at once, a hundred times as fast as one by one."""
        for code, times in Counter(error_codes).items():
            self.failed(code, times)


class RequestStats:
    """The ``ApiStats`` of every API that is served, by key. Loop only."""

    __slots__ = ("by_key", "invalid_records", "refused")

    def __init__(self, apis: Iterable[tuple[int, str]]) -> None:
        self.by_key = {key: ApiStats(name) for key, name in apis}
        # Frames that could not be decoded; each closed its connection.
        self.refused = 0
        self.invalid_records = dict.fromkeys(COUNTED, 0)

    def refused_batch(self, error: KafkaError) -> None:
        """Count a batch that was not appended, if Kafka has a meter for its fault.

        Records without a key are counted one by one; any other fault counts once for a batch.
        """
        if error.counted_as:
            self.invalid_records[error.counted_as] += len(error.record_errors) or 1
