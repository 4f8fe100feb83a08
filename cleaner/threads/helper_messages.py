"""The messages between a cleaner thread and its helper process: a length, then a pickle.

thread                                helper
  Order ───────────────────────────────>
        <──── Reading(bytes), Replace ──     Reading is answered by nobody, Replace by Done
  Done ────────────────────────────────>     or Failed; anything else means: stop
        <───────────── Answer or Failed ─
"""

import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from siltstone.cleaner.errors import CleaningAborted, CorruptSegment, UnopenedBatch
from siltstone.cleaner.one_pass.log_to_clean import LastOfProducer, LogToClean
from siltstone.cleaner.one_pass.stats import PassResult, Prediction, Progress
from siltstone.cleaner.settings import CleanerSettings
from siltstone.config.topic import TopicConfig
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.transaction_index import AbortedTransaction
from siltstone.storage.topic_partition import TopicPartition

_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A pass to be made, or to be predicted: a `LogToClean` with its segments by base and size."""

    is_dry_run: bool
    settings: CleanerSettings
    now_ms: int
    topic_partition: TopicPartition
    path: Path
    config: TopicConfig
    segments: tuple[tuple[int, int], ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    aborted: tuple[AbortedTransaction, ...]
    producers: tuple[LastOfProducer, ...]

    @classmethod
    def of(
        cls, log: LogToClean, settings: CleanerSettings, now_ms: int, *, is_dry_run: bool
    ) -> "Order":
        """Return the order for a pass over a log."""
        return cls(
            is_dry_run=is_dry_run,
            settings=settings,
            now_ms=now_ms,
            topic_partition=log.topic_partition,
            path=log.path,
            config=log.config,
            segments=tuple((each.base_offset, each.size) for each in log.segments),
            first_dirty_offset=log.first_dirty_offset,
            first_uncleanable_offset=log.first_uncleanable_offset,
            aborted=log.aborted,
            producers=log.producers,
        )

    def log(self) -> LogToClean:
        """Return the input of the pass; the helper opens the files itself."""
        return LogToClean(
            topic_partition=self.topic_partition,
            path=self.path,
            config=self.config,
            segments=tuple(
                ReadableSegment(self.path, base_offset, size=size)
                for base_offset, size in self.segments
            ),
            first_dirty_offset=self.first_dirty_offset,
            first_uncleanable_offset=self.first_uncleanable_offset,
            aborted=self.aborted,
            producers=self.producers,
        )


class Reading(NamedTuple):
    """The pass goes on; this many bytes were read or written since the last message."""

    size: int
    progress: Progress | None


class Replace(NamedTuple):
    """Segments of these bases are ready as ``.cleaned`` to take the place of the old ones."""

    new: tuple[int, ...]
    old: tuple[int, ...]


class Done(NamedTuple):
    """The segments were replaced."""


class Answer(NamedTuple):
    """The pass, or the dry run, has ended."""

    result: PassResult | Prediction


class Failed(NamedTuple):
    """An exception; ``facts`` are its arguments, to make it again."""

    kind: str
    facts: tuple[Any, ...]

    @classmethod
    def of(cls, error: Exception) -> "Failed":
        """Return the message of an exception."""
        if isinstance(error, CorruptSegment):
            kind = "unopened" if isinstance(error, UnopenedBatch) else "corrupt"
            return cls(kind, (error.path, error.position, error.offset, error.reason))
        if isinstance(error, CleaningAborted):
            return cls("aborted", (str(error),))
        if isinstance(error, OSError):
            return cls("os", (error.errno, error.strerror or str(error), error.filename))
        return cls("other", (f"{type(error).__name__}: {error}",))

    def error(self) -> Exception:
        """Make the exception again."""
        return _ERRORS[self.kind](*self.facts)


_ERRORS: dict[str, Callable[..., Exception]] = {
    "corrupt": CorruptSegment,
    "unopened": UnopenedBatch,
    "aborted": CleaningAborted,
    "os": OSError,
    "other": RuntimeError,
}


def send(stream: IO[bytes], message: object) -> None:
    """Send a message. Blocks."""
    data = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Return the next message. Blocks.

    Raises:
        EOFError: The other side has ended.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError("the other process has ended")
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the other process has ended")
    return pickle.loads(data)  # noqa: S301  # from our own process
