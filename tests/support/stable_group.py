"""The classic group "g" of a test's rooms, and what may be the matter when a request comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.groups.classic.group import ClassicGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.groups.classic.state_names import GroupState
    from tests.support.rooms import RoomsOnDisk


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
