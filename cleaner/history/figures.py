"""The work of the cleaner threads since the start: plain numbers, read at a scrape.

The gauges are Kafka's (``LogCleaner``), except that the use of the map is correct: Kafka truncates
the fraction to 0 before it multiplies by 100 (KAFKA-18597).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from siltstone.cleaner.explaining.last_pass import Pass, last_pass_of
from siltstone.cleaner.one_pass.stats import PassResult, Reason
from siltstone.storage import threads
from siltstone.storage.log.log import Log
from siltstone.storage.topic_partition import TopicPartition


class CleanerFigures:
    """Totals of all threads and the last pass of each thread and partition.

    The cleaner threads write, one at a time; any thread reads.
    """

    def __init__(self) -> None:
        self._lock = threads.Lock()
        self.passes = 0
        self.aborted = 0
        self.failures: Counter[str] = Counter()  # keys are the classes of the exceptions
        self.dropped: Counter[Reason] = Counter()  # numbers of records
        self.bytes_read = 0
        self.bytes_written = 0
        self.last: dict[TopicPartition, Pass] = {}
        self._by_thread: dict[str, tuple[PassResult, float]] = {}

    def recall(self, events: Iterable[dict[str, Any]], logs: Mapping[TopicPartition, Log]) -> None:
        """Note the last passes of these logs from the events of the history, the oldest first."""
        for event in events:
            partition = event.get("partition")
            if not isinstance(partition, int):
                continue
            log = logs.get(TopicPartition(str(event.get("topic")), partition))
            found = last_pass_of(event)
            # The event may be about a deleted topic of the same name.
            if log is not None and found is not None and event.get("topic_id") == str(log.topic_id):
                self.last[log.topic_partition] = found

    def note_pass(
        self, thread: str, result: PassResult, seconds: float, event: dict[str, Any]
    ) -> None:
        """Count a pass that succeeded, when all else of it is noted: readers take no lock."""
        last = last_pass_of(event)
        with self._lock:
            self.bytes_read += result.map_bytes_read + result.bytes_read
            self.bytes_written += result.bytes_written
            for reason, dropped in result.dropped.items():
                self.dropped[reason] += dropped.records
            if last is not None:
                self.last[result.topic_partition] = last
            self._by_thread[thread] = (result, seconds)
            self.passes += 1

    def note_abort(self) -> None:
        """Count a pass that was aborted."""
        with self._lock:
            self.aborted += 1

    def note_failure(self, error: BaseException) -> None:
        """Count a pass that failed."""
        with self._lock:
            self.failures[type(error).__name__] += 1

    def forget(self, topic_partition: TopicPartition) -> None:
        """Forget a partition that is gone."""
        with self._lock:
            self.last.pop(topic_partition, None)

    @property
    def max_buffer_utilization_percent(self) -> float:
        """Return the highest use of a map in the threads' last passes, in percent."""
        last = tuple(self._by_thread.values())
        return 100 * max((result.map_utilization for result, _ in last), default=0.0)

    @property
    def recopy_percent(self) -> int:
        """Return bytes written as a percentage of bytes read, over the threads' last passes."""
        last = tuple(self._by_thread.values())
        written = sum(result.bytes_written for result, _ in last)
        return 100 * written // max(1, sum(result.bytes_read for result, _ in last))

    @property
    def max_clean_seconds(self) -> float:
        """Return how long the longest of the threads' last passes took."""
        return max((seconds for _, seconds in tuple(self._by_thread.values())), default=0.0)
