"""The columns of the table that senders and the loop share: one row for each socket, int64.

A row is the loop's until its socket is watched, and again from the moment it is reported; between
these it is the sender's. Rows are a cache line wide, so that nobody waits for a neighbour's.
"""

from typing import Final

FILE: Final = 0
"""The descriptor to read from."""
POSITION: Final = 1
"""Where the rest of the range begins in it."""
LEFT: Final = 2
"""How many bytes of the range have not left."""
TAIL: Final = 3
"""What follows the range: the last bytes of this number as it lies in memory."""
TAIL_SIZE: Final = 4
"""How many bytes these are, at most ``TAIL_BYTES``."""
ERROR: Final = 5
"""Why sending ended, an error number; 0: everything has left."""
WIDTH: Final = 8
"""Columns in a row."""

TAIL_BYTES: Final = 8
"""What a column holds; the end of a fetch's answer is three bytes."""
