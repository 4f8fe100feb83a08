"""A response as bytes and ranges of files, so that fetched records need not pass through Python.

The sender writes the bytes and gives the ranges to sendfile, in order.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""The buffers that messages are read from."""


class HasFileno(Protocol):
    """An open file with a descriptor for sending."""

    def fileno(self) -> int:
        """Return the descriptor; it stays valid as long as the object lives."""


@dataclass(slots=True, eq=False)  # not frozen: creating a frozen one costs three times as much
class FileSlice:
    """``size`` bytes of ``file`` from ``position`` on.

    The slice keeps the file object alive, and so its descriptor open, until it has been sent;
    renaming or unlinking the file meanwhile is harmless.
    """

    file: HasFileno
    position: int
    size: int

    def __len__(self) -> int:
        return self.size


Parts: TypeAlias = list[bytes | FileSlice]
"""A whole response frame with its size prefix, in the order it goes out."""

Answer: TypeAlias = bytes | Parts | None
"""The answer of a request; None where the client wants none."""
LateAnswer: TypeAlias = Coroutine[Any, Any, Answer]
"""An answer that has to wait for something."""
