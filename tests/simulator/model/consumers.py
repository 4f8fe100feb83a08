"""A group of the consumer protocol (KIP-848), as far as it is known from answers to its members.

A member holds a partition from the moment at which it is told so until it says that it has given
the partition up, leaves, or has been silent for longer than the broker allows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.simulator.model.groups import GroupModel
from tests.simulator.model.log import Wrong
from tests.simulator.model.topics import Presence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulator.model.topics import TopicModel
    from tests.simulator.wire import Client

    Place = tuple[bytes, int]


class Consumer:
    """One member; ``epoch`` is 0 while it has not joined.

    ``told`` is its assignment, ``held`` what it has not given up yet, and ``since`` the epochs from
    which on it has partitions, as far as known. ``is_doubtful`` tells that the broker may have
    moved it on without its knowledge. ``alive_ms`` is how long it lives at least, ``seen_ms`` when
    it was last told to be a member, and ``revoke_ms`` how long at least it may keep what it must
    give up. ``is_free`` tells that nobody has its instance id.
    """

    def __init__(self, client: Client, instance_id: str | None, said: dict[str, Any]) -> None:
        self.client = client
        self.instance_id = instance_id
        self.said = said
        self.wants: list[str] | str = said["wants"]
        self.agreed: list[list[str] | str] = []
        self.version: int = said["version"]
        self.is_free = True
        self.is_busy = False
        self.forget()

    def forget(self) -> None:
        """Begin as a new member, which holds nothing."""
        self.id = ""
        self.epoch = 0
        self.is_doubtful = False
        self.told: set[Place] = set()
        self.held: set[Place] = set()
        self.since: dict[Place, int] = {}
        self.alive_ms = self.seen_ms = 0
        self.revoke_ms: int | None = None

    @property
    def generation(self) -> int:
        """The epoch, as the generation of a commit."""
        return self.epoch

    @property
    def is_member(self) -> bool:
        """Tell whether it has joined and not left."""
        return self.epoch > 0

    def holds_at(self, now_ms: int) -> bool:
        """Tell whether the broker cannot have removed it by itself yet."""
        return now_ms < self.alive_ms and (self.revoke_ms is None or now_ms < self.revoke_ms)

    def is_sure(self, now_ms: int) -> bool:
        """Tell whether the broker must know it as it knows itself."""
        return self.is_member and not self.is_doubtful and self.holds_at(now_ms)

    def unsure(self, sent_ms: int) -> None:
        """Note that a heartbeat had no sure answer: it may have had its effect."""
        self.is_doubtful = True
        self.must_revoke(sent_ms)

    def must_revoke(self, sent_ms: int) -> None:
        """Note that the broker may wait since a moment for partitions to be given up."""
        limit = sent_ms + self.said["timeout_ms"]
        self.revoke_ms = limit if self.revoke_ms is None else min(limit, self.revoke_ms)

    def give_up(self) -> None:
        """Give up what is not assigned any more; the next heartbeat says so."""
        self.held &= self.told

    def is_subscribed(self, name: str) -> bool:
        """Tell whether it may be subscribed to a topic, by what it has said so far."""
        return any(matches(each, name) for each in self.agreed)


def matches(wants: list[str] | str, name: str) -> bool:
    """Tell whether a list or an expression has a topic."""
    return bool(re.fullmatch(wants, name)) if isinstance(wants, str) else name in wants


class Band(GroupModel):
    """A group and its members; ``gone`` has the ids of members that have left for good."""

    members: list[Consumer]

    def __init__(self, name: str, members: list[Consumer]) -> None:
        super().__init__(name, members, "consumer")
        self.gone: set[str] = set()
        self.epoch = 0

    def is_sure(self, member: Consumer, now_ms: int) -> bool:
        """Tell whether the broker must know a member as it knows itself."""
        return member.is_sure(now_ms)

    def find_sure(self, now_ms: int, topic: str = "") -> set[str]:
        """Return the members that the group must have; with a topic, those that list it."""
        return {
            each.id
            for each in self.members
            if each.is_sure(now_ms)
            and (not topic or all(type(one) is list and topic in one for one in each.agreed))
        }

    def taken(
        self, member: Consumer, answer: Any, sent: tuple[int, int, set[str]], now_ms: int
    ) -> None:
        """Note the answer to a heartbeat that was taken.

        ``sent`` is when it was sent, in which epoch, and which members the group had for sure then.

        Answers to two heartbeats may be read in another order than the broker has served them, and
        a group that all have left begins again while a heartbeat is on its way.

        Raises:
            Wrong: An epoch went back, or the member got what another one holds.
        """
        what, epoch = f"{self.name}: member {answer.member_id}", answer.member_epoch
        sent_ms, before = sent[0], min(sent[1], self.epoch)
        stayed = [each for each in self.members if each.id in sent[2] and each.is_sure(now_ms)]
        is_new = not member.is_member
        others = [each for each in self.members if each is not member]
        if epoch < member.epoch or epoch < 1:
            raise Wrong(f"{what} is in epoch {epoch} after {member.epoch}")
        if is_new:
            if epoch < before and stayed:
                raise Wrong(f"{what} joins in epoch {epoch}, others were in {before}")
            if answer.assignment is None:
                raise Wrong(f"{what} joins and gets no assignment")
            self.epoch = epoch if epoch < before else self.epoch
            member.held.clear()
        self.epoch = max(epoch, self.epoch)
        if answer.assignment is not None:
            told = places_of(answer.assignment.topic_partitions)
            new = told - member.held
            for each in others:
                if new & each.held and each.holds_at(now_ms):
                    raise Wrong(f"{what} gets {sorted(new & each.held)}, which {each.id} holds")
            if not is_new and not member.is_doubtful:
                member.since |= dict.fromkeys(new, epoch)
            member.told = told
            member.held |= told
        if member.held == member.told:
            member.revoke_ms = None
        else:
            member.must_revoke(sent_ms)
        member.id, member.epoch = answer.member_id, epoch
        member.is_doubtful = False
        member.agreed = [member.wants]

    def check_names(self, member: Consumer, topics: Iterable[TopicModel]) -> None:
        """Compare an assignment with the member's subscription.

        Raises:
            Wrong: It has a topic that the member has not asked for.
        """
        ids = {topic_id for topic_id, _ in member.told}
        for topic in topics:
            if ids & {topic.topic_id, *topic.old_ids} and not member.is_subscribed(topic.name):
                raise Wrong(f"{self.name}: {member.id} gets {topic.name}; it wants {member.wants}")

    def restarted(self, way: str) -> None:
        """Note what members may find forgotten: after a power failure all."""
        for each in self.members:
            if way == "power":
                each.forget()
                each.is_free = False
            elif each.is_busy:
                each.is_doubtful = True
            each.is_busy = False
        if way == "power":
            self.gone.clear()
            self.epoch = 0

    def find_fault(self, described: Any, topics: Iterable[TopicModel]) -> str | None:
        """Return why a group whose members have all beaten is not at rest, None if it is.

        When a member goes over to an expression that matches no topic, the epoch does not rise, as
        in Kafka: what the target gives that member stays without an owner.
        """
        live = {each.id: each for each in self.members if each.is_member}
        told = {each.member_id: each for each in described.members}
        present = [each for each in topics if each.presence is Presence.PRESENT]
        for each in live.values():
            is_empty = not any(matches(each.wants, topic.name) for topic in present)
            if is_empty and each.id in told and told[each.id].target_assignment.topic_partitions:
                return None
        wanted = {
            (topic.topic_id, place)
            for topic in present
            if any(matches(each.wants, topic.name) for each in live.values())
            for place in range(topic.partitions)
        }
        owned = sorted(place for each in live.values() for place in each.told)
        sizes = [len(each.told) for each in live.values()]
        is_alike = len({str(each.wants) for each in live.values()}) == 1
        faults = {
            f"its members are {sorted(told)}, not {sorted(live)}": told.keys() != live.keys(),
            f"it is {described.group_state}": described.group_state != "Stable",
            f"{owned} are assigned, of {sorted(wanted)}": owned != sorted(wanted),
            f"its members have {sizes} partitions": is_alike
            and described.assignor_name == "uniform"
            and max(sizes) > min(sizes) + 1,
        }
        for each in told.values():
            member = live.get(each.member_id)
            place = (each.assignment, each.target_assignment)
            theirs = [places_of(one.topic_partitions) for one in place]
            if member is not None:
                faults |= {
                    f"{each.member_id} has {sorted(member.told)}, of {theirs}": theirs
                    != [member.told] * 2,
                    f"{each.member_id} is in epoch {member.epoch} of {described.group_epoch}": not (
                        member.epoch == each.member_epoch == described.group_epoch
                    ),
                }
        return next((fault for fault, is_there in faults.items() if is_there), None)


def places_of(topics: Iterable[Any]) -> set[Place]:
    """Return the partitions of an assignment."""
    return {(each.topic_id, place) for each in topics for place in each.partitions}
