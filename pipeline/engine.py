"""Runs the tasks of a job, on Spark or in processes of this machine.

Both run the same functions over the same splits. On Spark a task may run twice, by retry or by
speculation. So it writes into files of its own and returns their names, and only the files of one
attempt are committed.
"""

import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    package_session: "SparkSession | None" = None

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
    """Tasks on the executors of a Spark session, also of Spark Connect; the caller stops it.

    Spark shows its own progress meanwhile.
    """

    name = "spark"

    def __init__(self, session: "SparkSession") -> None:
        from pyspark.sql.utils import is_remote  # noqa: PLC0415 - an extra

        self.clock = Clock()
        self.session = session
        self.package_session = None if is_remote() else session
        """Where a package of a table's format may merge."""

    @cached_property
    def cores(self) -> int:
        """How many tasks Spark makes of many rows: as many as it has cores."""
        from pyspark.sql.functions import spark_partition_id  # noqa: PLC0415 - an extra

        return self.session.range(_MANY_ROWS).select(spark_partition_id()).distinct().count()

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

        with _shown_at_end(stage, items, weigh):
            if self.package_session is None:
                return self._collect(items, lambda frame: frame.mapInArrow(worked, _ROWS))
            return self._rdd_of(items).map(work).collect()

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

        def spread_packed(item: T) -> Iterator[tuple[int, bytes]]:
            return ((place, _packed(table)) for place, table in spread(item))

        def spread_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _, blob in _rows_of(batches):
                yield from (_row(*each) for each in spread_packed(_serializer().loads(blob)))

        def gather_packed(pairs: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, R]]:
            coming = iter(pairs)
            for place, first in coming:  # a partition has one place
                tables = map(_unpacked, chain([first], (blob for _, blob in coming)))
                yield place, gather(place, tables)

        def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for place, result in gather_packed(_rows_of(batches)):
                yield _row(place, _serializer().dumps(result))

        def planned(frame: "DataFrame") -> "DataFrame":
            tables = frame.mapInArrow(spread_out, _ROWS).repartitionById(places, "number")
            return tables.mapInArrow(gathered, _ROWS)

        with _shown_at_end(stage, items, weigh):
            if self.package_session is None:
                return self._collect(items, planned)
            tables = self._rdd_of(items).flatMap(spread_packed).partitionBy(places, int)
            return tables.mapPartitions(gather_packed).values().collect()

    def _rdd_of(self, items: Sequence[T]) -> "RDD[T]":
        return self.session.sparkContext.parallelize(items, max(1, len(items)))

    def _collect(self, items: Sequence[Any], plan: "Callable[[DataFrame], DataFrame]") -> list[Any]:
        """Return the results of a plan over the items, a task each, in the order of its numbers.

        Spark Connect has no RDDs, so they cross in rows of DataFrames.
        """
        if not items:
            return []
        rows = [(number, _serializer().dumps(item)) for number, item in enumerate(items)]
        with having(self.session, _ONE_BY_ONE):
            frame = self.session.createDataFrame(rows, _ROWS)
            found = plan(frame.repartitionById(len(rows), "number")).collect()
        return [_serializer().loads(row[1]) for row in sorted(found)]


Engine: TypeAlias = LocalEngine | SparkEngine
"""Runs tasks; ``weigh`` gives the bytes of an item for the progress."""

_SMALL_BYTES = 32 << 20
"""Reading less than that takes less time than starting a process."""
_FEWEST_TASKS = 2
_ROWS = "number int, content binary"
_MANY_ROWS = 1 << 20
_ONE_BY_ONE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}
"""A row may have many megabytes, and Arrow holds two gigabytes of a column."""


@contextmanager
def having(session: "SparkSession", options: Mapping[str, str]) -> Iterator[None]:
    """Have options in a session until the block ends."""
    before = {name: session.conf.get(name, None) for name in options}
    for name, text in options.items():
        session.conf.set(name, text)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, was)


@contextmanager
def _shown(stage: str, items: Sequence[T], weigh: Callable[[T], int]) -> Iterator[Progress]:
    progress = Progress(stage, sum(weigh(item) for item in items), len(items))
    try:
        yield progress
    finally:
        progress.end()


@contextmanager
def _shown_at_end(stage: str, items: Sequence[T], weigh: Callable[[T], int]) -> Iterator[None]:
    with _shown(stage, items, weigh) as progress:
        yield
        progress.add(sum(weigh(item) for item in items), splits=len(items))


def _counted(progress: Progress, weight: int, result: R) -> R:
    progress.add(weight)
    return result


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
