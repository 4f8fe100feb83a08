"""The results of dry runs, until a pass shows whether they were right."""

from siltstone.cleaner.one_pass.stats import PassResult, Prediction
from siltstone.storage import threads
from siltstone.storage.topic_partition import TopicPartition


class Predictions:
    """The last prediction for each partition. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threads.Lock()
        self._by_partition: dict[TopicPartition, Prediction] = {}  # guarded by: _lock

    def keep(self, prediction: Prediction) -> None:
        """Remember a prediction instead of an earlier one."""
        with self._lock:
            self._by_partition[prediction.result.topic_partition] = prediction

    def take(self, result: PassResult) -> Prediction | None:
        """Return the prediction for this pass, None without one or if the log has changed since."""
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
