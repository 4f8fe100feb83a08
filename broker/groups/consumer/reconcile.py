"""One step of a member from what it owns to its target (Kafka: CurrentAssignmentBuilder).

A member keeps its epoch until it has given up the partitions that are not in its target. Then it
gets the target's epoch and all of the target's partitions that are free, and waits for the others.

| state | meaning | next step when |
| --- | --- | --- |
| STABLE | all of the target of its epoch | there is a newer target |
| UNREVOKED_PARTITIONS | told to give partitions up | it reports that it has |
| UNRELEASED_PARTITIONS | some of the target is another's | at every heartbeat |
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from uuid import UUID

from siltstone.broker.groups.consumer.member import Member, MemberState
from siltstone.protocol.coordinator.consumer_group_records import (
    CurrentAssignment,
    OwnedPartitions,
    Partitions,
)
from siltstone.protocol.coordinator.group_errors import FencedMemberEpoch


class Goal(NamedTuple):
    """The target of a member, and the conditions that limit its next step.

    ``is_available`` tells whether no other member holds a partition. ``topic_ids`` are the existing
    topics that the member subscribes to; nothing else may be assigned to it.
    """

    epoch: int
    target: Partitions
    topic_ids: AbstractSet[UUID]
    is_available: Callable[[UUID, int], bool]


def reconcile(
    member: Member, goal: Goal, owned: Partitions | None, *, subscription_changed: bool
) -> CurrentAssignment:
    """Return the member's next assignment, or its present one if it cannot move.

    Args:
        member: the member as it is.
        goal: its target assignment and the conditions for the next step.
        owned: the partitions that the member reports as owned; None if the heartbeat does not say.
        subscription_changed: whether the member may have to give up topics before there is a new
            target.

    Raises:
        FencedMemberEpoch: a newer broker left the member in a state that is not known here.
    """
    current, epoch = member.current, member.epoch
    match member.state:
        case MemberState.STABLE if epoch == goal.epoch:
            return _drop_topics(current, goal, owned) if subscription_changed else current
        case MemberState.UNREVOKED_PARTITIONS if _holds(owned, current.revoking):
            return _drop_topics(current, goal, owned) if subscription_changed else current
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise FencedMemberEpoch(
                    f"the state of member {member.id} is unknown: it must give up its partitions "
                    "and rejoin"
                )
            epoch = goal.epoch
    return _advance(current, epoch, goal, owned)


def _advance(
    current: CurrentAssignment, epoch: int, goal: Goal, owned: Partitions | None
) -> CurrentAssignment:
    """Give up partitions outside of the target; otherwise get the target's free ones."""
    target = {topic: each for topic, each in goal.target.items() if topic in goal.topic_ids}
    kept, revoking = _split(current.assigned, target)
    if revoking and _holds(owned, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return CurrentAssignment(epoch, current.member_epoch, state, kept, revoking)
    is_waiting = False
    for topic_id, partitions in target.items():
        wanted = partitions - kept.get(topic_id, {}).keys()
        free = {each for each in wanted if goal.is_available(topic_id, each)}
        is_waiting = is_waiting or len(free) < len(wanted)
        if free:
            kept[topic_id] = kept.get(topic_id, {}) | dict.fromkeys(free, goal.epoch)
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return CurrentAssignment(goal.epoch, current.member_epoch, state, kept, {})


def _drop_topics(
    current: CurrentAssignment, goal: Goal, owned: Partitions | None
) -> CurrentAssignment:
    """Give up topics that the member no longer subscribes to; the member keeps its epoch."""
    kept = {topic: each for topic, each in current.assigned.items() if topic in goal.topic_ids}
    if len(kept) == len(current.assigned):
        return current
    revoking = {topic: dict(each) for topic, each in current.revoking.items()}
    for topic_id, epochs in current.assigned.items():
        if topic_id not in kept:
            revoking[topic_id] = revoking.get(topic_id, {}) | dict(epochs)
    epoch = current.member_epoch
    if _holds(owned, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return CurrentAssignment(epoch, epoch, state, kept, revoking)
    return current._replace(previous_member_epoch=epoch, assigned=kept)


def _holds(owned: Partitions | None, partitions: OwnedPartitions) -> bool:
    """Tell whether the member owns one of these partitions, or did not report what it owns."""
    if owned is None:
        return True
    return any(
        not each.isdisjoint(partitions.get(topic_id, ())) for topic_id, each in owned.items()
    )


def _split(
    assigned: OwnedPartitions, target: Partitions
) -> tuple[dict[UUID, dict[int, int]], dict[UUID, dict[int, int]]]:
    """Return the assigned partitions that are in the target, and those that are not."""
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    for topic_id, epochs in assigned.items():
        wanted = target.get(topic_id, ())
        for partition, epoch in epochs.items():
            part = kept if partition in wanted else revoking
            part.setdefault(topic_id, {})[partition] = epoch
    return kept, revoking
