"""The records of a transition of a consumer group: applied as they are made, undone on failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.protocol.coordinator.consumer_group_records import (
    ConsumerGroupKey,
    RecordType,
    encode_key,
    encode_value,
)

if TYPE_CHECKING:
    from siltstone.broker.groups.consumer.group import ConsumerGroup
    from siltstone.protocol.coordinator.consumer_group_records import Value
    from siltstone.protocol.records.journal import Row


class Changes:
    """The records of one transition, applied to the group as they are put.

    They go to the journal before anybody else sees the group. If it refuses them, `undo` restores
    the group.
    """

    __slots__ = ("_before", "group", "records")

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[tuple[ConsumerGroupKey, Value | None]] = []
        self._before: list[tuple[ConsumerGroupKey, Value | None]] = []

    def put(self, kind: RecordType, name: str, value: Value | None) -> None:
        """Put a record of a member or an expression; None deletes it."""
        key = ConsumerGroupKey(kind, self.group.group_id, name)
        self._before.append((key, self.group.value_of(key)))
        self.records.append((key, value))
        self.group.apply(key, value)

    def put_group(self, kind: RecordType, value: Value | None) -> None:
        """Put a record of the group itself; None deletes it."""
        self.put(kind, "", value)

    def undo(self) -> None:
        """Restore the group as it was before the first `put`."""
        for key, value in reversed(self._before):
            self.group.apply(key, value)
        self.group.topics_seen = -1

    def encode(self) -> list[Row]:
        """Return the records as the log takes them."""
        return [
            (encode_key(key), None if value is None else encode_value(key.type, value))
            for key, value in self.records
        ]


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
    return [(encode_key(ConsumerGroupKey(kind, group.group_id, name)), None) for kind, name in keys]
