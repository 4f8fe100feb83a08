"""The assignors, which give partitions to members. A consumer group names the one that it wants.

An assignor is a pure function: it gets members by id and partition counts by topic id, and returns
the partitions of every member. There are Kafka's own two; plug-ins cannot be added.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace, nlargest
from itertools import chain as concat
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

Assigned: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; no topic without partitions."""

MAX_LOOKS: Final = 1_000_000
"""How many topics and members are looked at for chains: a tenth of a second."""


class MemberSpec(NamedTuple):
    """One member: the existing topics that it subscribes to, and its last target."""

    topic_ids: frozenset[UUID]
    target: Assigned
    instance_id: str | None = None


def assign_range(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assigned]:
    """Give each subscriber a range of each topic's partitions (RangeAssignor).

    The first ``partitions % subscribers`` members get one more. If topics have the same subscribers
    and equally many partitions, a member gets the same numbers of each, so that the topics can be
    joined. Static members come first, by instance id, since they keep their places; then the others
    come, by member id.
    """
    ordered = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    assigned: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, count in partition_counts.items():
        subscribers = [each for each in ordered if topic_id in members[each].topic_ids]
        if not subscribers:
            continue
        size, more = divmod(count, len(subscribers))
        start = 0
        for index, member_id in enumerate(subscribers):
            stop = start + size + (index < more)
            if start < stop:
                assigned[member_id][topic_id] = frozenset(range(start, stop))
            start = stop
    return dict(assigned)


def _rank(member_id: str, member: MemberSpec) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member_id


def assign_uniform(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assigned]:
    """Spread partitions evenly, and move few of them (UniformAssignor).

    Where all members subscribe to the same topics, `_deal_in_runs` does it. Otherwise each member
    first keeps those partitions of its last target to whose topics it still subscribes. Each
    partition that no member has goes to the subscriber with the fewest partitions. Then partitions
    move along the shortest chain of members, from a member to one with at least two fewer, until
    there is no such chain. That is the best balance possible for these subscriptions (a
    semi-matching without such a chain is optimal).

    All clients wait while this runs. So members with the same subscription are handled together.
    If very many subscriptions differ, it stops before the balance is the best possible.
    """
    if len({member.topic_ids for member in members.values()}) == 1:
        return _deal_in_runs(members, partition_counts)
    balance = _Balance(members, partition_counts)
    balance.keep_what_is_due()
    balance.hand_out()
    balance.level()
    return {
        member_id: {topic: frozenset(each) for topic, each in topics.items() if each}
        for member_id, topics in balance.assigned.items()
    }


def _deal_in_runs(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assigned]:
    """Give each member the average, rounded down or up (UniformHomogeneousAssignmentBuilder).

    Each member keeps the partitions of its last target up to its share. Free partitions are dealt
    in runs, one topic after the other; partitions that were taken from members come after them.
    Members that can keep one more than the rounded-down average get the higher share first; then
    the last members get it.
    """
    ordered = sorted(members)
    subscribed = members[ordered[0]].topic_ids
    free = {
        topic_id: set(range(partition_counts[topic_id]))
        for topic_id in sorted(subscribed & partition_counts.keys(), key=_bytes_of)
    }
    share, more = divmod(sum(map(len, free.values())), len(ordered))
    kept: dict[str, dict[UUID, set[int]]] = {}
    taken: list[tuple[UUID, list[int]]] = []
    unfilled: list[tuple[str, int]] = []
    for index, member_id in enumerate(ordered):
        has_extra = more > 0
        room = share + has_extra
        mine = kept[member_id] = {}
        for topic_id, partitions in members[member_id].target.items():
            due = sorted(free.get(topic_id, set()) & partitions)
            if due:
                free[topic_id].difference_update(due)
                taken.append((topic_id, due[room:]))
                if room:
                    mine[topic_id] = set(due[:room])
                room -= len(mine.get(topic_id, ()))
        if room and has_extra and len(ordered) - index > more:
            room -= 1
            has_extra = False
        if room:
            unfilled.append((member_id, room))
        more -= has_extra
    waiting = iter([*((topic_id, sorted(each)) for topic_id, each in free.items()), *taken])
    run: list[int] = []
    for member_id, room in unfilled:
        missing = room
        while missing:
            if not run:
                topic_id, run = next(waiting)
                continue
            kept[member_id].setdefault(topic_id, set()).update(run[:missing])
            missing, run = max(0, missing - len(run)), run[missing:]
    return {
        member_id: {topic_id: frozenset(each) for topic_id, each in mine.items()}
        for member_id, mine in kept.items()
    }


def _bytes_of(topic_id: UUID) -> bytes:
    return topic_id.bytes


class _Step(NamedTuple):
    """A partition of ``topic_id`` goes from the chain's previous member to ``member_id``."""

    topic_id: UUID
    member_id: str


class _Balance:
    """An assignment while partitions are moved to balance it."""

    def __init__(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]
    ) -> None:
        self.assigned: dict[str, dict[UUID, set[int]]] = {each: {} for each in sorted(members)}
        self._members = members
        self._counts = {
            topic_id: count for topic_id, count in partition_counts.items() if count > 0
        }
        self._load = dict.fromkeys(self.assigned, 0)
        alike: dict[frozenset[UUID], list[str]] = {}
        for member_id in self.assigned:
            alike.setdefault(members[member_id].topic_ids, []).append(member_id)
        choices: dict[UUID, list[int]] = defaultdict(list)
        for number, topic_ids in enumerate(alike):
            for topic_id in sorted(topic_ids, key=_bytes_of):
                choices[topic_id].append(number)
        audiences: dict[tuple[int, ...], int] = {}
        self._audience = {
            topic_id: audiences.setdefault(tuple(numbers), len(audiences))
            for topic_id, numbers in choices.items()
        }
        subscribed = list(alike.values())
        self._subscribers = [
            sorted(concat.from_iterable(subscribed[number] for number in numbers))
            for numbers in audiences
        ]
        self._looks = 0
        self._free = {
            topic_id: set(range(count))
            for topic_id, count in self._counts.items()
            if topic_id in self._audience
        }

    def keep_what_is_due(self) -> None:
        """Let each member keep the partitions of its last target that exist and are subscribed to.

        Where all subscribe to the same topics, no member keeps more than its share.
        """
        share, more = self._find_share()
        for member_id in self.assigned:
            member = self._members[member_id]
            due = {
                topic_id: self._free[topic_id] & partitions
                for topic_id, partitions in member.target.items()
                if topic_id in member.topic_ids and topic_id in self._free
            }
            room = share
            if more and sum(map(len, due.values())) > share:
                room, more = room + 1, more - 1
            for topic_id, partitions in due.items():
                kept = partitions if len(partitions) <= room else set(sorted(partitions)[:room])
                room -= len(kept)
                self._free[topic_id] -= kept
                self._give(member_id, topic_id, kept)

    def _find_share(self) -> tuple[int, int]:
        """Return how many partitions a member may keep, and how many members may keep one more.

        A member may keep all of its partitions, unless all members subscribe to the same topics.
        """
        total = sum(map(len, self._free.values()))
        if len(self._subscribers) != 1:
            return total, 0
        return divmod(total, len(self._subscribers[0]))

    def hand_out(self) -> None:
        """Give free partitions to subscribers with the fewest, rarest topics first."""
        by_choice = sorted(
            (topic_id for topic_id, free in self._free.items() if free),
            key=lambda each: (
                len(self._subscribers[self._audience[each]]),
                self._audience[each],
                each.bytes,
            ),
        )
        audience = -1
        waiting: list[tuple[int, str]] = []
        for topic_id in by_choice:
            if self._audience[topic_id] != audience:
                audience = self._audience[topic_id]
                waiting = [(self._load[each], each) for each in self._subscribers[audience]]
                heapify(waiting)
            for partition in sorted(self._free[topic_id]):
                load, member_id = waiting[0]
                self._give(member_id, topic_id, {partition})
                heapreplace(waiting, (load + 1, member_id))

    def level(self) -> None:
        """Move partitions from the member with the most, until no move helps or it takes too long.

        If a member finds no chain, no member that it reaches has two partitions fewer. Of the
        reached members, those with no more partitions than it has will not find a chain either, now
        or later.
        """
        settled: set[str] = set()
        fullest = [(-load, member_id) for member_id, load in self._load.items()]
        heapify(fullest)
        while fullest and self._looks < MAX_LOOKS:
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

        Among members that are equally far away, the one with the fewest partitions is chosen.
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
        """Yield once each member that could take a partition from a member of the ring.

        Topics with the same subscribers lead to the same members, in most cases to all members.
        """
        for giver in ring:
            for topic_id in self.assigned[giver]:
                if len(reached) == len(self.assigned):
                    return
                self._looks += 1
                audience = self._audience[topic_id]
                if audience in audiences:
                    continue
                audiences.add(audience)
                self._looks += len(self._subscribers[audience])
                for taker in self._subscribers[audience]:
                    if taker not in reached:
                        reached.add(taker)
                        came_by[taker] = giver, topic_id
                        yield taker

    def _move(self, member_id: str, chain: list[_Step]) -> None:
        """Move partitions along a chain: one, or several at once where loads differ much."""
        difference = self._load[member_id] - self._load[chain[-1].member_id]
        count = max(1, difference // len(self.assigned))
        giver = member_id
        for topic_id, taker in chain:
            count = min(count, len(self.assigned[giver][topic_id]))
            giver = taker
        giver = member_id
        for topic_id, taker in chain:
            partitions = self.assigned[giver][topic_id]
            before = self._members[giver].target.get(topic_id, frozenset())
            moved = nlargest(count, partitions, key=lambda each: (each not in before, each))
            partitions.difference_update(moved)
            if not partitions:
                del self.assigned[giver][topic_id]
            self._give(taker, topic_id, set(moved))
            self._load[giver] -= count
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


Assignor: TypeAlias = Callable[[Mapping[str, MemberSpec], Mapping[UUID, int]], dict[str, Assigned]]
ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"uniform": assign_uniform, "range": assign_range}
)
