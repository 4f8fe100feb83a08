"""Topics as Arrow record batches, for DuckDB, Polars and plain Python: no Spark, no Java.

The extra is ``siltstone[arrow]``. A reader has about one record batch in memory, of some megabytes.
Its rows are those of one moment, by partition and in the order of offsets.

Filters are those of ``pyarrow.parquet``: a list of conditions that all hold, a list of such lists
of which one holds, or an expression of ``pyarrow.compute``. Splits that cannot hold wanted rows by
topic, partition and offset are not read, and a single list narrows offsets and times, too. The rest
is applied to each record batch, so that the rows are those that the filter keeps of all rows.
"""

import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem
from pyarrow.parquet import filters_to_expression

from siltstone.pipeline.columns import TYPES, arrow_schema, check_names, choose
from siltstone.pipeline.errors import BadOption, SourceUnavailable
from siltstone.pipeline.filters import Condition, Narrowed, narrow
from siltstone.pipeline.jobs.reading import committed, moment_of
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan as scan_split
from siltstone.storage.clock import Clock

Filters: TypeAlias = (
    Sequence[tuple[str, str, Any]] | Sequence[Sequence[tuple[str, str, Any]]] | pc.Expression
)

_PRUNED_AT_ONCE: Final = 1000
"""Each split of a dataset takes some kilobytes of Arrow."""


def scan(
    subscribe: str = "",
    *,
    columns: Sequence[str] | None = None,
    filters: Filters | None = None,
    **options: Any,
) -> pa.RecordBatchReader:
    """Return the records of topics, by the options of the Spark source (`pipeline.options`).

    Aborted and open transactions are left out, unless ``isolation`` is read_uncommitted. Names
    with a point go into ``**{"kafka.security.protocol": "SSL"}``. A pin is renewed until the reader
    is exhausted, closed or collected. An error in the middle is a ``pyarrow.ArrowInvalid``.

    Raises:
        PipelineError: the topics cannot be read, or not so.
    """
    asked = committed({"subscribe": subscribe, **options})
    names = choose(asked.columns, has_headers=asked.include_headers)
    if columns is not None:
        names = tuple(columns)
        check_names(names)
    plan = _Filter(names, filters)
    with _in_a_sentence(), ExitStack() as stack:
        moment = stack.enter_context(moment_of(plan.narrowed.options(asked, plan.read), Clock()))
        splits = plan.prune(moment.plan(plan.narrowed.ranges(dict(moment.ranges))))
        held = stack.pop_all()
    rows = _rows(held, plan, splits, moment.check)
    weakref.finalize(rows, held.close)  # also at the end of the process
    reader = pa.RecordBatchReader.from_batches(arrow_schema(names), rows)
    return pa.RecordBatchReader.from_stream(reader)  # it ends the iterator when it is closed


def _rows(
    held: ExitStack, plan: "_Filter", splits: list[Split], check: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    with _in_a_sentence(), held:
        for split in splits:
            yield from plan.keep(scan_split(split, plan.read))
        check()


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Say of an error of the disk or the store what to do.

    Raises:
        SourceUnavailable: something was not to be read.
    """
    try:
        yield
    except OSError as error:
        raise SourceUnavailable(
            f"the topics cannot be read: {error}; check the place and the rights of this user"
        ) from error


class _Filter:
    """A filter in its parts: bounds, an expression for the rest, and the columns to read."""

    def __init__(self, names: tuple[str, ...], filters: Filters | None) -> None:
        self._names = self.read = names
        self.narrowed = Narrowed()
        self._whole: pc.Expression | None = None
        self._left: pc.Expression | None = None
        if filters is None:
            return
        try:
            conditions = _conditions(filters)
            self._whole = self._left = filters_to_expression(conditions or filters)
            words = re.findall(r"\w+", str(self._whole))
            self.read = (*names, *(each for each in TYPES if each in words and each not in names))
            schema = arrow_schema(self.read)
            row = [pa.nulls(1, each.type) for each in schema]  # of no rows Arrow checks less
            pa.table(row, schema).filter(self._whole)
        except (pa.ArrowException, LookupError, OverflowError, TypeError, ValueError) as error:
            raise _unfit(str(error).partition("\n")[0]) from error
        if conditions:
            self.narrowed, left = narrow(conditions, lambda each: each)
            self._left = filters_to_expression(left) if left else None

    def prune(self, splits: list[Split]) -> list[Split]:
        """Return the splits that can hold wanted rows.

        To Arrow each is a file of a dataset, of which the names say what is in it.
        """
        if self._whole is None:
            return splits
        parts = range(0, len(splits), _PRUNED_AT_ONCE)
        return [each for at in parts for each in self._matching(splits[at : at + _PRUNED_AT_ONCE])]

    def _matching(self, splits: list[Split]) -> list[Split]:
        form, disk = ds.IpcFileFormat(), LocalFileSystem()
        files = [
            form.make_fragment(str(number), disk, partition_expression=_content(split))
            for number, split in enumerate(splits)
        ]
        known = arrow_schema(tuple(dict.fromkeys((*self.read, "topic", "partition", "offset"))))
        dataset = ds.FileSystemDataset(files, known, form, disk)
        with _failing():
            return [splits[int(each.path)] for each in dataset.get_fragments(self._whole)]

    def keep(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows and columns."""
        for batch in self.narrowed.keep(batches):
            table = pa.Table.from_batches([batch])
            if self._left is not None:
                with _failing():
                    table = table.filter(self._left)
            yield from table.select(list(self._names)).to_batches()


def _unfit(why: str) -> BadOption:
    return BadOption(
        f"the filters do not fit a topic: {why}; write a list such as [('offset', '>=', 10)], or "
        f"an expression of pyarrow.compute, of the columns {', '.join(TYPES)}"
    )


@contextmanager
def _failing() -> Iterator[None]:
    """Say of a filter that fails on rows that it does, without the value that Arrow names."""
    try:
        yield
    except pa.ArrowException as error:
        raise _unfit(f"they fail on values of it by {type(error).__name__}") from None


def _conditions(filters: Any) -> list[Condition]:
    """Return the conditions of a single list; an empty list for other filters."""
    if isinstance(filters, pc.Expression) or not filters:
        return []
    if not isinstance(filters[0][0], str):
        if len(filters) > 1:
            return []
        (filters,) = filters
    return [
        Condition(
            column,
            "=" if operator == "==" else operator,
            list(value) if operator in {"in", "not in"} else value,
        )
        for column, operator, value in filters
    ]


def _content(split: Split) -> pc.Expression:
    offset = pc.field("offset")
    place = (pc.field("topic") == split.topic) & (pc.field("partition") == split.partition)
    return place & (offset >= split.start_offset) & (offset < split.end_offset)
