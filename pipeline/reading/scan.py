"""Reading a split: its records as Arrow record batches, in any process that has pyarrow.

Rows come in the order of offsets. Gaps are normal. Control batches give no rows, and with
read_committed neither do aborted transactions.
"""

from collections.abc import Iterator
from pathlib import Path
from socket import gethostname

import pyarrow as pa

from siltstone.pipeline.client.pins import is_of
from siltstone.pipeline.columns import STANDARD
from siltstone.pipeline.errors import SourceUnavailable
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.file_scan import FileScan
from siltstone.pipeline.reading.scanned import Scanned


def scan(
    split: Split, columns: tuple[str, ...] = STANDARD, *, scanned: Scanned | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split; ``scanned`` counts them.

    A machine that does not see the folder of the pinned files asks the broker.

    Raises:
        PipelineError: they cannot be read, or not as of the planned moment.
    """
    counts = scanned or Scanned()
    lease = split.lease
    if lease is not None and not is_of(Path(lease.data), lease.cluster_id):
        if not split.bootstrap:
            raise SourceUnavailable(
                f"{gethostname()} does not see the broker's folder {lease.data}, or this user may "
                "not read it, so it cannot read what is pinned there; give "
                "kafka.bootstrap.servers, by which such machines read over the network"
            )
        split = split.over_network()
    if split.folder:
        yield from FileScan(split, columns, counts).record_batches()
        return
    from siltstone.pipeline.reading.fetch_scan import FetchScan  # noqa: PLC0415 - brings the wire protocol

    yield from FetchScan(split, columns, counts).record_batches()
