"""Runs the tasks of a job, on Spark, by Spark Connect, or in processes of this machine.

All run the same functions over the same splits. On Spark a task may run twice, by retry or by
speculation. So it writes into files of its own and returns their names, and only the files of one
attempt are committed.
"""

import multiprocessing
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from siltstone.pipeline.command.progress import Progress
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

Spread = Callable[[T], Iterator[tuple[int, pa.Table]]]
"""Turns one item into tables for numbered places: one task gathers each place."""
Gather = Callable[[int, Iterator[pa.Table]], R]
"""Turns the tables of one place into its result."""


class LocalEngine:
    """Processes of this machine, as many as it has cores; small work is done in this process.

    The processes start with the first work that is large enough, and end with `close`.
    """

    name = "local"

    def __init__(self, cores: int | None = None) -> None:
        self.cores = max(1, multiprocessing.cpu_count() if cores is None else cores)
        self.clock = Clock()
        self._pool: ProcessPoolExecutor | None = None

    def close(self) -> None:
        """End the processes. Idempotent."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def run(
        self,
        stage: str,
        items: Sequence[T],
        work: Callable[[T], R],
        weigh: Callable[[T], int],
    ) -> list[R]:
        """Return the result of each item, in their order."""
        with _shown(stage, items, weigh) as progress:
            total = sum(weigh(item) for item in items)
            if self.cores == 1 or len(items) < _FEWEST_TASKS or total < _SMALL_BYTES:
                return [_counted(progress, weigh(item), work(item)) for item in items]
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self.cores, mp_context=context)
            futures = {self._pool.submit(work, item): at for at, item in enumerate(items)}
            found: dict[int, R] = {}
            for future in as_completed(futures):
                at = futures[future]
                found[at] = _counted(progress, weigh(items[at]), future.result())
            return [found[at] for at in range(len(items))]

    def shuffle(
        self,
        stage: str,
        items: Sequence[T],
        spread: Spread[T],
        gather: Gather[R],
        places: int,  # noqa: ARG002  # each place that got something is a task
        weigh: Callable[[T], int],
    ) -> list[R]:
        """Return the result for each place with tables; the tables are passed in files."""
        with tempfile.TemporaryDirectory(prefix="siltstone-shuffle-") as folder:
            numbered = list(enumerate(items))
            written = self.run(
                stage,
                numbered,
                partial(_spread_to_files, Path(folder), spread),
                lambda pair: weigh(pair[1]),
            )
            by_place: dict[int, list[Path]] = {}
            for paths in written:
                for place, path in paths:
                    by_place.setdefault(place, []).append(path)
            return self.run(
                f"{stage}, gathered",
                sorted(by_place.items()),
                partial(_gather_from_files, gather),
                lambda pair: sum(path.stat().st_size for path in pair[1]),
            )


class SparkEngine:
    """Tasks on the executors of a Spark session, which the caller stops."""

    name = "spark"

    def __init__(self, session: "SparkSession") -> None:
        self.clock = Clock()
        self.session = session
        self._context = session.sparkContext
        self.cores = self._context.defaultParallelism

    def run(
        self,
        stage: str,
        items: Sequence[T],
        work: Callable[[T], R],
        weigh: Callable[[T], int],
    ) -> list[R]:
        """Return the result of each item, in their order."""
        if not items:
            return []
        with self._weighed(stage, items, weigh) as (rdd, done):
            return rdd.map(partial(_work_and_tell, work, done)).collect()

    def shuffle(
        self,
        stage: str,
        items: Sequence[T],
        spread: Spread[T],
        gather: Gather[R],
        places: int,
        weigh: Callable[[T], int],
    ) -> list[R]:
        """Return the result for each place with tables; the tables are passed by a shuffle."""
        if not items:
            return []
        with self._weighed(stage, items, weigh) as (rdd, done):
            return (
                rdd.flatMap(partial(_spread_and_tell, spread, done))
                .partitionBy(places, _identity)
                .mapPartitions(partial(_gather_blobs, gather))
                .collect()
            )

    @contextmanager
    def _weighed(
        self, stage: str, items: Sequence[T], weigh: Callable[[T], int]
    ) -> Iterator[tuple["RDD[tuple[T, int]]", Any]]:
        """Yield an RDD of the items with their bytes, a task each, and a counter of those done."""
        pairs = [(item, weigh(item)) for item in items]
        rdd = self._context.parallelize(pairs, len(pairs))
        with _shown(stage, items, weigh) as progress, self._watch(stage, progress) as done:
            yield rdd, done

    @contextmanager
    def _watch(self, stage: str, progress: Progress) -> Iterator[Any]:
        """Yield an accumulator of bytes and tasks; its growth is shown until the block ends."""
        done = self._context.accumulator(0)
        tasks = self._context.accumulator(0)
        ended = threading.Event()
        self._context.setJobDescription(stage)

        def show() -> None:
            while not ended.wait(_POLL_SECONDS):
                _catch_up(progress, done.value, tasks.value)

        thread = threading.Thread(target=show, name="progress", daemon=True)
        thread.start()
        try:
            yield done, tasks
        finally:
            ended.set()
            thread.join()
            _catch_up(progress, done.value, tasks.value)


class ConnectEngine:
    """Tasks on the executors behind a session of Spark Connect, which has no RDDs.

    Items and results cross in rows of DataFrames. Nothing counts bytes meanwhile.
    """

    name = "spark"

    def __init__(self, session: "SparkSession") -> None:
        self.clock = Clock()
        self._session = session

    @cached_property
    def cores(self) -> int:
        """How many tasks Spark makes of many rows: as many as it has cores."""
        from pyspark.sql.functions import spark_partition_id  # noqa: PLC0415 - an extra

        return self._session.range(_MANY_ROWS).select(spark_partition_id()).distinct().count()

    def run(
        self,
        stage: str,
        items: Sequence[T],
        work: Callable[[T], R],
        weigh: Callable[[T], int],
    ) -> list[R]:
        """Return the result of each item, in their order."""

        def worked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number, blob in _rows_of(batches):
                yield _row(number, _serializer().dumps(work(_serializer().loads(blob))))

        return self._collect(stage, items, weigh, lambda frame: frame.mapInArrow(worked, _ROWS))

    def shuffle(
        self,
        stage: str,
        items: Sequence[T],
        spread: Spread[T],
        gather: Gather[R],
        places: int,
        weigh: Callable[[T], int],
    ) -> list[R]:
        """Return the result for each place with tables; the tables are passed by a shuffle."""

        def spread_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _, blob in _rows_of(batches):
                for place, table in spread(_serializer().loads(blob)):
                    yield _row(place, _packed(table))

        def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            pairs = _rows_of(batches)
            for first in pairs:  # a partition has one place
                (result,) = _gather_blobs(gather, chain([first], pairs))
                yield _row(first[0], _serializer().dumps(result))

        def planned(frame: "DataFrame") -> "DataFrame":
            tables = frame.mapInArrow(spread_out, _ROWS).repartitionById(places, "number")
            return tables.mapInArrow(gathered, _ROWS)

        return self._collect(stage, items, weigh, planned)

    def _collect(
        self,
        stage: str,
        items: Sequence[T],
        weigh: Callable[[T], int],
        plan: "Callable[[DataFrame], DataFrame]",
    ) -> list[Any]:
        """Return the results of a plan over the items, a task each, in the order of its numbers."""
        if not items:
            return []
        rows = [(number, _serializer().dumps(item)) for number, item in enumerate(items)]
        with _shown(stage, items, weigh) as progress:
            frame = self._session.createDataFrame(rows, _ROWS)
            found = plan(frame.repartitionById(len(rows), "number")).collect()
            progress.add(sum(weigh(item) for item in items), splits=len(items))
        return [_serializer().loads(row[1]) for row in sorted(found)]


Engine: TypeAlias = LocalEngine | SparkEngine | ConnectEngine
"""Runs tasks; ``weigh`` gives the bytes of an item for the progress."""

_POLL_SECONDS = 0.2
_SMALL_BYTES = 32 << 20
"""Reading less than that takes less time than starting a process."""
_FEWEST_TASKS = 2
_ROWS = "number int, content binary"
_MANY_ROWS = 1 << 20


def spark_engine(session: "SparkSession") -> SparkEngine | ConnectEngine:
    """Return the engine for a session of Spark, which may be one of Spark Connect."""
    from pyspark.sql.utils import is_remote  # noqa: PLC0415 - an extra

    return ConnectEngine(session) if is_remote() else SparkEngine(session)


@contextmanager
def _shown(stage: str, items: Sequence[T], weigh: Callable[[T], int]) -> Iterator[Progress]:
    progress = Progress(stage, sum(weigh(item) for item in items), len(items))
    try:
        yield progress
    finally:
        progress.end()


def _counted(progress: Progress, weight: int, result: R) -> R:
    progress.add(weight)
    return result


def _catch_up(progress: Progress, size: int, splits: int) -> None:
    progress.add(size - progress.bytes_done, splits=splits - progress.splits_done)


def _work_and_tell(work: Callable[[T], R], done: Any, pair: tuple[T, int]) -> R:
    result = work(pair[0])
    done[0].add(pair[1])
    done[1].add(1)
    return result


def _spread_and_tell(
    spread: Spread[T], done: Any, pair: tuple[T, int]
) -> Iterator[tuple[int, bytes]]:
    for place, table in spread(pair[0]):
        yield place, _packed(table)
    done[0].add(pair[1])
    done[1].add(1)


def _serializer() -> Any:
    """Return what makes bytes of items and results, as Spark does of those in an RDD."""
    from pyspark.serializers import CPickleSerializer  # noqa: PLC0415 - an extra

    return CPickleSerializer()


def _rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        for row in range(batch.num_rows):
            yield batch.column(0)[row].as_py(), batch.column(1)[row].as_py()


def _row(number: int, content: bytes) -> pa.RecordBatch:
    arrays = [pa.array([number], pa.int32()), pa.array([content], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, ["number", "content"])


def _gather_blobs(gather: Gather[R], pairs: Iterator[tuple[int, bytes]]) -> Iterator[R]:
    first = next(pairs, None)
    if first is None:
        return

    def tables() -> Iterator[pa.Table]:
        yield _unpacked(first[1])
        for _, blob in pairs:
            yield _unpacked(blob)

    yield gather(first[0], tables())


def _spread_to_files(
    folder: Path, spread: Spread[T], pair: tuple[int, T]
) -> list[tuple[int, Path]]:
    number, item = pair
    written = []
    for place, table in spread(item):
        path = folder / f"{number}-{place}.arrow"
        path.write_bytes(_packed(table))
        written.append((place, path))
    return written


def _gather_from_files(gather: Gather[R], pair: tuple[int, list[Path]]) -> R:
    place, paths = pair
    return gather(place, (_unpacked(path.read_bytes()) for path in paths))


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def _identity(place: int) -> int:
    return place
