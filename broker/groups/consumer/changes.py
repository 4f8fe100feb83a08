"""The records of a transition of a consumer group."""

from typing import Any, ClassVar, Final

from siltstone.broker.groups import changes
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.regexes import Regexes
from siltstone.broker.groups.deadlines import Deadlines
from siltstone.protocol.coordinator.consumer_group_records import (
    ConsumerGroupKey,
    RecordType,
    encode_key,
    encode_value,
)
from siltstone.protocol.records.journal import Row

_SAID: Final = frozenset({RecordType.MEMBER_METADATA, RecordType.REGULAR_EXPRESSION})


class Changes(changes.Changes[ConsumerGroup]):
    """The records of one transition of a consumer group, and the expressions that it touches."""

    __slots__ = ("_regexes",)

    SAID: ClassVar = _SAID

    def __init__(self, group: ConsumerGroup, user: str = "") -> None:
        super().__init__(group, user)
        self._regexes: set[str] = set()

    def note(self, regex: str) -> None:
        """Note that members begin or cease to subscribe to an expression."""
        self._regexes.add(regex)

    def settle_all(self, deadlines: Deadlines | None, regexes: Regexes) -> None:
        """Do as `settle` does, and forget expressions that the group does not have."""
        self.settle(deadlines)
        for regex in self._regexes:
            regexes.settle(regex, self.group)

    @staticmethod
    def encode_row(key: ConsumerGroupKey, value: Any) -> Row:
        """Return a record as a key and a value for the log."""
        return encode_key(key), None if value is None else encode_value(key.type, value)


def tombstones(group: ConsumerGroup) -> list[Row]:
    """Return the records that delete a group."""
    ids = list(group.members)
    keys = [
        *((RecordType.CURRENT_ASSIGNMENT, each) for each in ids),
        *((RecordType.TARGET_MEMBER, each) for each in ids),
        (RecordType.TARGET_METADATA, ""),
        *((RecordType.MEMBER_METADATA, each) for each in ids),
        *((RecordType.REGULAR_EXPRESSION, each) for each in group.regexes),
        (RecordType.PARTITION_METADATA, ""),
        (RecordType.METADATA, ""),
    ]
    return Changes.tombstones(group, keys)
