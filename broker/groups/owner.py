"""The interface of the coordinator for expiry, replay and consumer groups."""

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from siltstone.broker.coordination.journal import CoordinatorLog
from siltstone.broker.groups.classic.group import ClassicGroup, ClassicServices
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.group import Group
from siltstone.broker.groups.member_bytes import MemberBytes
from siltstone.broker.groups.offsets import Offsets
from siltstone.broker.groups.timers import Timers
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.protocol.records.journal import Row
from siltstone.storage.clock import Clock


class Owner(Protocol):
    """The owner of all groups; `broker.groups.coordinator` has these methods and explains them."""

    classic_services: ClassicServices
    clock: Clock
    groups: dict[str, Group]
    journal: CoordinatorLog
    member_bytes: MemberBytes
    offsets: Offsets
    settings: BrokerSettings
    timers: Timers
    topics: TopicRegistry

    def check(self, group_id: str) -> None:
        """Refuse a request for a group whose state is not known."""

    def find(self, group_id: str) -> Group | None:
        """Return a group that exists."""

    def add(self, group: Group) -> None:
        """Keep a group and count its name."""

    def add_classic(self, group_id: str) -> ClassicGroup:
        """Add a new classic group."""

    def check_room(self, group_id: str) -> None:
        """Refuse a new group where there are too many."""

    def find_or_create_classic(self, group_id: str, member_id: str) -> Group:
        """Return the group that a member wants to join."""

    def write(self, group: Group | ConsumerGroup, rows: Sequence[Row]) -> None:
        """Write records of a group into the journal."""

    def delete(self, group: Group) -> None:
        """Delete a group that is empty."""

    def delete_offsets(self, group: Group, named: Sequence[tuple[str, int]]) -> int:
        """Delete offsets of a group, and return how many there were."""

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine as a task."""
