"""What a classic group is at any moment, and what follows from it (Kafka: ``ClassicGroup``).

The transitions are in `broker.groups.classic.group`; here are the questions: who may commit, which
offsets are of use, what the journal says of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.broker.groups._member_kernels import LivingGroup
from siltstone.broker.groups.classic.members import Members
from siltstone.broker.groups.classic.state_names import GroupState
from siltstone.protocol.coordinator.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from siltstone.protocol.coordinator.group_errors import (
    GroupIdNotFound,
    NonEmptyGroup,
)
from siltstone.protocol.coordinator.group_records import group_key, put_group
from siltstone.protocol.errors import ProtocolError, UnknownServerError
from siltstone.protocol.messages.consumer_offsets import GroupMetadataValue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from siltstone.broker.groups._member_kernels import Timer, Timers
    from siltstone.broker.groups.classic.messages import JoinRequest
    from siltstone.config.server import ServerConfig
    from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
    from siltstone.protocol.records.journal import Row
    from siltstone.storage.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicServices:
    """What all classic groups share; ``write`` appends rows to a partition of the journal."""

    clock: Clock
    timers: Timers
    settings: Callable[[], ServerConfig]
    write: Callable[[int, Sequence[Row]], object]


class ClassicState(LivingGroup):
    """The attributes of one group, for its transitions to set, and questions to them (loop only).

    ``pending`` are the ids that were given out and have not joined yet. The protocol type is empty
    in a group that only committed offsets.
    """

    __slots__ = (
        "_services",
        "_subscribed_topics",
        "group_id",
        "partition",
        "pending",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state_timestamp",
    )

    type = "classic"
    members: Members

    def __init__(self, group_id: str, partition: int, services: ClassicServices) -> None:
        super().__init__(Members())
        self.group_id = group_id
        self.partition = partition
        self.previous_state = GroupState.EMPTY
        self.state_timestamp = services.clock.now_ms()
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.pending: dict[str, Timer] = {}
        self._services = services
        self._subscribed_topics: frozenset[str] | None = frozenset()  # None: not known

    @property
    def is_empty(self) -> bool:
        """Whether no member is left and the group may be deleted."""
        return self.state is GroupState.EMPTY

    @property
    def is_of_consumers(self) -> bool:
        """Whether the members speak the protocol of consumers."""
        return self.protocol_type == PROTOCOL_TYPE

    # Committed offsets

    def has_room(self, member_id: str) -> bool:
        """Tell whether a member may come in, or back, as far as group.max.size goes."""
        most = self._services.settings().group_max_size
        member = self.members.by_id.get(member_id)
        match self.state:
            case GroupState.PREPARING:
                # Not the members: some may not come back, and those over the limit are not let in.
                is_parked = member is not None and member.join_reply is not None
                return is_parked or self.members.joining_count < most
            case GroupState.COMPLETING | GroupState.STABLE:
                return member is not None or len(self.members) < most
        return True

    def supports(self, request: JoinRequest) -> bool:
        """Tell whether a member has a protocol in common with the others."""
        if self.state is GroupState.EMPTY:
            return bool(request.protocol_type and request.protocols)
        return request.protocol_type == self.protocol_type and self.members.support(
            request.protocols
        )

    def find_partition_check(self, member_id: str, generation: int) -> None:
        """Ask nothing more: a member of the generation may commit any partition."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow everybody to ask what is committed: epochs are for consumer groups.

        Raises:
            GroupIdNotFound: The group was deleted.
        """
        del member_id, member_epoch
        if self.state is GroupState.DEAD:
            raise GroupIdNotFound

    def check_offset_delete(self) -> None:
        """Allow offsets to be deleted where it can be told which topics are in use.

        Raises:
            NonEmptyGroup: The members are no consumers.
            GroupIdNotFound: The group was deleted.
        """
        if self.state is GroupState.DEAD:
            raise GroupIdNotFound(f"group {self.group_id} was not found")
        if self.state is not GroupState.EMPTY and not self.is_of_consumers:
            raise NonEmptyGroup

    def check_delete(self) -> None:
        """Allow an empty group to be deleted.

        Raises:
            NonEmptyGroup: It has members.
            GroupIdNotFound: It was deleted already.
        """
        if self.state is GroupState.DEAD:
            raise GroupIdNotFound(f"group {self.group_id} was not found")
        if self.state is not GroupState.EMPTY:
            raise NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether members of this generation read a topic, or may."""
        if self._subscribed_topics is None:
            return self.is_of_consumers
        return topic in self._subscribed_topics

    def expiry_base(self, topic: str, committed: OffsetCommitValue) -> int | None:
        """Return since when an offset is of no use, ms; None: it is in use."""
        if not self.protocol_type:
            return committed.commit_timestamp
        if self.state is GroupState.EMPTY:
            return committed.commit_timestamp if self.state_timestamp < 0 else self.state_timestamp
        is_known = self.state is GroupState.STABLE and self.is_of_consumers
        if is_known and self._subscribed_topics is not None and not self.is_subscribed_to(topic):
            return committed.commit_timestamp
        return None

    # The journal

    def tombstones(self) -> list[Row]:
        """Return what has to be written for the group to be gone."""
        return [(group_key(self.group_id), None)]

    def write_new(self) -> None:
        """Write that the group exists.

        Raises:
            KafkaError: The journal did not take it, ready to be answered.
        """
        self._write(self._metadata({}))

    def record(self) -> Row:
        """Return what has to be written for the group to be as it is."""
        return group_key(self.group_id), put_group(self._metadata(self.assignments))

    @property
    def assignments(self) -> dict[str, bytes]:
        """What every member was assigned."""
        return {member.member_id: member.assignment for member in self.members}

    def _metadata(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.members.leader,
            current_state_timestamp=self.state_timestamp,
            members=tuple(
                member.describe(self.protocol_name, assignments[member.member_id])
                for member in self.members
            ),
        )

    def _write(self, metadata: GroupMetadataValue) -> None:
        try:
            row = group_key(self.group_id), put_group(metadata)
        except OverflowError as error:
            raise UnknownServerError("a name in the group is too long for its record") from error
        self._services.write(self.partition, [row])

    def _transition(self, state: GroupState) -> None:
        self.previous_state, self.state = self.state, state
        self.state_timestamp = self._services.clock.now_ms()

    def _read_subscriptions(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to; None: what they say can not be read."""
        if not self.members:
            return frozenset()
        if not self.is_of_consumers or self.protocol_name is None:
            return None
        try:
            said = {member.metadata_of(self.protocol_name) for member in self.members}
            return frozenset(
                topic for metadata in said for topic in decode_subscription(metadata).topics
            )
        except ProtocolError:
            return None
