"""The classic group "g" of a test's services, and states in which it refuses a request."""

from collections.abc import Callable

from siltstone.broker.groups.classic.group import ClassicGroup
from siltstone.broker.groups.group import GroupState
from siltstone.protocol.messages.consumer_offsets import GroupMetadataValue, MemberMetadata
from tests.support.services import ServicesOnDisk

SESSION_MS = 10_000


def add_stable_group(home: ServicesOnDisk) -> None:
    """Add the group, of generation 3: its only member is "m", whose instance id is "i"."""
    group = home.services.groups().add_classic("g")
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=20_000,
        session_timeout=SESSION_MS,
        subscription=b"",
        assignment=b"",
    )
    group.restore(
        GroupMetadataValue(
            protocol_type="consumer",
            generation=3,
            protocol="range",
            leader="m",
            current_state_timestamp=0,
            members=(member,),
        )
    )
    group.resume()


def group_of(home: ServicesOnDisk) -> ClassicGroup:
    """Return the group."""
    group = home.services.groups().find("g")
    assert isinstance(group, ClassicGroup)
    return group


def in_state(state: GroupState) -> Callable[[ServicesOnDisk], None]:
    """Return a function that puts the group into a state."""

    def prepare(home: ServicesOnDisk) -> None:
        group_of(home).state = state

    return prepare


def loading(home: ServicesOnDisk) -> None:
    """Mark its partition of the journal as not read yet."""
    home.services.groups().journal._loading.add(0)


def as_it_is(_: ServicesOnDisk) -> None:
    """Leave everything as it is."""
