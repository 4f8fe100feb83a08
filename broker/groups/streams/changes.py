"""The records of a transition of a streams group: applied when they are put, undone on failure."""

from siltstone.broker.groups.deadlines import Deadline, Deadlines
from siltstone.broker.groups.streams.group import Offsets, StreamsGroup
from siltstone.protocol.coordinator.streams_group_records import (
    RecordType,
    StreamsGroupKey,
    Value,
    encode_key,
    encode_value,
)
from siltstone.protocol.records.journal import Row


class Changes:
    """The records of one transition, applied to the group as they are put.

    The records go to the journal before any client sees the change. If the journal refuses them,
    `undo` restores the group. When the outcome is certain, `settle` changes what is outside of the
    group. ``user`` is the user that has sent the request, if a request began the transition;
    ``delay_ms`` is how long the first assignment of a group has to wait, if it begins to.
    """

    __slots__ = (
        "_before",
        "_configured",
        "_deadlines",
        "_offsets",
        "delay_ms",
        "group",
        "records",
        "user",
    )

    def __init__(self, group: StreamsGroup, user: str = "") -> None:
        self.group = group
        self.user = user
        self.delay_ms = 0
        self._configured = group.configured
        self._offsets: list[tuple[str, tuple[Offsets, Offsets]]] = []
        self.records: list[tuple[StreamsGroupKey, Value | None]] = []
        self._before: list[tuple[StreamsGroupKey, Value | None, str]] = []
        self._deadlines: list[tuple[str, Deadline, int | None]] = []

    def put(self, kind: RecordType, name: str, value: Value | None) -> None:
        """Put a record of a member, or of the group; the value None deletes it."""
        key = StreamsGroupKey(kind, self.group.group_id, name)
        member = self.group.members.get(name)
        user = "" if member is None else member.user
        self._before.append((key, self.group.value_of(key), user))
        self.records.append((key, value))
        self.group.apply(key, value, self.user)

    @property
    def has_offsets(self) -> bool:
        """Whether a member has reported offsets, which no record has."""
        return bool(self._offsets)

    def set_offsets(self, member_id: str, offsets: tuple[Offsets, Offsets]) -> None:
        """Keep the offsets that a member reported."""
        self._offsets.append((member_id, self.group.offsets.get(member_id, ({}, {}))))
        self.group.set_offsets(member_id, offsets)

    def start(self, member_id: str, deadline: Deadline, after_ms: int) -> None:
        """Set a member's deadline once all is written; a session's deadline in any case."""
        self._deadlines.append((member_id, deadline, after_ms))

    def cancel(self, member_id: str, deadline: Deadline) -> None:
        """Cancel a member's deadline once the records are written."""
        self._deadlines.append((member_id, deadline, None))

    def undo(self) -> None:
        """Restore the group as it was before the first `put`.

        An existing member is alive even if its request was refused, so its session begins again.
        """
        for member_id, offsets in self._offsets:
            self.group.set_offsets(member_id, offsets)
        for key, value, user in reversed(self._before):
            self.group.apply(key, value, user)
        self.group.topics_seen = -1
        self.group.configured = self._configured
        if self.delay_ms:
            self.group.is_delayed = False
            self.delay_ms = 0
        self._deadlines = [
            each
            for each in self._deadlines
            if each[1] is Deadline.SESSION and each[0] in self.group.members
        ]

    def settle(self, deadlines: Deadlines) -> None:
        """Start and cancel deadlines, when all is written or undone."""
        for member_id, deadline, after_ms in self._deadlines:
            if after_ms is None:
                deadlines.cancel(member_id, deadline)
            else:
                deadlines.start(member_id, deadline, after_ms)

    def encode(self) -> list[Row]:
        """Return the records as keys and values for the log."""
        return [
            (encode_key(key), None if value is None else encode_value(key.type, value))
            for key, value in self.records
        ]


def tombstones(group: StreamsGroup) -> list[Row]:
    """Return the records that delete a group."""
    ids = list(group.members)
    keys = [
        *((RecordType.CURRENT_ASSIGNMENT, each) for each in ids),
        *((RecordType.TARGET_MEMBER, each) for each in ids),
        (RecordType.TARGET_METADATA, ""),
        *((RecordType.MEMBER_METADATA, each) for each in ids),
        (RecordType.METADATA, ""),
        (RecordType.TOPOLOGY, ""),
    ]
    return [(encode_key(StreamsGroupKey(kind, group.group_id, name)), None) for kind, name in keys]
