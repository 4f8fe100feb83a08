"""The assignor ``simple`` (KIP-932): members share partitions as evenly as they can be shared.

Each partition gets as many members as every other one, so many that each member has something to
read; a member has as many partitions as the others, or one less. A member keeps what it has where
that fits.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from siltstone.protocol.coordinator.share_group_records import Partitions

NAME: Final = "simple"

_Place: TypeAlias = tuple[UUID, int]


class MemberSpec(NamedTuple):
    """A member as the assignor sees it: the topics that it reads, and what it was assigned."""

    topics: AbstractSet[UUID]
    target: Partitions


def assign(members: Mapping[str, MemberSpec], assignable: Partitions) -> dict[str, Partitions]:
    """Return each member's partitions among those of ``assignable``, which has sorted topics.

    Members of one subscription share all partitions; else those of each topic are shared on their
    own.
    """
    given: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in members}
    subscriptions = {frozenset(each.topics) for each in members.values()}
    groups = [list(assignable)] if len(subscriptions) == 1 else [[topic] for topic in assignable]
    for topics in groups:
        readers = [name for name, spec in members.items() if not spec.topics.isdisjoint(topics)]
        places = [(topic, each) for topic in topics for each in sorted(assignable[topic])]
        if not places or not readers:
            continue
        held = {name: _places(members[name].target, topics) for name in readers}
        for name, chosen in _share(places, readers, held).items():
            for topic, partition in chosen:
                given[name].setdefault(topic, set()).add(partition)
    return {
        name: {topic: frozenset(each) for topic, each in topics.items()}
        for name, topics in given.items()
    }


def _places(target: Partitions, topics: Iterable[UUID]) -> list[_Place]:
    return [(topic, each) for topic in topics for each in sorted(target.get(topic, ()))]


def _share(
    places: Sequence[_Place], members: Sequence[str], held: Mapping[str, Sequence[_Place]]
) -> dict[str, set[_Place]]:
    """Return the places of each member: first those that it keeps, then what is left in turn."""
    sharing = -(-len(members) // len(places))
    total = sharing * len(places)
    free = dict.fromkeys(places, sharing)
    room: dict[str, int] = {}
    chosen: dict[str, set[_Place]] = {}
    for number, member in enumerate(members):
        most = _ceil(total, number + 1, len(members)) - _ceil(total, number, len(members))
        known = [place for place in held[member] if place in free]
        chosen[member] = set(known[max(0, len(known) - most) :])
        room[member] = most - len(chosen[member])
        for place in chosen[member]:
            free[place] -= 1
    for member in members:  # as in Kafka the first ones give up what too many have
        for place in [each for each in held[member] if each in chosen[member] and free[each] < 0]:
            chosen[member].discard(place)
            free[place] += 1
            room[member] += 1
    waiting = deque(member for member in members if room[member])
    for place in places:
        for _ in range(len(waiting)):
            if not free[place]:
                break
            member = waiting.popleft()
            if place not in chosen[member]:
                chosen[member].add(place)
                free[place] -= 1
                room[member] -= 1
            if room[member]:
                waiting.append(member)
    return chosen


def _ceil(total: int, number: int, count: int) -> int:
    return -(-total * number // count)
