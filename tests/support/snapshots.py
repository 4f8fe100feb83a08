"""Writes a snapshot of producers at once."""

from siltstone.storage.producers.state import ProducerStateManager


def take_snapshot(producers: ProducerStateManager, offset: int | None = None) -> None:
    """Write a snapshot, unless there is one."""
    snapshot = producers.capture(offset)
    if snapshot is not None:
        producers.write_snapshot(snapshot)
