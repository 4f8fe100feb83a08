"""Reading a split: its records as Arrow record batches, in any process that has pyarrow.

Rows come in the order of offsets. Gaps are normal. Control batches give no rows, and with
read_committed neither do aborted transactions.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from siltstone.pipeline.columns import STANDARD
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.file_scan import FileScan
from siltstone.pipeline.reading.scanned import Scanned


def scan(
    split: Split, columns: tuple[str, ...] = STANDARD, *, scanned: Scanned | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split; ``scanned`` counts them.

    If the pinned folder is not visible, the broker is asked, if its address is known.

    Raises:
        PipelineError: they cannot be read, or not as of the planned moment.
    """
    counts = scanned or Scanned()
    if split.lease is not None and split.bootstrap and not Path(split.lease.data).is_dir():
        split = split.over_network()
    if split.folder:
        yield from FileScan(split, columns, counts).record_batches()
        return
    from siltstone.pipeline.reading.fetch_scan import FetchScan  # noqa: PLC0415 - brings the wire protocol

    yield from FetchScan(split, columns, counts).record_batches()
