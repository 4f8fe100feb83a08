"""Faults that a history may prove against a broker."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeAlias


class Kind(Enum):
    """The kinds of fault."""

    LOST = "what was acknowledged or read before is gone"
    DOUBLED = "a record stands twice"
    ALTERED = "a record holds something else than was sent"
    INVENTED = "nobody sent this"
    MISPLACED = "a record is in another partition than it was sent to"
    SWAPPED = "a record is at another offset than was acknowledged"
    REORDERED = "records of one producer, or the offsets of one reader, do not grow"
    HOLE = "an offset has neither a record nor a marker"
    REUSED = "an offset was given to two records"
    ABORTED_READ = "a record of an open or aborted transaction shows under read_committed"
    TORN = "a part of a transaction shows and a part does not"
    CHANGE_LOST = "an acknowledged change, a commit say, is gone"
    CHANGE_UNDONE = "a change that was seen has gone back"
    CHANGE_REVIVED = "a change that had not happened by then happened later"
    CHANGE_INVENTED = "nobody asked for this value"
    UNPROVEN = "the history ends before the broker has shown everything"


class Fault(NamedTuple):
    """One fault and the facts that prove it."""

    kind: Kind
    facts: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower()}: {self.facts} ({self.kind.value})"


Report: TypeAlias = Callable[[Kind, str], None]
