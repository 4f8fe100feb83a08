"""The assignor "uniform": partitions are spread evenly, and few of them move (UniformAssignor).

Each member first keeps those of its last target to whose topics it still subscribes. Partitions
that nobody has go to the subscriber with the fewest. Then partitions move along the shortest chain
of members, from a member to one with at least two fewer, until there is no such chain. That is the
best balance possible for these subscriptions (a semi-matching without such a chain is optimal).
Where all subscribe to the same topics, each member gets the average, rounded down or up.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple
from uuid import UUID

from siltstone.broker.groups.consumer.assignors.spec import Assigned, MemberSpec


def assign(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assigned]:
    """Return every member's partitions."""
    balance = _Balance(members, partition_counts)
    balance.keep_what_is_due()
    balance.hand_out()
    balance.level()
    return {
        member_id: {topic: frozenset(each) for topic, each in topics.items() if each}
        for member_id, topics in balance.assigned.items()
    }


class _Step(NamedTuple):
    """A partition of ``topic_id`` goes from the chain's previous member to ``member_id``."""

    topic_id: UUID
    member_id: str


class _Balance:
    """An assignment that is being balanced."""

    def __init__(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]
    ) -> None:
        self.assigned: dict[str, dict[UUID, set[int]]] = {each: {} for each in sorted(members)}
        self._members = members
        self._counts = {
            topic_id: count for topic_id, count in partition_counts.items() if count > 0
        }
        self._load = dict.fromkeys(self.assigned, 0)
        self._subscribers: dict[UUID, list[str]] = defaultdict(list)
        for member_id in self.assigned:
            for topic_id in members[member_id].topic_ids:
                self._subscribers[topic_id].append(member_id)
        audiences: dict[tuple[str, ...], int] = {}
        self._audience = {
            topic_id: audiences.setdefault(tuple(subscribers), len(audiences))
            for topic_id, subscribers in self._subscribers.items()
        }
        self._free = {
            topic_id: set(range(count))
            for topic_id, count in self._counts.items()
            if topic_id in self._subscribers
        }

    def keep_what_is_due(self) -> None:
        """Leave to each member those of its last target that exist and that it subscribes to."""
        for member_id in self.assigned:
            member = self._members[member_id]
            for topic_id, partitions in member.target.items():
                if topic_id in member.topic_ids and topic_id in self._free:
                    kept = self._free[topic_id] & partitions
                    self._free[topic_id] -= kept
                    self._give(member_id, topic_id, kept)

    def hand_out(self) -> None:
        """Give partitions that nobody has to subscribers with the fewest, rarest topics first."""
        by_choice = sorted(self._free, key=lambda each: (len(self._subscribers[each]), each.bytes))
        for topic_id in by_choice:
            waiting = [(self._load[each], each) for each in self._subscribers[topic_id]]
            heapify(waiting)
            for partition in sorted(self._free[topic_id]):
                load, member_id = waiting[0]
                self._give(member_id, topic_id, {partition})
                heapreplace(waiting, (load + 1, member_id))

    def level(self) -> None:
        """Move partitions, one at a time from the member with the most, until no move helps.

        If a member finds no chain, no member that it reaches has two fewer. Those of them that have
        no more than it has will not find a chain either, now or after other moves.
        """
        settled: set[str] = set()
        fullest = [(-load, member_id) for member_id, load in self._load.items()]
        heapify(fullest)
        while fullest:
            load, member_id = -fullest[0][0], fullest[0][1]
            if member_id in settled or load != self._load[member_id]:
                heappop(fullest)
                continue
            chain, reached = self._find_chain(member_id)
            if chain is None:
                settled.update(each for each in reached if self._load[each] <= load)
            else:
                self._move(member_id, chain)
                for each in (member_id, chain[-1].member_id):
                    heappush(fullest, (-self._load[each], each))

    def _find_chain(self, member_id: str) -> tuple[list[_Step] | None, set[str]]:
        """Return the shortest chain to a member with at least two fewer, and the members reached.

        Of members equally far away it takes the one with the fewest.
        """
        enough = self._load[member_id] - 2
        came_by: dict[str, tuple[str, UUID]] = {}
        reached, audiences = {member_id}, set[int]()
        ring = [member_id]
        while ring:
            ring = list(self._neighbours(ring, reached, audiences, came_by))
            lowest = min(ring, key=self._load.__getitem__, default=None)
            if lowest is not None and self._load[lowest] <= enough:
                return _chain_to(lowest, member_id, came_by), reached
        return None, reached

    def _neighbours(
        self,
        ring: list[str],
        reached: set[str],
        audiences: set[int],
        came_by: dict[str, tuple[str, UUID]],
    ) -> Iterator[str]:
        """Yield, once each, the members that could take a partition from one of the ring.

        Topics with the same subscribers lead to the same members, mostly to all.
        """
        for giver in ring:
            for topic_id, partitions in self.assigned[giver].items():
                if len(reached) == len(self.assigned):
                    return
                audience = self._audience[topic_id]
                if not partitions or audience in audiences:
                    continue
                audiences.add(audience)
                for taker in self._subscribers[topic_id]:
                    if taker not in reached:
                        reached.add(taker)
                        came_by[taker] = giver, topic_id
                        yield taker

    def _move(self, member_id: str, chain: list[_Step]) -> None:
        giver = member_id
        for topic_id, taker in chain:
            partitions = self.assigned[giver][topic_id]
            before = self._members[giver].target.get(topic_id, frozenset())
            partition = max(partitions, key=lambda each: (each not in before, each))
            partitions.remove(partition)
            self._give(taker, topic_id, {partition})
            self._load[giver] -= 1
            giver = taker

    def _give(self, member_id: str, topic_id: UUID, partitions: set[int]) -> None:
        if partitions:
            self.assigned[member_id].setdefault(topic_id, set()).update(partitions)
            self._load[member_id] += len(partitions)


def _chain_to(last: str, first: str, came_by: Mapping[str, tuple[str, UUID]]) -> list[_Step]:
    chain = []
    member_id = last
    while member_id != first:
        giver, topic_id = came_by[member_id]
        chain.append(_Step(topic_id, member_id))
        member_id = giver
    return chain[::-1]
