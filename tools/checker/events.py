"""The record of a run: each attempt, what the broker said, what it showed.

A history is a list of these values in the order in which they happened. A client records an
attempt first, and the answer when it has it: an attempt without one may have happened or not.
"""

from typing import NamedTuple, TypeAlias


class Partition(NamedTuple):
    """A partition of one life of a topic; a topic made again under the same name has another."""

    topic: str
    number: int
    life: int = 0

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}" + (f" of life {self.life}" if self.life else "")


class RecordId(NamedTuple):
    """A record's name: its producer and its number there.

    Numbers grow in the order of sending. A producer sends no record twice, or is idempotent.
    """

    producer: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.producer}:{self.sequence}"


class Position(NamedTuple):
    """A place in a log."""

    partition: Partition
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}"


class Attempt(NamedTuple):
    """A record is handed to a producer; ``content`` is a digest of its key and value.

    ``source`` is the record that it copies.
    """

    record: RecordId
    partition: Partition
    content: int
    transaction: str | None = None
    source: Position | None = None


class Acknowledged(NamedTuple):
    """The broker says that it holds a record at an offset."""

    record: RecordId
    offset: int


class Bounds(NamedTuple):
    """The broker says where a log begins and ends. Nothing in a history deletes records."""

    partition: Partition
    start: int
    end: int


class Doomed(NamedTuple):
    """Somebody asks to delete a topic: the log need not be shown any more."""

    partition: Partition


class Seek(NamedTuple):
    """A reader goes to an offset; ``committed``: it reads under read_committed from there."""

    reader: str
    partition: Partition
    offset: int
    committed: bool = False


class Read(NamedTuple):
    """A reader gets a record: the name that it bears, and what it holds."""

    reader: str
    partition: Partition
    offset: int
    record: RecordId
    content: int


class Reached(NamedTuple):
    """A reader has been given all that there is before an offset."""

    reader: str
    partition: Partition
    offset: int


class Marker(NamedTuple):
    """A control record lies at an offset, where readers see nothing."""

    partition: Partition
    offset: int


class AskCommit(NamedTuple):
    """A producer asks to commit a transaction. One that is never asked for must not show."""

    transaction: str


class Committed(NamedTuple):
    """The broker says that a transaction is committed."""

    transaction: str


class Aborted(NamedTuple):
    """The broker says that a transaction is aborted."""

    transaction: str


class CommittedOffset(NamedTuple):
    """A thing that changes: the offset that a group has committed for a partition."""

    group: str
    partition: Partition

    def __str__(self) -> str:
        return f"offset of {self.group} in {self.partition}"


class Shape(NamedTuple):
    """A thing that changes: a topic's partitions and settings; None while there is no such topic.

    Whether the values are numbers or text is the recorder's affair.
    """

    topic: str

    def __str__(self) -> str:
        return f"shape of {self.topic}"


Thing: TypeAlias = CommittedOffset | Shape
Value: TypeAlias = int | str | None


class Change(NamedTuple):
    """Somebody asks for a new value of a thing, at once or with the commit of a transaction."""

    thing: Thing
    value: Value
    transaction: str | None = None


class Changed(NamedTuple):
    """The broker says that the last change of a thing to this value is made."""

    thing: Thing
    value: Value


class Shown(NamedTuple):
    """The broker shows the value of a thing.

    ``settled``: no request from before is on its way any more, so what has not happened will not.
    """

    thing: Thing
    value: Value
    settled: bool = False


Event: TypeAlias = (
    Attempt
    | Acknowledged
    | Bounds
    | Doomed
    | Seek
    | Read
    | Reached
    | Marker
    | AskCommit
    | Committed
    | Aborted
    | Change
    | Changed
    | Shown
)
