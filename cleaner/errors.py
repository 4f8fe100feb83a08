"""What ends a pass before its time."""

from pathlib import Path


class CleaningAborted(Exception):  # noqa: N818  # nothing went wrong: somebody else comes first
    """The pass has to end now and to leave the log as it is (``LogCleaningAbortedException``).

    Raised by ``still_wanted``, which a pass calls before every chunk; the pass removes its
    unfinished files and lets it through.
    """


class CorruptSegment(Exception):  # noqa: N818  # what is wrong, not that something is
    """A segment holds what is no batch, or a batch that cannot be read. It ends its pass alone."""

    def __init__(self, path: Path, position: int, offset: int, reason: str) -> None:
        super().__init__(
            f"{path} position {position}, offset {offset}: {reason}; the log serves on uncleaned: "
            "look at it with siltstone dump-log"
        )
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason
