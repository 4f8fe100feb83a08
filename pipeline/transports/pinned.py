"""A running broker's own files: the broker pins them, and takes no further part in the read."""

from pathlib import Path

from siltstone.pipeline.client.pins import find_control, release_pin, take_pin, topics
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.manifest import NO_PIN, Manifest
from siltstone.pipeline.transports.source import Source, select
from siltstone.storage.topic_partition import TopicPartition


class PinnedSource(Source):
    """Takes a pin with each `view`; `close` releases the last one, or its lease ends it."""

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
        self._pin = NO_PIN

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
        self._pin = view.pin
        return view

    def close(self) -> None:
        """Release the pin of the last view. Idempotent."""
        if self._pin != NO_PIN:
            release_pin(self._control, self._pin)
            self._pin = NO_PIN
