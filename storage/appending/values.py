"""Where an append comes from."""

from enum import Enum


class Origin(Enum):
    """The origin of an append: it decides which rules a batch has to obey."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """Markers and committed offsets: epochs count, sequences do not."""
    REPLICATION = "replication"
    """Batches that are in the log already: every rule was checked when they were written."""
