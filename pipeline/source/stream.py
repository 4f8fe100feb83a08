"""Reading topics as a stream: offsets in Spark's checkpoint, each of them read once.

Offsets are ``{"orders": {"0": 23, "topicId": "…"}}``: the form of Spark's Kafka source, and the
topic's id, so that a topic which was deleted and made again is noticed. The two offsets of a
micro-batch decide what it reads; a repeated one may have fewer records if the cleaner has worked
meanwhile. With pins, each look at the log's end takes a pin, and the micro-batch reads from it.

Spark 4.1 has no limits for sources in Python, and asks for a latest offset without saying from
where. There, too, the options' limits hold, from the end of the last planned micro-batch.
"""
# ruff: noqa: N802  # Spark names the methods

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from siltstone.pipeline.errors import BadOption, DataLost
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.manifest import Manifest
from siltstone.pipeline.planning.ranges import OffsetRange, check_start, last_offset
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan
from siltstone.pipeline.source.batch import SplitPartition
from siltstone.pipeline.source.limits import Offsets, within_limits
from siltstone.pipeline.source.schema import check_schema, converted
from siltstone.pipeline.source.worker import settle
from siltstone.pipeline.transports import Source, open_source
from siltstone.storage.clock import Clock
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ModuleNotFoundError:  # Spark 4.1
        SupportsTriggerAvailableNow = object

_ENDS: Final = {"endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"}
_TOPIC_ID: Final = "topicId"
_LOOK_SECONDS: Final = 1.0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream. `read` runs in the tasks, all other methods in a process beside the driver."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, clock: Clock | None = None
    ) -> None:
        self._options = ReadOptions.parse(with_stream_defaults(options))
        self._schema = schema
        self._columns = check_schema(schema)
        self._clock = clock or Clock()
        self._source: Source | None = None
        self._view: Manifest | None = None
        self._looked = 0.0
        self._reached: dict[str, Any] = {}  # the end of the last planned micro-batch
        self._target: Offsets | None = None  # where a run to a fixed end ends
        self._is_fixed = self._options.until_now

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that a task needs of the reader, without anything open."""
        return {"_schema": self._schema, "_columns": self._columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def initialOffset(self) -> dict[str, Any]:
        """Return where a stream without a checkpoint begins."""
        view = self._look()
        ranges = self._opened().ranges(view)
        self._reached = to_json({key: wanted.start for key, wanted in ranges.items()}, view)
        return self._reached

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: "ReadLimit | None" = None
    ) -> dict[str, Any]:
        """Return where the next micro-batch ends; Spark 4.1 gives neither start nor limit.

        Raises:
            DataLost: a topic was deleted and made again.
        """
        start = self._reached if start is None else start
        begun = from_json(start)
        view = self._look()
        self._check_topics(start, view)
        ends = self._ends(view)
        if self._is_fixed and self._target is None:
            self._target = ends
        if self._target is not None:
            ends = {key: min(end, self._target.get(key, 0)) for key, end in ends.items()}
        for key, offset in begun.items():
            ends[key] = max(ends.get(key, offset), offset)
        if type(limit).__name__ != "ReadAllAvailable":  # the name: Spark 4.1 has no such class
            ends = within_limits(view, self._options, self._starts(begun, view), ends)
        return to_json(ends, view, start)

    def getDefaultReadLimit(self) -> "ReadLimit":
        """Return the limit that the options set."""
        from pyspark.sql.streaming.datasource import (  # noqa: PLC0415 - Spark 4.1 has none
            ReadAllAvailable,
            ReadMaxBytes,
            ReadMaxRows,
        )

        max_offsets = self._options.max_offsets_per_trigger
        if max_offsets:
            return ReadMaxRows(max_offsets)
        max_bytes = self._options.max_bytes_per_trigger
        return ReadMaxBytes(max_bytes) if max_bytes else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Note that this run goes to the present end of the log and no further."""
        self._is_fixed = True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the log ended when it was last looked at."""
        return to_json(self._ends(self._view), self._view) if self._view is not None else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the splits between two offsets.

        Raises:
            DataLost: records between them are gone, and failOnDataLoss is true.
        """
        self._reached = end
        begun, ended = from_json(start), from_json(end)
        if all(begun.get(key, 0) >= offset for key, offset in ended.items()):
            return []
        view = self._view
        if view is None or any(end < ended.get(key, 0) for key, end in self._ends(view).items()):
            view = self._look(is_fresh=True)
        self._check_topics(end, view)
        starts = self._starts(begun, view)
        there = {each.topic_partition for each in view.partitions}
        self._check_ends(ended, view, there)
        ranges = {
            key: OffsetRange(starts.get(key, 0), offset)
            for key, offset in ended.items()
            if key in there
        }
        return [SplitPartition(timeless(split)) for split in self._opened().plan(view, ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a split."""
        settle()
        if partition is None or partition.value is None:
            return iter(())
        return converted(scan(partition.value, self._columns), self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: nothing is kept for offsets that are done."""

    def stop(self) -> None:
        """Close what is open."""
        if self._source is not None:
            with suppress(OSError):
                self._source.close()
            self._source = None

    def _opened(self) -> Source:
        if self._source is None:
            self._source = open_source(self._options)
        return self._source

    def _look(self, *, is_fresh: bool = False) -> Manifest:
        """Return the partitions as of now or a moment ago, since Spark asks often."""
        is_old = self._clock.monotonic() - self._looked >= _LOOK_SECONDS and not self._is_fixed
        if self._view is None or is_fresh or is_old:
            self._view = self._opened().view()
            self._looked = self._clock.monotonic()
        return self._view

    def _ends(self, view: Manifest) -> Offsets:
        return {each.topic_partition: last_offset(each, self._options) for each in view.partitions}

    def _starts(self, begun: Offsets, view: Manifest) -> Offsets:
        """Return where each partition is read from; a new one is read from its start.

        Raises:
            DataLost: it no longer exists.
        """
        fails = self._options.fail_on_data_loss
        return {
            each.topic_partition: check_start(each, begun[each.topic_partition], fails=fails)
            if each.topic_partition in begun
            else each.log_start_offset
            for each in view.partitions
        }

    def _check_ends(self, ended: Offsets, view: Manifest, there: set[TopicPartition]) -> None:
        if not self._options.fail_on_data_loss:
            return
        ends = self._ends(view)
        for key, offset in ended.items():
            if key not in there:
                raise DataLost(f"{key} is gone since the last micro-batch; begin again")
            if ends[key] < offset:
                raise DataLost(
                    f"{key} ends at {ends[key]} and reached {offset} before: it was cut or made "
                    "again; begin with a new checkpoint"
                )

    def _check_topics(self, offsets: dict[str, Any], view: Manifest) -> None:
        ids = {each.topic: each.topic_id for each in view.partitions}
        for topic, known in offsets.items():
            now, before = ids.get(topic, ""), known.get(_TOPIC_ID, "")
            if now and before and now != before:
                raise DataLost(
                    f"topic {topic} was deleted and made again since the last micro-batch (topic "
                    f"id {before}, now {now}); begin with a new checkpoint"
                )


def timeless(split: Split) -> Split:
    """Return a split without deadlines: a stream does not show one moment."""
    rules = replace(split.rules, deadline_ms=0, unpinned_deadline_ms=0, unpinned_last_end=0)
    return replace(split, rules=rules)


def with_stream_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a stream, which by default begins at the end of the log.

    Raises:
        BadOption: They name an end, which a stream does not have.
    """
    said = {name.lower() for name in options}
    ends = [name for name in options if name.lower() in _ENDS]
    if ends:
        raise BadOption(
            f"a stream has no end, so {ends[0]} is not for it; leave it out, or read by "
            "spark.read; trigger(availableNow=True) and untilNow end at what there is now"
        )
    if said.isdisjoint({"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"}):
        return {**options, "startingOffsets": "latest"}
    return dict(options)


def to_json(
    offsets: Offsets, view: Manifest, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return offsets as Spark keeps them, with the ids of their topics."""
    answer: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        answer.setdefault(topic, {})[str(partition)] = offset
    ids = {each.topic: each.topic_id for each in view.partitions if each.topic_id}
    for topic, known in answer.items():
        topic_id = ids.get(topic) or (before or {}).get(topic, {}).get(_TOPIC_ID, "")
        if topic_id:
            known[_TOPIC_ID] = topic_id
    return answer


def from_json(offsets: Mapping[str, Any]) -> Offsets:
    """Return the offsets in the text that Spark has kept."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, known in offsets.items()
        for partition, offset in known.items()
        if partition != _TOPIC_ID
    }
