"""Streams: every offset once, whatever happens between the micro-batches."""

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning import segments
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition, PinnedSegment
from siltstone.pipeline.source.limits import shared_out, within_limits
from siltstone.pipeline.source.stream import (
    StreamReader,
    from_json,
    to_json,
    with_stream_defaults,
)
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage.topic_partition import TopicPartition
from tests.support.broker import SiltstoneProcess
from tests.support.produced import create_topic, delete_topic, numbered, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

names = (f"stream-{number}" for number in count())
KILLS = 20

in_spark = [pytest.mark.spark, pytest.mark.timeout(300)]


class Sink:
    """Collects what micro-batches bring, once per batch id: what a sink has to do."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, int]]] = {}
        self.fails_at: int | None = None

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Take a micro-batch."""
        rows = [row[:] for row in frame.select("partition", "offset").collect()]
        if batch_id == self.fails_at:
            raise RuntimeError("killed in mid-batch")
        self.batches[batch_id] = rows

    @property
    def rows(self) -> list[tuple[int, int]]:
        """All that came."""
        return [row for batch in self.batches.values() for row in batch]


class Stream:
    """A stream over a topic, which may be started again and again."""

    def __init__(
        self, spark: "SparkSession", process: SiltstoneProcess, topic: str, at: Path
    ) -> None:
        self._spark = spark
        self._process = process
        self._topic = topic
        self._at = at
        self.sink = Sink()

    def run(self, **options: str) -> None:
        """Read all that there is and return when that is done.

        On Spark 4.1 availableNow is one batch for a source in Python, of what the limit lets pass.
        """
        has_batches = not self._spark.version.startswith("4.1.")
        query = (
            self._spark.readStream.format("siltstone")
            .option("subscribe", self._topic)
            .option("data", str(self._process.folder))
            .option("kafka.bootstrap.servers", self._process.bootstrap)
            .option("startingOffsets", "earliest")
            .option("untilNow", not has_batches)
            .options(**options)
            .load()
            .writeStream.foreachBatch(self.sink)
            .option("checkpointLocation", str(self._at))
        )
        if has_batches:
            query = query.trigger(availableNow=True)
        running = query.start()
        try:
            running.processAllAvailable()
        finally:
            running.stop()


@pytest.fixture
def topic(pipeline_broker: SiltstoneProcess) -> str:
    """A topic of two partitions with 500 records each."""
    name = next(names)
    create_topic(pipeline_broker.bootstrap, name, partitions=2)
    for partition in range(2):
        produce(pipeline_broker.bootstrap, name, numbered(500, partition=partition))
    return name


@pytest.fixture
def stream(
    spark: "SparkSession", pipeline_broker: SiltstoneProcess, topic: str, tmp_path: Path
) -> Stream:
    """A stream that has not begun."""
    return Stream(spark, pipeline_broker, topic, tmp_path / "checkpoint")


def expected(count: int) -> list[tuple[int, int]]:
    """Return partition and offset of so many records in each of two partitions."""
    return [(partition, offset) for partition in range(2) for offset in range(count)]


class TestInSpark:
    """Real queries."""

    pytestmark = in_spark

    @pytest.mark.parametrize("transport", ["pinned", "fetch"])
    def test_a_stream_goes_on_where_it_was(
        self, stream: Stream, pipeline_broker: SiltstoneProcess, topic: str, transport: str
    ) -> None:
        """A run takes what there is, the next one only what has come since."""
        stream.run(transport=transport, maxOffsetsPerTrigger="300")
        batches = len(stream.sink.batches)
        first = sorted(stream.sink.rows)
        produce(pipeline_broker.bootstrap, topic, numbered(7, partition=1))
        stream.run(transport=transport)

        assert first == expected(500)
        assert batches == 4
        assert sorted(stream.sink.rows) == sorted(first + [(1, 500 + more) for more in range(7)])

    def test_a_limit_of_bytes_makes_batches(self, stream: Stream) -> None:
        """Each reads about as much as the option says."""
        stream.run(maxBytesPerTrigger="4k")

        assert len(stream.sink.batches) > 2
        assert sorted(stream.sink.rows) == expected(500)

    def test_a_stream_that_is_killed_delivers_each_offset_once(self, stream: Stream) -> None:
        """A micro-batch that failed comes again with the same offsets, none before it does."""
        for killed in range(KILLS):
            stream.sink.fails_at = killed
            with pytest.raises(PySparkException, match="killed in mid-batch"):
                stream.run(maxOffsetsPerTrigger="40")
        stream.sink.fails_at = None
        stream.run(maxOffsetsPerTrigger="40")

        assert sorted(stream.sink.rows) == expected(500)

    def test_a_topic_made_again_is_not_the_old_one(
        self, stream: Stream, pipeline_broker: SiltstoneProcess, topic: str
    ) -> None:
        """A checkpoint is of one topic, by its id."""
        stream.run()
        delete_topic(pipeline_broker.bootstrap, topic)
        create_topic(pipeline_broker.bootstrap, topic, partitions=2)
        produce(pipeline_broker.bootstrap, topic, numbered(900))

        with pytest.raises(PySparkException, match="was deleted and made again since"):
            stream.run()


@pytest.mark.client
def test_a_micro_batch_is_planned_by_the_end_of_a_hot_log(
    pipeline_broker: SiltstoneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The active segment is entered by its index, which a pin has: not walked from its start."""
    topic = next(names)
    create_topic(pipeline_broker.bootstrap, topic, config={"index.interval.bytes": "1000"})
    produce(pipeline_broker.bootstrap, topic, numbered(2000), **{"batch.num.messages": 1})
    asked = {"subscribe": topic, "data": str(pipeline_broker.folder), "transport": "pinned"}
    reader = StreamReader(asked, StructType([StructField("offset", LongType())]))
    read = _Headers(monkeypatch)
    try:
        offset = reader.latestOffset({topic: {"0": 1950}})
        read.count = 0
        (planned,) = reader.partitions({topic: {"0": 1950}}, offset)
        (limited,) = reader.partitions({topic: {"0": 1000}}, {topic: {"0": 1010}})
        found = [each.as_py() for batch in reader.read(planned) for each in batch["offset"]]
    finally:
        reader.stop()

    assert found == list(range(1950, 2000))
    assert limited.value.size < 2000
    assert read.count < 100


class _Headers:
    """Counts the batch headers that planning reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(segments, "BatchHeader", self)

    def read(self, data: bytes, position: int = 0) -> BatchHeader:
        """Return a header."""
        self.count += 1
        return BatchHeader.read(data, position)


def view_of(**ids: str) -> Manifest:
    """Return a manifest of topics with these ids."""
    from siltstone.pipeline.planning.manifest import PinnedPartition  # noqa: PLC0415 - of this helper alone

    return Manifest(
        taken_at_ms=0,
        partitions=tuple(
            PinnedPartition(
                topic=topic,
                partition=0,
                log_start_offset=0,
                end_offset=9,
                last_stable_offset=9,
                topic_id=topic_id,
            )
            for topic, topic_id in ids.items()
        ),
    )


def test_offsets_are_kept_as_sparks_own_source_keeps_them() -> None:
    """Partitions by topic, with the topic's id beside them, and back."""
    offsets = {TopicPartition("a", 0): 5, TopicPartition("a", 1): 6, TopicPartition("b", 0): 0}

    kept: dict[str, Any] = to_json(offsets, view_of(a="A", b=""))

    assert kept == {"a": {"0": 5, "1": 6, "topicId": "A"}, "b": {"0": 0}}
    assert from_json(kept) == offsets


def test_a_stream_begins_at_the_end() -> None:
    """As with Spark's own source, unless its options say otherwise."""
    assert with_stream_defaults({"subscribe": "t"})["startingOffsets"] == "latest"
    assert "startingOffsets" not in with_stream_defaults({"STARTINGOFFSETS": "earliest"})


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "ENDINGOFFSETSBYTIMESTAMP"])
def test_a_stream_has_no_end(name: str) -> None:
    """An option that names one is refused, as by Spark's own source, and not passed over."""
    with pytest.raises(BadOption, match=f"a stream has no end, so {name} is not for it"):
        with_stream_defaults({"subscribe": "t", name: "1"})


@pytest.mark.parametrize("has_files", [True, False])
def test_a_limit_of_bytes_is_shared_out(has_files: bool) -> None:
    """By the bytes of the segments; without any a record counts as 1 KiB."""

    def partition(number: int, *sizes: int) -> PinnedPartition:
        return PinnedPartition(
            topic="t",
            partition=number,
            log_start_offset=0,
            end_offset=100 * len(sizes),
            last_stable_offset=0,
            segments=tuple(
                PinnedSegment(base_offset=100 * at, size=size)
                for at, size in enumerate(sizes)
                if has_files
            ),
        )

    view = Manifest(taken_at_ms=0, partitions=(partition(0, 1000, 9000), partition(1, 10_000)))
    starts = {TopicPartition("t", number): 0 for number in (0, 1)}
    ends = {TopicPartition("t", 0): 200, TopicPartition("t", 1): 100}

    def within(most: int) -> list[int]:
        return list(shared_out(view.partitions, starts, ends, most).values())

    assert within(1 << 30) == [200, 100]
    assert within(1) == [1, 1]
    if has_files:
        assert within(10_000) == [144, 50]
    else:
        assert within(150 << 10) == [100, 50]


@pytest.mark.parametrize("most", [1, 3, 10, 99, 1000])
def test_a_limit_is_shared_out_by_what_there_is(most: int) -> None:
    """Nobody is starved, nobody gets more than there is, and the whole is about the limit."""
    ends = {TopicPartition("t", number): 10 * number**2 for number in range(5)}
    starts = dict.fromkeys(ends, 0)
    partitions = tuple(
        PinnedPartition(
            topic="t",
            partition=key.partition,
            log_start_offset=0,
            end_offset=end,
            last_stable_offset=end,
        )
        for key, end in ends.items()
    )
    asked = ReadOptions.parse({"subscribe": "t", "maxOffsetsPerTrigger": str(most)})

    found = within_limits(Manifest(taken_at_ms=0, partitions=partitions), asked, starts, ends)

    assert all(0 < end <= ends[key] for key, end in found.items() if ends[key])
    assert sum(found.values()) <= max(most, 4)
