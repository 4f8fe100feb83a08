"""Keeps a reader's pin alive: renews it during the read, and checks the time.

While a split is read its pin is renewed every few seconds. In a plain query no task knows whether
it is the last, so none releases the pin: its lease ends it.
"""

import threading
from contextlib import suppress
from pathlib import Path
from socket import gethostname
from typing import Final, Self

from siltstone.pipeline.client.keeper import HOURS, PINS
from siltstone.pipeline.client.pins import Control, extend_pin, find_control, join
from siltstone.pipeline.errors import PipelineError, SnapshotExpired, SourceUnavailable
from siltstone.pipeline.planning.split import Lease, Split
from siltstone.storage.clock import Clock

BEAT_SECONDS: Final = 1.5
"""Several of these fit into the lease that a reader leaves."""


class Watch:
    """The lease and the deadline of one split, for as long as the ``with`` block lasts."""

    def __init__(self, split: Split, clock: Clock | None = None) -> None:
        self._split = split
        self._clock = clock or Clock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Renew the pin, now and from time to time.

        Raises:
            SnapshotExpired: the pin is gone.
        """
        lease = self._split.lease
        if lease is not None:
            control = find_control(Path(lease.data), lease.control)
            try:
                extend_pin(control, lease.pin, lease.lease_ms)
            except SourceUnavailable:
                pass  # the files may still exist
            except SnapshotExpired as error:
                raise self._expired(error) from error
            self._thread = threading.Thread(
                target=self._renew,
                args=(control, lease),
                name="pin heartbeat",
                daemon=True,
            )
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            join(self._thread)

    def look(self) -> None:
        """Check that the records read now still belong to the planned moment.

        Raises:
            SnapshotExpired: the read took longer than tombstones stay.
        """
        deadline = self._split.rules.deadline_ms
        if deadline and self._clock.now_ms() > deadline:
            raise SnapshotExpired(
                f"reading {self._split.topic_partition}, which is compacted, without a pin takes "
                "longer than half of its delete.retention.ms: a deleted key could come back; read "
                "with transport=pinned, with more tasks, or raise delete.retention.ms"
            )

    def look_at_end(self, end: int) -> None:
        """Check that the log has not grown, if the records that it gives depend on that.

        Raises:
            SnapshotExpired: it has.
        """
        last_end = self._split.rules.last_end
        if last_end and end > last_end:
            raise SnapshotExpired(
                f"{gethostname()} does not see the pinned files of "
                f"{self._split.topic_partition}, which is compacted and has grown since it was "
                "pinned, so that keys with newer values may be missing over the network; let all "
                "executors see the broker's folder by the same path, or read with transport=fetch "
                "if such keys may be missing"
            )

    def _expired(self, error: SnapshotExpired) -> SnapshotExpired:
        return SnapshotExpired(
            f"the moment at which {self._split.topic_partition} was planned is over: {error}. "
            "Spark plans a DataFrame once, so load it again; its driver keeps the last "
            f"{PINS} such moments for {HOURS} hours"
        )

    def _renew(self, control: Control, lease: Lease) -> None:
        """Renew the pin until the end. If it is gone, opening its files will fail."""
        while not self._ended.wait(BEAT_SECONDS):
            with suppress(PipelineError):
                extend_pin(control, lease.pin, lease.lease_ms)
