"""The counts of a scan so far."""

from dataclasses import dataclass


@dataclass(slots=True)
class Scanned:
    """Counts of one scan, or of several that were handed the same object."""

    bytes_read: int = 0
    records: int = 0
    """Rows that came out."""
    corrupt: int = 0
    """Faults that were skipped."""
