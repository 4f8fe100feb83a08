"""The batches of a producer in a partition (Kafka: ``ProducerStateEntry``, ``BatchMetadata``)."""

from typing import Final, NamedTuple

SEQUENCES: Final = 1 << 31
"""Sequences run from 0 to 2147483647 and begin at 0 again."""
KEPT_BATCHES: Final = 5
"""How many batches a client may have in flight, and so may send again."""


class AppendedBatch(NamedTuple):
    """One batch that is in the log; offsets and sequences are inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int
