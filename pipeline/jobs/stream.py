"""``stream``: a table that follows its topic, by one increment after the other.

The table's own commit names the offsets that are in it. So nothing else is kept: a stream that was
killed goes on from the table, and so does any other job.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from siltstone.pipeline.command.progress import seconds_text
from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.jobs.reading import committed
from siltstone.pipeline.jobs.snapshot import EVERY_RECORD, SnapshotSpec, write
from siltstone.pipeline.sinks.table import open_table

MAX_BYTES: Final = "256m"
"""The log that an increment reads, unless an option says otherwise."""
_LIMITS: Final = {"maxoffsetspertrigger", "maxbytespertrigger"}


@dataclass(slots=True)
class StreamSummary:
    """The result of a stream until it ended."""

    commits: int = 0
    rows: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """Return it in words."""
        return (
            f"stream: {self.rows:,} records in {self.commits} commits, in "
            f"{seconds_text(self.seconds)}"
        )


def stream(
    engine: Engine,
    options: Mapping[str, str],
    spec: SnapshotSpec,
    *,
    once: bool = False,
    every_seconds: float = 10.0,
) -> StreamSummary:
    """Follow a topic: with ``once`` to its present end, else until the process is stopped.

    Raises:
        PipelineError: The table is another one, or cannot be written, or the topic not be read.
    """
    began = engine.clock.monotonic()
    spec = replace(spec, incremental=True, follows=True)
    _check_bounds(options, spec)
    read = committed({"subscribe": spec.topic, **_limited(options)})
    sink = open_table(spec.target)
    summary = StreamSummary()
    ends: dict[int, int] | None = None
    with sink.held():
        while True:
            found = write(engine, sink, read, spec)
            if found.version:
                summary.commits += 1
                summary.rows += found.rows_read
                sink.compact()
            ends = found.ends if ends is None else ends
            if once and found.has_reached(ends):
                break
            if found.has_reached(found.ends):
                time.sleep(every_seconds)
    summary.seconds = engine.clock.monotonic() - began
    return summary


def _limited(options: Mapping[str, str]) -> dict[str, str]:
    has_limit = any(name.lower() in _LIMITS for name in options)
    return dict(options) if has_limit else {**options, "maxBytesPerTrigger": MAX_BYTES}


def _check_bounds(options: Mapping[str, str], spec: SnapshotSpec) -> None:
    for name, value in options.items():
        if name.lower().startswith("ending"):
            raise BadOption(f"a stream has no end, so leave {name} out, or take --once")
        is_late = name.lower().startswith("starting") and value.strip().lower() != "earliest"
        if is_late and spec.key_scope != EVERY_RECORD:
            raise BadOption(
                f"{name} is for a stream with --append: a table of the last values has those of "
                "the whole topic; leave it out"
            )
