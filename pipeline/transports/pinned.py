"""A running broker's own files: the broker pins them, and takes no further part in the read."""

from pathlib import Path

from siltstone.pipeline.client.pins import Pin, find_control, take_pin, topics
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.manifest import Manifest
from siltstone.pipeline.transports.source import Source, select
from siltstone.storage.topic_partition import TopicPartition


class PinnedSource(Source):
    """Takes a pin with each `view`, and renews it until the next one, or `close`."""

    name = "pinned"

    def __init__(self, options: ReadOptions) -> None:
        """Find the broker's control channel.

        Raises:
            SourceUnavailable: the log directory names none.
        """
        if not options.data:
            raise BadOption("transport=pinned needs data: the broker's log directory")
        super().__init__(options)
        self._control = find_control(Path(options.data), options.control)
        self._pin: Pin | None = None

    def view(self) -> Manifest:
        """Return the partitions of the options, as of the moment of a new pin."""
        options = self.options
        names = list(options.subscribe)
        if options.subscribe_pattern:
            there = (TopicPartition(name, 0) for name in topics(self._control))
            names = [key.topic for key in select(options, there, "at the broker")]
            if not names:
                return Manifest(taken_at_ms=0)
        view = take_pin(
            self._control,
            names or None,
            options.assign or None,
            lease_ms=options.pin_lease_ms,
        )
        self.close()
        self._pin = Pin(self._control, view)
        return view

    def check(self) -> None:
        """Check that the pin of the last view has existed until now.

        Raises:
            SnapshotExpired: it ended before its time.
        """
        if self._pin is not None:
            self._pin.check()

    def leave(self) -> None:
        """Leave the pin of the last view to its readers."""
        if self._pin is not None:
            self._pin.leave()
            self._pin = None

    def close(self) -> None:
        """Release the pin of the last view. Idempotent."""
        if self._pin is not None:
            self._pin.close()
            self._pin = None
