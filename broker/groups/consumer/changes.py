"""The records of a transition of a consumer group: applied when they are put, undone on failure."""

from siltstone.broker.groups.consumer.deadlines import Deadline, Deadlines
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.regexes import Regexes
from siltstone.protocol.coordinator.consumer_group_records import (
    ConsumerGroupKey,
    RecordType,
    Value,
    encode_key,
    encode_value,
)
from siltstone.protocol.records.journal import Row


class Changes:
    """The records of one transition, applied to the group as they are put.

    The records go to the journal before any client sees the change. If the journal refuses them,
    `undo` restores the group. When the outcome is certain, `settle` changes what is outside of the
    group. ``user`` is the user that has sent the request, if a request began the transition.
    """

    __slots__ = ("_before", "_deadlines", "_regexes", "group", "records", "user")

    def __init__(self, group: ConsumerGroup, user: str = "") -> None:
        self.group = group
        self.user = user
        self.records: list[tuple[ConsumerGroupKey, Value | None]] = []
        self._before: list[tuple[ConsumerGroupKey, Value | None, str]] = []
        self._deadlines: list[tuple[str, Deadline, int | None]] = []
        self._regexes: set[str] = set()

    def put(self, kind: RecordType, name: str, value: Value | None) -> None:
        """Put a record of a member or an expression; the value None deletes it."""
        key = ConsumerGroupKey(kind, self.group.group_id, name)
        member = self.group.members.get(name)
        user = "" if member is None else member.user
        self._before.append((key, self.group.value_of(key), user))
        self.records.append((key, value))
        self.group.apply(key, value, self.user)

    def put_group(self, kind: RecordType, value: Value | None) -> None:
        """Put a record of the group itself; the value None deletes it."""
        self.put(kind, "", value)

    def start(self, member_id: str, deadline: Deadline, after_ms: int) -> None:
        """Set a member's deadline once all is written; a session's deadline in any case."""
        self._deadlines.append((member_id, deadline, after_ms))

    def cancel(self, member_id: str, *kinds: Deadline) -> None:
        """Cancel a member's deadlines of these kinds once the records are written."""
        self._deadlines += [(member_id, kind, None) for kind in kinds]

    def note(self, regex: str) -> None:
        """Note that members begin or cease to subscribe to an expression."""
        self._regexes.add(regex)

    def undo(self) -> None:
        """Restore the group as it was before the first `put`.

        An existing member is alive even if its request was refused, so its session begins again.
        """
        for key, value, user in reversed(self._before):
            self.group.apply(key, value, user)
        self.group.topics_seen = -1
        self._deadlines = [
            each
            for each in self._deadlines
            if each[1] is Deadline.SESSION and each[0] in self.group.members
        ]

    def settle(self, deadlines: Deadlines | None, regexes: Regexes) -> None:
        """Start and cancel deadlines, and forget expressions that the group does not have.

        Call this at the end, when all is written or undone. A new group that was refused has no
        deadlines.
        """
        if deadlines is not None:
            for member_id, deadline, after_ms in self._deadlines:
                if after_ms is None:
                    deadlines.cancel(member_id, deadline)
                else:
                    deadlines.start(member_id, deadline, after_ms)
        for regex in self._regexes:
            regexes.settle(regex, self.group)

    def encode(self) -> list[Row]:
        """Return the records as keys and values for the log."""
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
