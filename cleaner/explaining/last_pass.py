"""The last pass over a partition and the last prediction of a pass, as the broker keeps them."""

from typing import Any, NamedTuple

from siltstone.cleaner.one_pass.stats import PassResult, Prediction
from siltstone.storage import threads
from siltstone.storage.topic_partition import TopicPartition


class Pass(NamedTuple):
    """The facts of a partition's last pass that an explanation needs.

    Times are in ms since the epoch. ``map_full`` says that the map was full before the end of the
    dirty part. ``next_horizon_ms`` is when the first tombstone or marker that the pass kept may go.
    """

    started_ms: int
    seconds: float
    first_dirty_offset: int
    end_offset: int
    bytes_read: int
    bytes_written: int
    records_dropped: int
    map_full: bool
    map_keys: int
    next_horizon_ms: int | None


def last_pass_of(event: dict[str, Any]) -> Pass | None:
    """Return the pass that an event of the history describes, None for other kinds of events."""
    if event.get("outcome") != "cleaned":
        return None
    try:
        return Pass(
            started_ms=event["started_ms"],
            seconds=event["seconds"],
            first_dirty_offset=event["first_dirty_offset"],
            end_offset=event["end_offset"],
            bytes_read=event["bytes_in"],
            bytes_written=event["bytes_out"],
            records_dropped=sum(event["records_dropped"].values()),
            map_full=event["map_full"],
            map_keys=event["map_keys"],
            next_horizon_ms=event["next_horizon_ms"],
        )
    except (KeyError, TypeError, AttributeError):  # another version of this program wrote it
        return None


class Predictions:
    """The last prediction for each partition, until a pass shows whether the prediction was right.

    Any thread may call.
    """

    def __init__(self) -> None:
        self._lock = threads.Lock()
        self._by_partition: dict[TopicPartition, Prediction] = {}  # guarded by: _lock

    def keep(self, prediction: Prediction) -> None:
        """Remember a prediction; it replaces an earlier one of the same partition."""
        with self._lock:
            self._by_partition[prediction.result.topic_partition] = prediction

    def take(self, result: PassResult) -> Prediction | None:
        """Return the prediction for this pass; None without one or if the log has changed since."""
        with self._lock:
            prediction = self._by_partition.pop(result.topic_partition, None)
        if prediction is None:
            return None
        before, after = prediction.result, result
        same = (before.first_dirty_offset, before.first_uncleanable_offset, before.bytes_read) == (
            after.first_dirty_offset,
            after.first_uncleanable_offset,
            after.bytes_read,
        )
        return prediction if same else None

    def forget(self, topic_partition: TopicPartition) -> None:
        """Forget a partition that is gone."""
        with self._lock:
            self._by_partition.pop(topic_partition, None)
