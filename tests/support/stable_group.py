"""The classic group "g" of a test's rooms, and what may be the matter when a request comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.groups.classic.group import ClassicGroup
from siltstone.protocol.messages.consumer_offsets import GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.groups.classic.state_names import GroupState
    from tests.support.rooms import RoomsOnDisk


SESSION_MS = 10_000


def add_stable_group(home: RoomsOnDisk) -> None:
    """Add the group, of generation 3: its only member is "m", whose instance id is "i"."""
    group = home.rooms.groups().add_classic("g")
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


def group_of(home: RoomsOnDisk) -> ClassicGroup:
    """Return the group."""
    group = home.rooms.groups().find("g")
    assert isinstance(group, ClassicGroup)
    return group


def in_state(state: GroupState) -> Callable[[RoomsOnDisk], None]:
    """Return what puts the group into a state."""

    def prepare(home: RoomsOnDisk) -> None:
        group_of(home).state = state

    return prepare


def loading(home: RoomsOnDisk) -> None:
    """Have its partition of the journal not read yet."""
    home.rooms.groups().journal._loading.add(0)


def as_it_is(_: RoomsOnDisk) -> None:
    """Leave everything as it is."""
